// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReleaseReasons: why PyTorch's allocator gave segments back to CUDA, by the stack of the call: to serve a request, or
// since the program emptied the cache. Stacks with Python frames alone, or without names, may not tell.
//
//   ReleaseReasons reasons(&names);
//   if (reasons.Of(batch.stack(i)) == ReleaseReason::kRequest) ...
//
// Not thread-safe; `names` must outlive it. Nothing fails.

#ifndef GPUMEM_PLANNER_ALLOCATOR_RELEASE_REASON_H_
#define GPUMEM_PLANNER_ALLOCATOR_RELEASE_REASON_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "trace/stack_table.h"

namespace gpumem::plan {

enum class ReleaseReason : uint8_t { kUnknown, kRequest, kEmptyCache };

class ReleaseReasons {
 public:
  explicit ReleaseReasons(const StackTable* names) : names_(names) {}
  ReleaseReason Of(uint64_t stack);

 private:
  ReleaseReason OfFrame(uint32_t frame) const;

  const StackTable* names_;
  absl::flat_hash_map<uint64_t, ReleaseReason> known_;
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_RELEASE_REASON_H_
