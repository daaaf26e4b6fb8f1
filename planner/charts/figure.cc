// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/figure.h"

#include <algorithm>

#include "planner/charts/axes.h"
#include "planner/charts/charts.h"
#include "planner/charts/text_measure.h"

namespace gpumem::plots {
namespace {

constexpr double kMargin = 28, kBetween = 40;
constexpr double kNoteSize = 16;

// Lines of a figure's head or foot, wrapped before the height of the picture is known.
struct Lines {
  std::vector<std::string> texts;
  double size;
  double height() const { return static_cast<double>(texts.size()) * size * kLineHeight; }
};

double DrawLines(const Lines& lines, double top, TextLook look, Canvas* canvas) {
  look.size = lines.size;
  for (const std::string& text : lines.texts) {
    canvas->Text({kMargin, top + lines.size}, text, look);
    top += lines.size * kLineHeight;
  }
  return top;
}

void DrawPanel(const Panel& panel, const Box& box, Canvas* canvas) {
  double top = 0;
  if (!panel.title.empty()) {
    // A long title gets smaller before it is cut.
    const double wanted = box.width / std::max(TextWidth(panel.title, 1, /*bold=*/true), 0.01);
    const double size = std::clamp(wanted, kLabelSize, kPanelTitleSize);
    canvas->Text({box.left, box.top + kPanelTitleSize}, FitText(panel.title, size, box.width, /*bold=*/true),
                 {.size = size, .bold = true});
    top += kPanelTitleSize * kLineHeight;
  }
  if (!panel.note.empty()) {
    canvas->Text({box.left, box.top + top + kNoteSize}, FitText(panel.note, kNoteSize, box.width),
                 {.size = kNoteSize, .color = kAside});
    top += kNoteSize * kLineHeight;
  }
  const Box inner = Inset(box, 0, top + 6, 0, 0);
  std::visit([&](const auto& chart) { Draw(chart, inner, canvas); }, panel.chart);
}

}  // namespace

Canvas DrawFigure(const Figure& figure) {
  const double room = figure.width - 2 * kMargin;
  const Lines title = {WrapText(figure.title, kFigureTitleSize, room, 2, /*bold=*/true), kFigureTitleSize};
  const Lines subtitle = {WrapText(figure.subtitle, kSubtitleSize, room, 2), kSubtitleSize};
  Lines notes = {{}, kNoteSize};
  for (const std::string& note : figure.notes) {
    for (std::string& line : WrapText(note, kNoteSize, room, 2)) notes.texts.push_back(std::move(line));
  }
  double height = kMargin + title.height() + subtitle.height() + notes.height() + kMargin;
  for (const FigureRow& row : figure.rows) height += row.height + kBetween / 2;
  Canvas canvas(figure.width, height);
  double top = DrawLines(title, kMargin * 0.7, {.bold = true}, &canvas);
  top = DrawLines(subtitle, top, {.color = kAside}, &canvas) + kBetween / 2;
  for (const FigureRow& row : figure.rows) {
    const double count = static_cast<double>(row.panels.size());
    const double width = (room - kBetween * (count - 1)) / count;
    for (size_t i = 0; i < row.panels.size(); ++i)
      DrawPanel(row.panels[i], {kMargin + static_cast<double>(i) * (width + kBetween), top, width, row.height},
                &canvas);
    top += row.height + kBetween / 2;
  }
  DrawLines(notes, top, {.color = kAside}, &canvas);
  return canvas;
}

}  // namespace gpumem::plots
