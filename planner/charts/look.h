// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Sizes that all charts share, in points. A figure is 1200 points wide and is often seen at a third of that, so text is
// large and lines are thick.

#ifndef GPUMEM_PLANNER_CHARTS_LOOK_H_
#define GPUMEM_PLANNER_CHARTS_LOOK_H_

namespace gpumem::plots {

inline constexpr double kFigureTitleSize = 34, kSubtitleSize = 19, kPanelTitleSize = 24, kLabelSize = 17,
                        kSmallestSize = 11;
inline constexpr double kLineWidth = 3.5, kGridWidth = 1.2, kMarkRadius = 6;
inline constexpr double kGap = 8;            // between a thing and its label
inline constexpr double kLineHeight = 1.35;  // of a text's size

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_LOOK_H_
