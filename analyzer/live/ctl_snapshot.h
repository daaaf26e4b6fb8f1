// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A copy of a running program's trace that stands by itself: the packets that are whole, and an end that says that the
// program went on.
//
// Thread-safety: none needed. Ownership: the file written is the caller's; a half-written one is removed. Failure: a
// status that says what to do.
//
//   GPUMEM_ASSIGN_OR_RETURN(Snapshot snapshot, TakeSnapshot(4242, "/home/user/run.gmtrace", 81920, "now.gmtrace",
//   false));

#ifndef GPUMEM_ANALYZER_LIVE_CTL_SNAPSHOT_H_
#define GPUMEM_ANALYZER_LIVE_CTL_SNAPSHOT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace gpumem {

struct Snapshot {
  std::string path;
  uint64_t bytes = 0;
};

// `from`: as the process names it; where it lies in a container it is read through /proc/PID/root. `bytes`: how much of
// it is whole packets.
absl::StatusOr<Snapshot> TakeSnapshot(int pid, const std::string& from, uint64_t bytes, const std::string& to,
                                      bool force);

// "gpumemshim.train.4242.snapshot.gmtrace" in the current directory.
std::string SnapshotName(const std::string& trace);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_CTL_SNAPSHOT_H_
