// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/svg.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/utf8.h"

namespace gpumem::plots {
namespace {

std::string Number(double value) {
  const double rounded = std::round(value * 100) / 100;
  return absl::StrFormat("%.8g", rounded == 0 ? 0 : rounded);  // never "-0"
}

std::string ColorText(Color color) { return absl::StrFormat("#%02x%02x%02x", color.red, color.green, color.blue); }

std::string Paint(absl::string_view name, Color color) {
  std::string text = absl::StrCat(" ", name, "=\"", ColorText(color), "\"");
  if (color.alpha < 1) absl::StrAppend(&text, " ", name, "-opacity=\"", Number(color.alpha), "\"");
  return text;
}

std::string StrokeText(const std::optional<Stroke>& stroke) {
  if (!stroke.has_value()) return "";
  return absl::StrCat(Paint("stroke", stroke->color), " stroke-width=\"", Number(stroke->width), "\"",
                      stroke->dashed ? absl::StrCat(" stroke-dasharray=\"", Number(4 * stroke->width), " ",
                                                    Number(3 * stroke->width), "\"")
                                     : "");
}

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(EscapeControls(text),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

void Append(const PathMark& mark, std::string* out) {
  absl::StrAppend(out, "<path d=\"");
  for (size_t i = 0; i < mark.points.size(); ++i)
    absl::StrAppend(out, i == 0 ? "M" : "L", Number(mark.points[i].x), " ", Number(mark.points[i].y));
  absl::StrAppend(out, mark.closed ? "Z" : "", "\"",
                  mark.fill.has_value() ? Paint("fill", *mark.fill) : " fill=\"none\"", StrokeText(mark.stroke),
                  "/>\n");
}

void Append(const CircleMark& mark, std::string* out) {
  absl::StrAppend(out, "<circle cx=\"", Number(mark.center.x), "\" cy=\"", Number(mark.center.y), "\" r=\"",
                  Number(mark.radius), "\"", Paint("fill", mark.fill), StrokeText(mark.stroke), "/>\n");
}

void Append(const TextMark& mark, std::string* out) {
  constexpr absl::string_view kAnchors[] = {"start", "middle", "end"};
  const std::string x = Number(mark.at.x), y = Number(mark.at.y);
  absl::StrAppend(out, "<text x=\"", x, "\" y=\"", y, "\" font-size=\"", Number(mark.look.size), "\" text-anchor=\"",
                  kAnchors[static_cast<size_t>(mark.look.anchor)], "\"", Paint("fill", mark.look.color),
                  mark.look.bold ? " font-weight=\"bold\"" : "");
  if (mark.look.degrees != 0)
    absl::StrAppend(out, " transform=\"rotate(", Number(mark.look.degrees), " ", x, " ", y, ")\"");
  absl::StrAppend(out, ">", Escaped(mark.text), "</text>\n");
}

}  // namespace

std::string SvgText(const Canvas& canvas) {
  const std::string width = Number(canvas.width()), height = Number(canvas.height());
  std::string out = absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
                                 "\" viewBox=\"0 0 ", width, " ", height,
                                 "\" font-family=\"DejaVu Sans, Verdana, sans-serif\" stroke-linejoin=\"round\">\n");
  absl::StrAppend(&out, "<rect width=\"100%\" height=\"100%\" fill=\"", ColorText(kPaper), "\"/>\n");
  for (const Mark& mark : canvas.marks()) std::visit([&out](const auto& each) { Append(each, &out); }, mark);
  return out + "</svg>\n";
}

}  // namespace gpumem::plots
