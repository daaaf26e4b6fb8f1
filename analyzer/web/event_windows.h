// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// EventWindows: the stretches of a trace of which a page has every single event, at most so many events in all. What
// comes first has room. Not thread-safe; a value.
//
//   EventWindows windows(8192);
//   windows.Add(peak - 1024, peak + 1024);
//   if (windows.Has(event)) ...

#ifndef GPUMEM_ANALYZER_WEB_EVENT_WINDOWS_H_
#define GPUMEM_ANALYZER_WEB_EVENT_WINDOWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

struct EventRange {
  uint64_t from = 0, until = 0;  // numbers of events; `until` is not part of it

  bool operator==(const EventRange& other) const { return from == other.from && until == other.until; }
};

// The longest that can be asked for at once.
inline constexpr uint64_t kMostAskedEvents = 4'096;

// "1200-1500": events 1200 to 1499. InvalidArgument: it is not this, is empty, or too long.
absl::StatusOr<EventRange> ParseEventRange(absl::string_view text);

class EventWindows {
 public:
  explicit EventWindows(uint64_t most_events) : room_(most_events) {}

  // Nothing where it does not fit any more.
  void Add(uint64_t from, uint64_t until);
  bool Has(uint64_t event) const;
  // Ascending and apart from one another.
  const std::vector<EventRange>& ranges() const { return ranges_; }

 private:
  uint64_t room_;
  std::vector<EventRange> ranges_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_EVENT_WINDOWS_H_
