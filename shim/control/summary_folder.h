// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where the events of a rank are that keeps a summary alone (GPUMEMSHIM_RANKS): a folder of its own in memory, that is,
// in the ring's directory, with the last kSummaryTraceBytes of its trace. It is removed at the end. A process that was
// killed leaves it; the next one that makes such a folder there, or a launcher at its end, removes it.
//
//   /dev/shm/gpumemshim-summary.4242.123456/trace.gmtrace, trace.part2.gmtrace, ...
//
// Thread-safety: one thread at a time; no heap. Failure: false, or something stays.
//
//   char folder[512];
//   if (MakeSummaryFolder("/dev/shm", facts.pid, facts.start_ticks, folder, sizeof folder)) ...
//   RemoveSummaryFolder(folder);

#ifndef GPUMEM_SHIM_CONTROL_SUMMARY_FOLDER_H_
#define GPUMEM_SHIM_CONTROL_SUMMARY_FOLDER_H_

#include <cstddef>
#include <cstdint>

namespace gpumemshim::control {

inline constexpr uint64_t kSummaryTraceBytes = uint64_t{16} << 20;

// The name that it will have; false where it does not fit.
bool SummaryFolderName(const char* place, int32_t pid, uint64_t start_ticks, char* out, size_t capacity);

bool MakeSummaryFolder(const char* place, int32_t pid, uint64_t start_ticks, char* out, size_t capacity);

void RemoveSummaryFolder(const char* folder);

// Those of this user whose process is gone and that nothing was written into for two minutes.
void ClearDeadSummaryFolders(const char* place);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_SUMMARY_FOLDER_H_
