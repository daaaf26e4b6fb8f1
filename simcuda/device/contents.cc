// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/device/contents.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "simcuda/device/address_space.h"
#include "simcuda/device/granularity.h"

namespace simcuda {
namespace {

constexpr uint64_t kPreferredShadow = 0x4000'0000'0000;
constexpr uint64_t kDropLimit = 16 * kPage;  // from here on, giving pages back is cheaper than zeroing them

}  // namespace

Contents::Contents(const AddressSpace* addresses, uint64_t keep_bytes)
    : addresses_(addresses), keep_bytes_(keep_bytes) {
  if (!addresses->ok()) return;
  void* const mapping = ::mmap(reinterpret_cast<void*>(kPreferredShadow), addresses->size(), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return;
  ::madvise(mapping, addresses->size(), MADV_NOHUGEPAGE);  // one dirty byte must not cost 2 MiB
  ::madvise(mapping, addresses->size(), MADV_DONTDUMP);
  shadow_ = static_cast<char*>(mapping);
}

Contents::~Contents() {
  if (shadow_ != nullptr) ::munmap(shadow_, addresses_->size());
}

bool Contents::IsShadowed(uint64_t address) const {
  return addresses_->Contains(address) && (host_visible_.empty() || !host_visible_.Intersects(address, 1));
}

char* Contents::Bytes(uint64_t address) const {
  if (!IsShadowed(address)) return reinterpret_cast<char*>(address);
  return shadow_ + (address - addresses_->base());
}

void Contents::MarkDirty(uint64_t address, uint64_t size) {
  const uint64_t begin = RoundDown(address, kPage);
  dirty_.Add(begin, RoundUp(address + size, kPage) - begin);
}

void Contents::Zero(uint64_t address, uint64_t size) {
  SetTruth(address, size, Truth::kUnknown);
  Clear(address, size);
}

// What is known is in both sets, so that neighbours of both kinds are one interval of the second.
void Contents::SetTruth(uint64_t address, uint64_t size, Truth truth) {
  if (size == 0 || !IsShadowed(address)) return;
  const auto nothing = [](uint64_t, uint64_t) {};
  if (truth == Truth::kKnown) {
    known_.Add(address, size);
  } else if (!known_.empty()) {
    known_.Remove(address, size, nothing);
  }
  if (truth != Truth::kUnknown) {
    drawn_.Add(address, size);
  } else if (!drawn_.empty()) {
    drawn_.Remove(address, size, nothing);
  }
}

Truth Contents::TruthOf(uint64_t address, uint64_t size) const {
  if (!IsShadowed(address) || !drawn_.Covers(address, size)) return Truth::kUnknown;
  return known_.Covers(address, size) ? Truth::kKnown : Truth::kDrawn;
}

char* Contents::Learn(uint64_t address, uint64_t size, Truth truth) {
  if (size == 0 || !IsShadowed(address)) return nullptr;
  MarkDirty(address, size);
  SetTruth(address, size, truth);
  return Bytes(address);
}

void Contents::Clear(uint64_t address, uint64_t size) {
  if (size == 0) return;
  if (!IsShadowed(address)) {
    std::memset(Bytes(address), 0, size);
    return;
  }
  if (dirty_.empty() || !dirty_.Intersects(address, size)) return;
  // Whole pages leave the dirty set; the torn ones at the ends are zeroed and stay dirty.
  const uint64_t end = address + size, first = RoundUp(address, kPage), last = RoundDown(end, kPage);
  const auto zero_if_dirty = [this](uint64_t from, uint64_t to) {
    if (from < to && dirty_.Intersects(from, to - from)) std::memset(Bytes(from), 0, to - from);
  };
  if (first > last) return zero_if_dirty(address, end);  // inside one page
  zero_if_dirty(address, first);
  zero_if_dirty(last, end);
  if (first == last) return;
  dirty_.Remove(first, last - first, [this](uint64_t from, uint64_t to) {
    if (to - from >= kDropLimit) {
      ::madvise(Bytes(from), to - from, MADV_DONTNEED);
    } else {
      std::memset(Bytes(from), 0, to - from);
    }
  });
}

void Contents::Copy(uint64_t target, uint64_t source, uint64_t size) {
  if (size == 0) return;
  const bool clean_source = IsShadowed(source) && !dirty_.Intersects(source, size);
  if (IsShadowed(target)) {
    const Truth truth = addresses_->Contains(source) ? TruthOf(source, size) : Truth::kKnown;
    SetTruth(target, size, clean_source || size <= keep_bytes_ ? truth : Truth::kUnknown);
    if (clean_source || size > keep_bytes_) return Clear(target, size);
    MarkDirty(target, size);
  } else if (clean_source) {
    std::memset(Bytes(target), 0, size);  // without touching the shadow's pages
    return;
  }
  std::memmove(Bytes(target), Bytes(source), size);
}

bool Contents::HasBytes(uint64_t address, uint64_t size) const {
  return !IsShadowed(address) || dirty_.Intersects(address, size);
}

void Contents::Fill(uint64_t target, uint32_t value, unsigned width, uint64_t count) {
  const uint64_t size = count * width;
  if (size == 0) return;
  if (IsShadowed(target)) {
    SetTruth(target, size, value == 0 || size <= keep_bytes_ ? Truth::kKnown : Truth::kUnknown);
    if (value == 0 || size > keep_bytes_) return Clear(target, size);
    MarkDirty(target, size);
  }
  char* const bytes = Bytes(target);
  if (width == 1) {
    std::memset(bytes, static_cast<int>(value), size);
    return;
  }
  for (uint64_t i = 0; i < count; ++i) std::memcpy(bytes + i * width, &value, width);
}

bool Contents::SetHostVisible(uint64_t address, uint64_t size, bool visible) {
  void* const at = reinterpret_cast<void*>(address);
  if (::mprotect(at, size, visible ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) return false;
  if (visible) {
    Zero(address, size);
    host_visible_.Add(address, size);
  } else {
    ::madvise(at, size, MADV_DONTNEED);
    host_visible_.Remove(address, size, [](uint64_t, uint64_t) {});
  }
  return true;
}

}  // namespace simcuda
