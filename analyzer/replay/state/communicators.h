// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Communicators of NCCL. OpenCommunicators: those that are being made, so that what is allocated meanwhile is known to
// be theirs: what the thread that makes one allocates, and threads that make none, NCCL's own, where one alone is being
// made on the device. Copyable value; not thread-safe. Ends may be missing: a thread makes one at a time, and so many
// that are open at once are none.
//
//   if (row.kind == trace::COMMUNICATOR) open.Apply(row);
//   allocation.communicator = open.MakerOf(row.thread, slot);   // 0: none

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_COMMUNICATORS_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_COMMUNICATORS_H_

#include <cstdint>
#include <vector>

#include "replay/state/accounts.h"
#include "trace/event_batch.h"

namespace gpumem {

// One that was made, as its events say.
struct Communicator {
  uint32_t number = 0;  // of the process, from 1
  uint32_t ranks = 0;   // 0 = not known
  int64_t rank = -1;    // of this process; -1 = not known, or all of them
  uint64_t stack_id = 0;
};

class OpenCommunicators {
 public:
  void Apply(const EventRow& row);
  // Whose memory an allocation is: a communicator's number; 0 where it is of none, or that is not sure.
  uint32_t MakerOf(uint32_t thread, uint32_t slot) const { return open_.empty() ? 0 : Find(thread, slot); }

 private:
  struct Open {
    uint32_t number, thread;
    int32_t device;
  };
  uint32_t Find(uint32_t thread, uint32_t slot) const;

  std::vector<Open> open_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_COMMUNICATORS_H_
