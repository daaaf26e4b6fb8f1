// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/event_windows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gpumem {
namespace {

// Digits alone: SimpleAtoi takes signs and spaces, too.
bool ParseEvent(absl::string_view text, uint64_t* event) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isdigit(c); }) &&
         absl::SimpleAtoi(text, event);
}

}  // namespace

absl::StatusOr<EventRange> ParseEventRange(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('-', 1));
  EventRange range;
  if (!ParseEvent(parts.first, &range.from) || !ParseEvent(parts.second, &range.until) || range.from >= range.until)
    return absl::InvalidArgumentError("a stretch of events is FROM-UNTIL, two numbers, the smaller first: 1200-1500");
  if (range.until - range.from > kMostAskedEvents) {
    return absl::InvalidArgumentError(
        absl::StrCat("at most ", kMostAskedEvents, " single events can be asked for, not ", range.until - range.from));
  }
  return range;
}

void EventWindows::Add(uint64_t from, uint64_t until) {
  std::vector<EventRange> merged;
  EventRange added{from, until};
  uint64_t events = 0;
  for (const EventRange& range : ranges_) {
    if (range.until < added.from || range.from > added.until) {
      merged.push_back(range);
      events += range.until - range.from;
    } else {
      added = {std::min(range.from, added.from), std::max(range.until, added.until)};
    }
  }
  if (from >= until || events + (added.until - added.from) > room_) return;
  const auto place =
      std::find_if(merged.begin(), merged.end(), [&](const EventRange& each) { return each.from > added.from; });
  merged.insert(place, added);
  ranges_ = std::move(merged);
}

bool EventWindows::Has(uint64_t event) const {
  const auto behind = std::upper_bound(ranges_.begin(), ranges_.end(), event,
                                       [](uint64_t number, const EventRange& range) { return number < range.until; });
  return behind != ranges_.end() && behind->from <= event;
}

}  // namespace gpumem
