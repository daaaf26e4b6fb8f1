// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Colours of pictures. The palette is Okabe and Ito's: people who cannot tell red from green tell these apart, and on
// paper without colour they differ in lightness. Pure functions.
//
//   canvas.Rectangle(box, PaletteColor(0));

#ifndef GPUMEM_PLANNER_CHARTS_COLOR_H_
#define GPUMEM_PLANNER_CHARTS_COLOR_H_

#include <cstddef>
#include <cstdint>

namespace gpumem::plots {

struct Color {
  uint8_t red = 0, green = 0, blue = 0;
  double alpha = 1;  // 0: invisible
  friend bool operator==(const Color&, const Color&) = default;
};

inline constexpr Color kInk{34, 34, 34}, kAside{110, 110, 110}, kGrid{225, 225, 225}, kPaper{255, 255, 255};
inline constexpr Color kAlarm{196, 43, 28};  // does not fit, the device's limit
inline constexpr Color kMissing{236, 236, 236};

// Of the series number `index`; after eight they are repeated, lighter.
Color PaletteColor(size_t index);

// `share` of `to`, the rest of `from`. Shares past [0, 1] count as its ends.
Color Mix(Color from, Color to, double share);
Color WithAlpha(Color color, double alpha);

// From light (0) to dark (1), evenly in lightness: for values of a heatmap.
Color ScaleColor(double share);

// kInk or kPaper, whichever reads better on `background`.
Color TextColorOn(Color background);

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_COLOR_H_
