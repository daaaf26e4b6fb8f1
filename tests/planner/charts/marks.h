// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What tests ask of a drawn picture.

#ifndef GPUMEM_TESTS_ANALYZER_PLOTS_MARKS_H_
#define GPUMEM_TESTS_ANALYZER_PLOTS_MARKS_H_

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "planner/charts/canvas.h"
#include "planner/charts/text_measure.h"

namespace gpumem::plots::testing {

inline std::vector<TextMark> Texts(const Canvas& canvas) {
  std::vector<TextMark> texts;
  for (const Mark& mark : canvas.marks()) {
    if (const auto* text = std::get_if<TextMark>(&mark)) texts.push_back(*text);
  }
  return texts;
}

inline std::vector<std::string> Words(const Canvas& canvas) {
  std::vector<std::string> words;
  for (const TextMark& text : Texts(canvas)) words.push_back(text.text);
  return words;
}

// The box of a level text, somewhat smaller than its letters.
inline Box BoxOf(const TextMark& text) {
  const double width = TextWidth(text.text, text.look.size, text.look.bold);
  const double left = text.at.x - width * 0.5 * static_cast<double>(text.look.anchor);
  return {left, text.at.y - text.look.size * 0.7, width, text.look.size * 0.7};
}

inline bool Overlap(const Box& a, const Box& b) {
  return a.left < b.right() && b.left < a.right() && a.top < b.bottom() && b.top < a.bottom();
}

// Pairs of level texts that lie over each other: "256 / 512".
inline std::vector<std::string> OverlappingTexts(const Canvas& canvas) {
  std::vector<std::string> pairs;
  std::vector<TextMark> texts = Texts(canvas);
  std::erase_if(texts, [](const TextMark& text) { return text.look.degrees != 0; });
  for (size_t i = 0; i < texts.size(); ++i) {
    for (size_t j = i + 1; j < texts.size(); ++j) {
      if (Overlap(BoxOf(texts[i]), BoxOf(texts[j]))) pairs.push_back(texts[i].text + " / " + texts[j].text);
    }
  }
  return pairs;
}

// Texts whose end, as it is turned, lies outside of the picture.
inline std::vector<std::string> TextsBeyondTheEdge(const Canvas& canvas) {
  std::vector<std::string> beyond;
  for (const TextMark& text : Texts(canvas)) {
    const double width = TextWidth(text.text, text.look.size, text.look.bold);
    const double angle = text.look.degrees * 3.14159265358979 / 180;
    for (const double along : {0.0, 1.0}) {
      const double shift = (along - 0.5 * static_cast<double>(text.look.anchor)) * width;
      const double x = text.at.x + shift * std::cos(angle), y = text.at.y + shift * std::sin(angle);
      if (x < 0 || y < 0 || x > canvas.width() || y > canvas.height()) beyond.push_back(text.text);
    }
  }
  return beyond;
}

}  // namespace gpumem::plots::testing

#endif  // GPUMEM_TESTS_ANALYZER_PLOTS_MARKS_H_
