// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuGetProcAddress, both forms. Works before cuInit. Only base names resolve ("cuMemAlloc", never "cuMemAlloc_v2"): the
// answer is the newest export that `cudaVersion` knows, in its per-thread-stream form where the flags ask for it.
#include <algorithm>
#include <cstring>

#include "simcuda/driver/driver.h"
#include "simcuda/driver/generated_tables.h"

using namespace simcuda;  // NOLINT: C functions only below

namespace {

constexpr cuuint64_t kKnownFlags = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

struct ByName {
  bool operator()(const EntryPoint& entry, const char* name) const { return std::strcmp(entry.base_name, name) < 0; }
  bool operator()(const char* name, const EntryPoint& entry) const { return std::strcmp(name, entry.base_name) < 0; }
};

CUdriverProcAddressQueryResult Resolve(const char* name, int version, bool per_thread, void** address) {
  *address = nullptr;
  const auto [begin, end] = std::equal_range(kEntryPoints, kEntryPoints + kEntryPointCount, name, ByName());
  if (begin == end) return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  int newest = -1;
  for (const EntryPoint* entry = begin; entry != end; ++entry) {
    if (entry->version > version || (entry->per_thread && !per_thread)) continue;
    // Of the same or a newer version; a per-thread form also beats the plain form that came before it.
    const bool better = entry->version > newest || (entry->version == newest && entry->per_thread);
    if (!better) continue;
    newest = entry->version;
    *address = entry->address;
  }
  return *address != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
}

}  // namespace

extern "C" {

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const CUdriverProcAddressQueryResult answer = Resolve(symbol, version, per_thread, function);
  if (status != nullptr) *status = answer;
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  if (symbol == nullptr || function == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  void* address = nullptr;
  if (Resolve(symbol, version, per_thread, &address) != CU_GET_PROC_ADDRESS_SUCCESS) return CUDA_ERROR_NOT_FOUND;
  *function = address;
  return CUDA_SUCCESS;
}

}  // extern "C"
