// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a planned program asked the libraries' stubs for, and how the answers are known: measured on such a GPU, or
// not (docs/workspaces.md).
//
//   WorkspaceUse use;
//   use.library = "cuDNN";
//   use.unknown = 12;   // operations that nobody measured: they count as 0
//
// Thread-safety: plain values.

#ifndef GPUMEM_PLANNER_LAUNCH_WORKSPACES_H_
#define GPUMEM_PLANNER_LAUNCH_WORKSPACES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gpumem::plan {

// Of one library: how many different operations (shapes, types) are known how.
struct WorkspaceUse {
  std::string library;
  uint64_t set = 0;                         // by a SIMCUDA_..._WS variable
  uint64_t measured = 0;                    // on this device, with this version of the library
  uint64_t similar = 0;                     // on another of its capability, or with another version
  uint64_t bounded = 0;                     // counted with their bound: --workspaces bound
  uint64_t unknown = 0;                     // counted as 0
  uint64_t without_bound = 0;               // of those: even a bound is not known
  uint64_t largest = 0, largest_bound = 0;  // bytes; the latter of those that count as 0
};

// A size that is not asked for by operations: the context's.
struct KnownSize {
  uint64_t bytes = 0;
  std::string known;  // "set", "measured", "similar"; "nothing": a guess
};

// Libraries with operations that count as 0.
std::vector<std::string> UnknownLibraries(const std::vector<WorkspaceUse>& uses);

// Whether counting with bounds would change anything.
bool HasBounds(const std::vector<WorkspaceUse>& uses);

// How they are known, in sentences that begin with a blank; "" where nothing was asked for.
std::string WorkspacesText(const std::vector<WorkspaceUse>& uses);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_LAUNCH_WORKSPACES_H_
