// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/shared_usage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace simcuda {
namespace {

constexpr uint64_t kMagic = 0x31'45'47'41'53'55'4d'49;  // "IMUSAGE1"

uint32_t OwnId() { return static_cast<uint32_t>(::getpid()); }

bool IsAlive(uint32_t process) { return ::kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM; }

}  // namespace

SharedUsage* SharedUsage::Open(const char* path) {
  const int descriptor = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return nullptr;
  void* mapping = MAP_FAILED;
  if (::ftruncate(descriptor, sizeof(File)) == 0) {
    mapping = ::mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  ::close(descriptor);
  if (mapping == MAP_FAILED) return nullptr;
  auto* const file = static_cast<File*>(mapping);
  uint64_t magic = 0;
  if (!file->magic.compare_exchange_strong(magic, kMagic) && magic != kMagic) {  // somebody else's file
    ::munmap(mapping, sizeof(File));
    errno = EINVAL;
    return nullptr;
  }
  auto* const shared = static_cast<SharedUsage*>(::calloc(1, sizeof(SharedUsage)));
  if (shared != nullptr) shared->file_ = file;
  return shared;
}

bool SharedUsage::Join() {
  for (Slot& slot : file_->slots) {
    uint32_t process = slot.process.load();
    const bool free = process == 0 || process == OwnId() || !IsAlive(process);
    if (!free || !slot.process.compare_exchange_strong(process, OwnId())) continue;
    for (auto& bytes : slot.bytes) bytes.store(0);
    own_ = &slot;
    return true;
  }
  return false;
}

void SharedUsage::Publish(int device, uint64_t bytes) {
  if (own_ == nullptr || device < 0 || device >= kDevices || own_->process.load() != OwnId()) return;
  own_->bytes[device].store(bytes);
}

int SharedUsage::Others(int device, Process* processes, int room) const {
  if (device < 0 || device >= kDevices) return 0;
  int found = 0;
  for (const Slot& slot : file_->slots) {
    const uint32_t process = slot.process.load();
    const uint64_t bytes = slot.bytes[device].load();
    if (process == 0 || process == OwnId() || bytes == 0 || !IsAlive(process)) continue;
    if (found < room) processes[found] = {process, bytes};
    ++found;
  }
  return found;
}

uint64_t SharedUsage::OthersBytes(int device) const {
  Process processes[kSlots];
  const int found = Others(device, processes, kSlots);
  uint64_t bytes = 0;
  for (int i = 0; i < found; ++i) bytes += processes[i].bytes;
  return bytes;
}

}  // namespace simcuda
