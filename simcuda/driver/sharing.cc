// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/driver/sharing.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace simcuda {
namespace {

constexpr uint64_t kMagic = 0x31'45'52'41'48'53'4d'49;  // "IMSHARE1"

bool IsAlive(uint32_t process) { return ::kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM; }

int VisibleNumber(int physical) {
  for (const auto& device : GetSimulation()->machine.devices) {
    if (device->physical() == physical) return device->device();
  }
  return -1;
}

}  // namespace

SharedRecord MakeRecord(SharedRecord::Kind kind, uint64_t value, uint64_t size, int device) {
  SharedRecord record{.magic = kMagic, .kind = kind, .process = static_cast<uint32_t>(::getpid())};
  record.value = value;
  record.size = size;
  if (device >= 0) record.device = GetSimulation()->machine.device(device).physical();
  return record;
}

CUresult CheckRecord(const SharedRecord& record, SharedRecord::Kind kind, int* device) {
  if (record.magic != kMagic || record.kind != kind || !IsAlive(record.process)) return CUDA_ERROR_INVALID_VALUE;
  *device = record.device < 0 ? -1 : VisibleNumber(record.device);
  return record.device >= 0 && *device < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

bool IsOwn(const SharedRecord& record) { return record.process == static_cast<uint32_t>(::getpid()); }

CUresult WriteRecord(const SharedRecord& record, int* descriptor) {
  const int file = ::memfd_create("simcuda-shareable", MFD_CLOEXEC);
  if (file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  if (::pwrite(file, &record, sizeof record, 0) != sizeof record) {
    ::close(file);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *descriptor = file;
  return CUDA_SUCCESS;
}

CUresult ReadRecord(void* shareable, SharedRecord* record) {
  const int file = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
  return ::pread(file, record, sizeof *record, 0) == sizeof *record ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace simcuda
