// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Trigger: whether a request for memory has failed for good. PyTorch says so itself; a failed CUDA call may still be
// tried again (PyTorch empties its cache and does), so it waits a while for what its thread does next.
//
// Thread-safety: one thread. Failure: more failures at once than it remembers count as final.
//
//   trigger.Saw(event, tid);
//   if (trigger.Wanted(MonotonicNs(), false)) ...; trigger.Clear();

#ifndef GPUMEM_SHIM_WITNESS_OOM_TRIGGER_H_
#define GPUMEM_SHIM_WITNESS_OOM_TRIGGER_H_

#include <cstddef>
#include <cstdint>

#include "shim/base/event.h"

namespace gpumemshim::oom {

class Trigger {
 public:
  void Saw(const Event& event, uint32_t tid);

  // `last`: what has not been tried again never will be.
  bool Wanted(uint64_t now_ns, bool last);

  void Clear();

 private:
  static constexpr size_t kMaxPending = 16;
  static constexpr uint64_t kPatienceNs = 200'000'000;

  struct Pending {
    uint32_t tid;
    uint64_t size;
    uint64_t time_ns;
  };

  void AddPending(const Event& event, uint32_t tid);
  void Remove(size_t place) { pending_[place] = pending_[--count_]; }

  bool failed_ = false;  // for good
  size_t count_ = 0;
  Pending pending_[kMaxPending] = {};
};

}  // namespace gpumemshim::oom

#endif  // GPUMEM_SHIM_WITNESS_OOM_TRIGGER_H_
