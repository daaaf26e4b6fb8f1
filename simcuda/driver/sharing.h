// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What one process tells another of its memory: the contents of IPC handles, of shareable handles (a file that holds
// the record) and of a pool's pointers. The importer gets addresses and the size; the bytes are not shared, and the
// exporter's memory is not kept by it.
//
// Thread-safety: pure functions. Failure mode: CUDA_ERROR_INVALID_VALUE for what is not a record or names a process
// that is gone, CUDA_ERROR_INVALID_DEVICE where the importer does not see the device.
#ifndef SIMCUDA_DRIVER_SHARING_H_
#define SIMCUDA_DRIVER_SHARING_H_

#include <cstdint>

#include "simcuda/driver/driver.h"

namespace simcuda {

struct SharedRecord {
  enum Kind : uint32_t { kMemory = 1, kEvent, kPhysical, kPool, kPoolPointer };
  uint64_t magic = 0;
  uint32_t kind = 0, process = 0;
  uint64_t value = 0;  // address or handle in the exporting process
  uint64_t size = 0;
  int32_t device = -1;  // its number on the machine
  int32_t location_type = 0, location_id = 0, unused = 0;
};
static_assert(sizeof(SharedRecord) <= 64);  // the size of CUipcMemHandle and CUmemPoolPtrExportData

// A record of this process; `device` as the process numbers it, -1 for host memory.
SharedRecord MakeRecord(SharedRecord::Kind kind, uint64_t value, uint64_t size, int device);

// Checks a record that came from somewhere, and finds its device here.
CUresult CheckRecord(const SharedRecord& record, SharedRecord::Kind kind, int* device);

bool IsOwn(const SharedRecord& record);

// A file that holds the record, as a descriptor; and back.
CUresult WriteRecord(const SharedRecord& record, int* descriptor);
CUresult ReadRecord(void* shareable, SharedRecord* record);

}  // namespace simcuda

#endif  // SIMCUDA_DRIVER_SHARING_H_
