// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReplayWork: bounds what the events of a trace can make a replay do. Nearly all events cost the same; a few look at
// everything that is alive (a device that is reset) or at many events behind them (Lookahead). Those count what they
// look at. A trace that was made to cost much is given up, at the same event in each replay of it, since the counts are
// part of the state. Copyable value.
//
//   if (!work.CountEvent()) return;   // given up
//   work.Spend(blocks.size());

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_WORK_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_WORK_H_

#include <cstdint>

namespace gpumem {

class ReplayWork {
 public:
  // For each event, and for the whole trace: a program of a thousand threads needs less.
  static constexpr uint64_t kPerEvent = 1024;
  static constexpr uint64_t kFree = 1u << 26;

  // False: no further event is to be replayed.
  bool CountEvent() {
    if (spent_ > kFree + kPerEvent * events_) return false;
    ++events_;
    return true;
  }
  void Spend(uint64_t looked_at) { spent_ += looked_at; }

  bool exhausted() const { return spent_ > kFree + kPerEvent * events_; }
  uint64_t events() const { return events_; }

 private:
  uint64_t events_ = 0, spent_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_WORK_H_
