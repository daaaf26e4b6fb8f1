// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// GPUMEMSHIM_OOM_REPORT: when a request for memory has failed for good, the writer thread has the analyzer explain it
// on standard error (gpumemshim oom). The program never waits for it, but at its end, where a report that has begun is
// given up to ten seconds to come out.
//
// What counts: a report of PyTorch that it is out of memory; or a failed CUDA call that is followed, on its thread and
// within 200 ms, neither by a success of the same size nor by anything of PyTorch's. At most three reports a process,
// one of them kept for the end, at most one in ten seconds: a program that looks for its largest batch fails often.
//
// Thread-safety: Configure before the writer starts, ForgetInChild in a forked child, all else on the writer thread.
// Failure: one line on standard error says why there is no report.
//
//   oom::Configure(library_directory);
//   config.callbacks.watcher.saw_event = &oom::Saw;
//   config.callbacks.watcher.passed = &oom::Passed;

#ifndef GPUMEM_SHIM_WITNESS_OOM_REPORTER_H_
#define GPUMEM_SHIM_WITNESS_OOM_REPORTER_H_

#include <cstddef>
#include <cstdint>

#include "shim/base/event.h"
#include "shim/witness/oom/analyzer.h"

namespace gpumemshim::oom {

// How much longer than usual the end of the process may take.
inline constexpr uint32_t kWaitAtEndMs = 10'000;

// Finds the analyzer, and copies the few variables of the environment that it may see.
void Configure(SettingLookup setting = nullptr);

// Each event on its way to the file.
void Saw(const Event& event, uint32_t tid);

// Everything seen is in the file at `path` ("" = there is none). `last`: nothing comes after; waits for the report.
void Passed(const char* path, bool last);

void ForgetInChild();

// Trigger: whether a request for memory has failed for good. PyTorch says so itself; a failed CUDA call may still be
// tried again (PyTorch empties its cache and does), so it waits a while for what its thread does next.
//
// Thread-safety: one thread. Failure: more failures at once than it remembers count as final.
//
//   trigger.Saw(event, tid);
//   if (trigger.Wanted(MonotonicNs(), false)) ...; trigger.Clear();
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

#endif  // GPUMEM_SHIM_WITNESS_OOM_REPORTER_H_
