// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/device/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "simcuda/device/granularity.h"

namespace simcuda {
namespace {

constexpr uint64_t kRegion = 32 * kMiB;
constexpr uint64_t kContextPart = 12 * kMiB;  // what a context itself takes of its last region

// The lowest of `free` that has `size` bytes.
std::optional<uint64_t> Lowest(const FreeRanges& free, uint64_t size) {
  for (const auto& [address, available] : free.by_address()) {
    if (available >= size) return address;
  }
  return std::nullopt;
}

}  // namespace

DriverAddresses::DriverAddresses(AddressOrder order, uint64_t begin, uint64_t end, uint64_t context_bytes)
    : order_(order), begin_(RoundUp(begin, kRegion)), end_(RoundDown(end, kRegion)), context_bytes_(context_bytes) {
  if (end_ <= begin_) return;
  if (order == AddressOrder::kWsl2) {
    Region& all = regions_[begin_];
    all.size = end_ - begin_;
    context_bytes_ = std::min(context_bytes_, all.size / 2);
    all.free.Give(begin_ + context_bytes_, all.size - context_bytes_);
    return;
  }
  gaps_.Give(begin_, end_ - begin_);
  if (TakeFromGap(kRegion)) regions_.begin()->second.free.TakeAt(regions_.begin()->first, kContextPart);
}

// A region for `size` bytes in the highest gap that has room for one; its whole range is free.
std::optional<uint64_t> DriverAddresses::TakeFromGap(uint64_t size) {
  const uint64_t whole = RoundUp(size, kRegion);
  for (auto gap = gaps_.by_address().rbegin(); gap != gaps_.by_address().rend(); ++gap) {
    if (gap->second < whole) continue;
    const uint64_t base = gap->first + gap->second - whole;
    gaps_.TakeAt(base, whole);
    Region& region = regions_[base];
    region.size = whole;
    region.free.Give(base, whole);
    return base;
  }
  return std::nullopt;
}

std::optional<uint64_t> DriverAddresses::Take(uint64_t size) {
  const bool is_first = !std::exchange(taken_, true);
  if (const auto place = std::exchange(place_, std::nullopt)) {
    if (is_first) ForgetContext();
    if (const auto placed = TakePlaced(*place, size)) return placed;
  }
  for (auto& [base, region] : regions_) {
    if (region.free.total_bytes() < size) continue;
    if (const auto address = Lowest(region.free, size)) {
      region.free.TakeAt(*address, size);
      return address;
    }
  }
  if (order_ == AddressOrder::kWsl2) return std::nullopt;
  const auto base = TakeFromGap(size);
  if (base) regions_[*base].free.TakeAt(*base, size);
  return base;
}

void DriverAddresses::Give(uint64_t address, uint64_t size) {
  while (size > 0) {
    const auto region = std::prev(regions_.upper_bound(address));
    const uint64_t part = std::min(size, region->first + region->second.size - address);
    region->second.free.Give(address, part);
    address += part;
    size -= part;
    if (order_ == AddressOrder::kLinux && region->second.free.total_bytes() == region->second.size) {
      gaps_.Give(region->first, region->second.size);
      regions_.erase(region);
    }
  }
}

void DriverAddresses::OnKernel() {
  if (order_ == AddressOrder::kWsl2 && context_bytes_ > 0) regions_.begin()->second.free.Give(begin_, context_bytes_);
  context_bytes_ = 0;
}

// What is rebuilt says where everything was; of the recorded context's part nothing is known.
void DriverAddresses::ForgetContext() {
  OnKernel();
  if (order_ != AddressOrder::kLinux) return;
  regions_.clear();
  gaps_ = FreeRanges();
  gaps_.Give(begin_, end_ - begin_);
}

// Makes one region of all that [address, address + size) touches.
void DriverAddresses::Cover(uint64_t address, uint64_t size) {
  const uint64_t first = RoundDown(address, kRegion), last = RoundUp(address + size, kRegion);
  auto region = regions_.upper_bound(address);
  if (region != regions_.begin()) --region;
  if (region != regions_.end() && region->first + region->second.size <= first) ++region;
  Region merged;
  uint64_t base = first, at = first;
  while (region != regions_.end() && region->first < last) {
    base = std::min(base, region->first);
    if (region->first > at) merged.free.Give(at, region->first - at);
    for (const auto& [free_address, free_size] : region->second.free.by_address()) {
      merged.free.Give(free_address, free_size);
    }
    at = std::max(at, region->first + region->second.size);
    region = regions_.erase(region);
  }
  if (at < last) merged.free.Give(at, last - at);
  merged.size = std::max(at, last) - base;
  regions_[base] = merged;
}

std::optional<uint64_t> DriverAddresses::TakePlaced(uint64_t address, uint64_t size) {
  if (address % kGranule != 0 || address < begin_ || size > end_ - begin_ || address > end_ - size) return std::nullopt;
  if (order_ == AddressOrder::kWsl2) {  // what is free below is somebody else's
    FreeRanges& free = regions_.begin()->second.free;
    if (!free.TakeAt(address, size)) return std::nullopt;
    const std::map<uint64_t, uint64_t> ranges = free.by_address();
    for (auto range = ranges.begin(); range != ranges.end() && range->first < address; ++range) {
      free.TakeAt(range->first, range->second);
    }
    return address;
  }
  Cover(address, size);
  FreeRanges below;
  for (const auto& [gap, gap_size] : gaps_.by_address()) {
    if (gap < RoundDown(address, kRegion)) below.Give(gap, std::min(gap_size, RoundDown(address, kRegion) - gap));
  }
  gaps_ = below;
  if (!std::prev(regions_.upper_bound(address))->second.free.TakeAt(address, size)) return std::nullopt;
  return address;
}

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
