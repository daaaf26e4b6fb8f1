// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What tests ask of a drawn picture.

#ifndef GPUMEM_TESTS_ANALYZER_PLOTS_MARKS_H_
#define GPUMEM_TESTS_ANALYZER_PLOTS_MARKS_H_

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
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

// Marks with a number that is none: in a text, in a size or in a width.
inline std::vector<std::string> OddNumbers(const Canvas& canvas) {
  std::vector<std::string> odd;
  const auto expect_finite = [&odd](const char* what, double value) {
    if (!std::isfinite(value)) odd.push_back(what);
  };
  const auto expect_stroke = [&](const std::optional<Stroke>& stroke) {
    if (stroke.has_value()) expect_finite("a stroke's width", stroke->width);
  };
  expect_finite("the picture's width", canvas.width());
  expect_finite("the picture's height", canvas.height());
  for (const Mark& mark : canvas.marks()) {
    if (const auto* path = std::get_if<PathMark>(&mark)) {
      for (const Point& point : path->points) expect_finite("a point of a path", point.x + point.y);
      expect_stroke(path->stroke);
    } else if (const auto* circle = std::get_if<CircleMark>(&mark)) {
      expect_finite("a circle", circle->center.x + circle->center.y + circle->radius);
      expect_stroke(circle->stroke);
    } else if (const auto* text = std::get_if<TextMark>(&mark)) {
      expect_finite("a text's place or size", text->at.x + text->at.y + text->look.size);
      if (absl::StrContains(text->text, "nan") || absl::StartsWith(text->text, "inf")) odd.push_back(text->text);
    }
  }
  return odd;
}

}  // namespace gpumem::plots::testing

#endif  // GPUMEM_TESTS_ANALYZER_PLOTS_MARKS_H_
