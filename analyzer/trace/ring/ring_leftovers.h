// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The rings in a folder, and putting those of dead processes beside their traces: what the capture library does by
// itself whenever a program is recorded (docs/ring.md, "What stays behind"), for `gpumemshim doctor`. The copy holds
// what the trace may lack; RecoverFromRing finds it there.
//
// Everything in a ring is hostile. Safe beside other processes that do the same: one wins, nothing is lost, and a kill
// leaves the ring, its copy, or both. Not thread-safe.
//
//   for (const RingOnDisk& ring : FindRings("/dev/shm")) {
//     if (ring.state == ProcessState::kEnded) absl::StatusOr<std::string> where = ClearRing(ring);
//   }

#ifndef GPUMEM_ANALYZER_TRACE_RING_RING_LEFTOVERS_H_
#define GPUMEM_ANALYZER_TRACE_RING_RING_LEFTOVERS_H_

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trace/process_state.h"

namespace gpumem {

struct RingOnDisk {
  std::string path;
  uint64_t memory_bytes = 0;  // that its blocks take
  time_t changed = 0;
  uid_t owner = 0;
  ProcessState state = ProcessState::kUnknown;
  std::string program;  // "" = not known
  uint32_t pid = 0;
  bool is_copy = false;  // beside its trace already
  std::string error;     // not empty: it could not be read, so what is above is by its name alone
};

// Where recorded programs that are started here have theirs: GPUMEMSHIM_RING_DIRECTORY, else /dev/shm.
std::string RingFolder();

// In the order of their names, without those that are beside their traces already.
std::vector<RingOnDisk> FindRings(const std::string& folder);

// Removes the ring of a process that is gone. Returns where what its trace may lack is now; "" where nothing was to be
// kept. An error says why the ring stays.
absl::StatusOr<std::string> ClearRing(const RingOnDisk& ring);

// All of this user's. Those that cannot be cleared stay.
void ClearOwnDeadRings(const std::string& folder);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_RING_RING_LEFTOVERS_H_
