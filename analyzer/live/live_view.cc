// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/live_view.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

constexpr size_t kLongestTyped = 200;

bool Holds(const LiveLine& line, const std::string& lower) {
  return absl::StrContains(absl::AsciiStrToLower(line.site), lower) ||
         absl::StrContains(absl::AsciiStrToLower(line.through), lower) ||
         absl::StrContains(CategoryName(line.category), lower);
}

void EraseLast(std::string* text) {
  while (!text->empty() && (static_cast<uint8_t>(text->back()) & 0xC0) == 0x80) text->pop_back();
  if (!text->empty()) text->pop_back();
}

}  // namespace

absl::string_view LiveSortName(LiveView::Sort sort) {
  constexpr std::array<absl::string_view, 4> kNames = {"bytes", "change", "blocks", "line"};
  return kNames[static_cast<size_t>(sort)];
}

const LiveProcess* LiveView::Selected(const LiveFrame& frame) const {
  if (frame.processes.empty()) return nullptr;
  if (has_selected_) return &frame.processes[std::min(selected_, frame.processes.size() - 1)];
  for (const LiveProcess& process : frame.processes) {
    if (process.state == LiveProcess::State::kRunning) return &process;
  }
  return &frame.processes.front();
}

std::vector<LiveLine> LiveView::Lines(const LiveProcess& process) const {
  std::vector<LiveLine> lines = process.lines;
  const std::string lower = absl::AsciiStrToLower(typing_ == Typing::kFilter ? typed_ : filter_);
  std::erase_if(lines, [&](const LiveLine& line) { return !lower.empty() && !Holds(line, lower); });
  std::stable_sort(lines.begin(), lines.end(), [&](const LiveLine& a, const LiveLine& b) {
    switch (sort_) {
      case Sort::kChange:
        return a.change.value_or(0) > b.change.value_or(0);
      case Sort::kBlocks:
        return a.blocks > b.blocks;
      case Sort::kName:
        return a.site < b.site;
      case Sort::kBytes:
        break;
    }
    return a.bytes > b.bytes;
  });
  return lines;
}

void LiveView::Select(int by, const LiveFrame& frame) {
  if (frame.processes.empty()) return;
  const LiveProcess* const now = Selected(frame);
  const auto place = static_cast<std::ptrdiff_t>(now - frame.processes.data()) + by;
  const auto last = static_cast<std::ptrdiff_t>(frame.processes.size()) - 1;
  selected_ = static_cast<size_t>(std::clamp<std::ptrdiff_t>(place, 0, last));
  has_selected_ = true;
}

LiveAction LiveView::Type(int32_t key) {
  if (key == kKeyEscape) {
    typing_ = Typing::kNothing;
    typed_.clear();
  } else if (key == kKeyErase) {
    EraseLast(&typed_);
  } else if (key == kKeyEnter) {
    const Typing what = std::exchange(typing_, Typing::kNothing);
    std::string text = std::exchange(typed_, "");
    if (what == Typing::kMark && !text.empty()) return {LiveAction::Kind::kMark, std::move(text)};
    if (what == Typing::kFilter) filter_ = std::move(text);
  } else if (key > 0 && !IsMisleading(static_cast<char32_t>(key)) && typed_.size() < kLongestTyped) {
    AppendUtf8(static_cast<char32_t>(key), &typed_);
  }
  return {};
}

LiveAction LiveView::Press(int32_t key, const LiveFrame& frame) {
  message_.clear();
  if (typing_ != Typing::kNothing) return Type(key);
  if (std::exchange(shows_help_, false)) return {};  // any key closes it
  switch (key) {
    case 'q':
      return {LiveAction::Kind::kQuit, ""};
    case 'd':
      return {LiveAction::Kind::kDump, ""};
    case 'p':
    case ' ':
      is_paused_ = !is_paused_;
      break;
    case 's':
      sort_ = static_cast<Sort>((static_cast<int>(sort_) + 1) % 4);
      break;
    case '/':
    case 'f':
      typing_ = Typing::kFilter;
      typed_ = filter_;
      break;
    case 'm':
      typing_ = Typing::kMark;
      break;
    case '?':
    case 'h':
      shows_help_ = true;
      break;
    case kKeyEscape:
      filter_.clear();
      break;
    case kKeyUp:
    case 'k':
      Select(-1, frame);
      break;
    case kKeyDown:
    case 'j':
      Select(1, frame);
      break;
    default:
      break;
  }
  return {};
}

}  // namespace gpumem
