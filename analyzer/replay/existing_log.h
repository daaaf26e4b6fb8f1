// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ExistingLog: for each time that recording began while the program was under way, what is known of the memory that was
// there. Not thread-safe.
//
//   log.Took(snapshot);             // in front of the event that says that recording begins
//   log.Start(time_ns);             // that event
//   log.End(result);                // EXISTING_END

#ifndef GPUMEM_ANALYZER_REPLAY_EXISTING_LOG_H_
#define GPUMEM_ANALYZER_REPLAY_EXISTING_LOG_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace gpumem {

struct LiveSnapshotBatch;

struct ExistingAtStart {
  uint64_t time_ns = 0;
  bool known = false;     // PyTorch's blocks and segments were taken over from its snapshot
  bool answered = false;  // false: the program was not asked, or has not answered so far
  int result = 0;         // trace.proto, ExistingResult
  uint64_t blocks = 0, segments = 0;
  uint64_t allocated_bytes = 0, reserved_bytes = 0;
  uint64_t lost = 0;  // blocks and segments that the snapshot had and the trace lacks
};

class ExistingLog {
 public:
  void Took(const LiveSnapshotBatch& snapshot);
  void Start(uint64_t time_ns) {
    if (starts_.size() == kMostStarts) return;
    starts_.push_back(taken_.value_or(ExistingAtStart{}));
    starts_.back().time_ns = time_ns;
    taken_.reset();
  }
  void End(int result) {
    if (starts_.empty()) return;
    starts_.back().answered = true;
    starts_.back().result = result;
  }

  const std::vector<ExistingAtStart>& starts() const { return starts_; }

 private:
  static constexpr size_t kMostStarts = 10000;
  std::optional<ExistingAtStart> taken_;
  std::vector<ExistingAtStart> starts_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_EXISTING_LOG_H_
