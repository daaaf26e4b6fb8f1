// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Pools and their pointers, exported to other processes and imported from them.
#include <cstring>

#include "simcuda/driver/sharing.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

static_assert(sizeof(CUmemPoolPtrExportData) == 64);

MemoryPool* SharedPool(CUmemoryPool handle) { return reinterpret_cast<MemoryPool*>(handle); }

}  // namespace

extern "C" {

CUresult cuMemPoolExportToShareableHandle(void* shareable, CUmemoryPool pool, CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int device = GetSimulation()->linear.PoolDevice(SharedPool(pool));
  if (shareable == nullptr || flags != 0 || device < 0) return CUDA_ERROR_INVALID_VALUE;
  return WriteRecord(MakeRecord(SharedRecord::kPool, reinterpret_cast<uint64_t>(pool), 0, device),
                     static_cast<int*>(shareable));
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* shareable, CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (pool == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  SharedRecord record;
  Caller caller{.api = "cuMemPoolImportFromShareableHandle"};
  if (const CUresult result = ReadRecord(shareable, &record); result != CUDA_SUCCESS) return result;
  if (const CUresult result = CheckRecord(record, SharedRecord::kPool, &caller.device); result != CUDA_SUCCESS) {
    return result;
  }
  MemoryPool* imported = nullptr;
  const CUresult result = GetSimulation()->linear.ImportPool(caller, &imported);
  if (result == CUDA_SUCCESS) *pool = reinterpret_cast<CUmemoryPool>(imported);
  return result;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr pointer) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const auto allocation = GetSimulation()->linear.Find(pointer);
  const bool exportable = allocation && allocation->kind == AllocationKind::kPool && allocation->device >= 0;
  if (data == nullptr || !exportable) return CUDA_ERROR_INVALID_VALUE;
  const SharedRecord record =
      MakeRecord(SharedRecord::kPoolPointer, allocation->address, allocation->size, allocation->device);
  std::memset(data, 0, sizeof *data);
  std::memcpy(data, &record, sizeof record);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr* pointer, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (pointer == nullptr || data == nullptr || !GetSimulation()->linear.IsImportedPool(SharedPool(pool))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SharedRecord record;
  std::memcpy(static_cast<void*>(&record), data, sizeof record);
  Caller caller{.api = "cuMemPoolImportPointer", .context = CurrentContext()};
  if (const CUresult result = CheckRecord(record, SharedRecord::kPoolPointer, &caller.device); result != CUDA_SUCCESS) {
    return result;
  }
  uint64_t address = 0;
  const CUresult result = GetSimulation()->linear.AddForeign(caller, AllocationKind::kImported, record.size,
                                                             record.value, SharedPool(pool), &address);
  if (result == CUDA_SUCCESS) *pointer = address;
  return result;
}

}  // extern "C"
