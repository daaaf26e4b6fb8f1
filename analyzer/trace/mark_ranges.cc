// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/mark_ranges.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "gpumem/trace.pb.h"
#include "trace/event_batch.h"
#include "trace/stack_table.h"

namespace gpumem {
namespace {

// As these libraries name their NVTX domains. CCCL: CUB and Thrust (cub/detail/nvtx.cuh).
constexpr absl::string_view kDomains[] = {"CCCL",  "CUB",   "Thrust", "NCCL",     "NVSHMEM",  "cuBLAS",   "cuBLASLt",
                                          "cuDNN", "cuFFT", "cuRAND", "cuSOLVER", "cuSPARSE", "cuTENSOR", "TensorRT"};

}  // namespace

bool IsLibraryRange(absl::string_view text) {
  const size_t colon = text.find(':');
  if (colon == absl::string_view::npos) return false;
  return std::any_of(std::begin(kDomains), std::end(kDomains),
                     [&](absl::string_view domain) { return absl::EqualsIgnoreCase(text.substr(0, colon), domain); });
}

bool LibraryRanges::Take(const EventBatch& batch, size_t i, uint32_t tid, const StackTable& names) {
  switch (batch.kind(i)) {
    case trace::RANGE_PUSH: {
      const bool is_library = IsLibraryRange(names.string(batch.text(i)));
      pushed_[tid].push_back(is_library);
      return is_library;
    }
    case trace::RANGE_POP: {
      const auto pushed = pushed_.find(tid);
      if (pushed == pushed_.end()) return false;
      const bool is_library = pushed->second.back();
      pushed->second.pop_back();
      if (pushed->second.empty()) pushed_.erase(pushed);
      return is_library;
    }
    case trace::RANGE_START:
      return IsLibraryRange(names.string(batch.text(i))) && started_.insert(batch.handle(i)).second;
    case trace::RANGE_END:
      return started_.erase(batch.handle(i)) != 0;
    default:
      return false;
  }
}

}  // namespace gpumem
