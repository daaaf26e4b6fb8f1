// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/device/address_space.h"

#include <sys/mman.h>

#include "simcuda/device/granularity.h"

namespace simcuda {
namespace {

constexpr uint64_t kPreferredBase = 0x2000'0000'0000;
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kLargest = uint64_t{1}
                              << 39;  // the thread sanitizer leaves 1.5 TiB, and the contents take as much again
#else
constexpr uint64_t kLargest = uint64_t{1} << 44;  // 16 TiB: room for torch's reservations on many devices
#endif
constexpr uint64_t kSmallest = uint64_t{1} << 34;  // 16 GiB

}  // namespace

AddressSpace::AddressSpace(int device_count, AddressOrder order, uint64_t context_range) {
  for (uint64_t size = kLargest; size >= kSmallest; size /= 4) {
    void* const mapping = ::mmap(reinterpret_cast<void*>(kPreferredBase), size, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) continue;
    base_ = reinterpret_cast<uint64_t>(mapping);
    size_ = size;
    break;
  }
  if (base_ == 0) return;
  uint64_t next = RoundUp(base_, kGranule);
  const uint64_t end = RoundDown(base_ + size_, kGranule);
  const uint64_t per_device =
      device_count > 0 ? RoundDown(size_ / 2 / static_cast<uint64_t>(device_count), kGranule) : 0;
  for (int device = 0; device < device_count; ++device) {
    devices_.emplace_back(order, next, next + per_device - kGranule, RoundUp(context_range, kGranule));
    next += per_device;
  }
  reservations_.Give(next, end - next);
}

AddressSpace::~AddressSpace() {
  if (base_ != 0) ::munmap(reinterpret_cast<void*>(base_), size_);
}

std::optional<uint64_t> AddressSpace::Take(int device, uint64_t size) {
  return devices_[static_cast<size_t>(device)].Take(size);
}

void AddressSpace::Give(int device, uint64_t address, uint64_t size) {
  devices_[static_cast<size_t>(device)].Give(address, size);
}

std::optional<uint64_t> AddressSpace::TakeReservation(uint64_t size, uint64_t alignment, uint64_t hint) {
  if (hint != 0 && hint % kGranule == 0 && reservations_.TakeAt(hint, size)) return hint;
  return reservations_.Take(size, alignment > kGranule ? alignment : kGranule);
}

void AddressSpace::GiveReservation(uint64_t address, uint64_t size) { reservations_.Give(address, size); }

}  // namespace simcuda
