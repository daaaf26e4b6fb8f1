// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "operating_system.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <cstdarg>
#include <cstring>

#include "explorer.h"
#include "memory.h"
#include "shim/base/buffer.h"
#include "shim/base/clock.h"
#include "shim/ring/mapping.h"
#include "shim/ring/shape.h"
#include "shim/ring/state.h"
#include "shim/ring/trace_link.h"
#include "world.h"

namespace model {
namespace {

constexpr uint32_t kFirstTid = 1000;
alignas(4096) char g_mapping[OperatingSystem::kMappingBytes];
alignas(64) char g_arena[4 << 20];

}  // namespace

OperatingSystem& OperatingSystem::Get() {
  static OperatingSystem system;
  return system;
}

OperatingSystem::OperatingSystem() {
  Explorer::Get().on_switch = [this](int from, int to) { Exchange(from, to); };
}

void OperatingSystem::Exchange(int from, int to) {
  if (from < 0) from = outside_;
  if (from >= 0) lanes_[from] = gpumemshim::ring::t_lane;
  if (to >= 0) gpumemshim::ring::t_lane = lanes_[to];
  outside_ = -1;
}

void OperatingSystem::Reset() {
  outside_ = -1;
  used_ = 0;
  std::memset(lanes_, 0, sizeof(lanes_));
}

char* OperatingSystem::mapping() { return g_mapping; }

void OperatingSystem::Become(int writer) {
  Exchange(outside_, writer);
  outside_ = writer;
}

uint32_t OperatingSystem::CurrentTid() const {
  const int fiber = Explorer::Get().current();
  return kFirstTid + static_cast<uint32_t>(fiber >= 0 ? fiber : outside_);
}

bool OperatingSystem::IsGone(uint32_t tid) const {
  const uint32_t thread = tid - kFirstTid;
  if (thread >= kMaxFibers || !Explorer::Get().HasEnded(static_cast<int>(thread))) return false;
  if (Explorer::Get().IsExploring()) Memory::Get().Join(static_cast<int>(thread));
  return true;
}

void* OperatingSystem::Allocate(size_t bytes) {
  bytes = (bytes + 63) & ~size_t{63};
  if (used_ + bytes > sizeof(g_arena)) return nullptr;
  char* const memory = g_arena + used_;
  used_ += bytes;
  std::memset(memory, 0, bytes);
  return memory;
}

bool OperatingSystem::HasBlocks(size_t offset, size_t bytes) const {
  const bool* const first = blocks_ + offset / 4096;
  return std::find(first, first + bytes / 4096, false) == first + bytes / 4096;
}

void OperatingSystem::SetBlocks(size_t offset, size_t bytes, bool present) {
  std::fill_n(blocks_ + offset / 4096, bytes / 4096, present);
}

}  // namespace model

extern "C" int ModelClockGettime(clockid_t, timespec* time);

// In the place of the ring's own.
namespace gpumemshim {

constinit std::atomic<ClockFunction> g_clock{&ModelClockGettime};

bool Buffer::Grow(size_t bytes) {
  if (bytes > max_bytes_) return false;
  auto* const memory = static_cast<uint8_t*>(model::OperatingSystem::Get().Allocate(bytes));
  if (memory == nullptr) return false;
  if (size_ != 0) std::memcpy(memory, data_, size_);
  data_ = memory;
  capacity_ = bytes;
  return true;
}

void Buffer::Release() { data_ = nullptr, size_ = capacity_ = 0; }

namespace ring {

Mapping MapRing(const Config& config, size_t bytes) {
  Mapping mapping;
  if (bytes > model::OperatingSystem::kMappingBytes) return mapping;
  const Shape shape = ShapeOf(config, bytes);
  mapping.memory = model::OperatingSystem::Get().mapping();
  mapping.bytes = mapping.claimed_bytes = bytes;
  mapping.present_bytes = std::min(bytes, shape.BytesOf(config.first_chunks));
  mapping.populates = true;
  strcpy(mapping.path, "ring");
  model::OperatingSystem::Get().SetBlocks(0, bytes, false);
  model::OperatingSystem::Get().SetBlocks(0, mapping.present_bytes, true);
  return mapping;
}

size_t ClaimBytes(size_t) { return 0; }

bool AllocateBlocks(size_t offset, size_t bytes) {
  if (model::Explorer::Get().IsExploring()) model::Explorer::Get().Point();
  model::OperatingSystem::Get().SetBlocks(offset, bytes, true);
  return true;
}

void FreeBlocks(size_t offset, size_t bytes) {
  if (model::Explorer::Get().IsExploring()) model::Explorer::Get().Point();
  model::OperatingSystem::Get().SetBlocks(offset, bytes, false);
}

void WantTrace(RingHeader*, const char*) {}

uint64_t ProcessStartTicks() { return 1; }

}  // namespace ring
}  // namespace gpumemshim

// What the ring's sources call instead of the C library's functions: CMakeLists.txt renames them.
extern "C" {

long ModelSyscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  const long first = va_arg(arguments, long), second = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_gettid) return model::OperatingSystem::Get().CurrentTid();
  if (number == SYS_tgkill) {
    errno = ESRCH;
    return model::OperatingSystem::Get().IsGone(static_cast<uint32_t>(second)) ? -1 : 0;
  }
  if (number == SYS_membarrier && static_cast<int>(first) == MEMBARRIER_CMD_PRIVATE_EXPEDITED &&
      model::Explorer::Get().IsExploring()) {
    model::Memory::Get().BarrierForAll();
  }
  return 0;
}

int ModelSchedYield() {
  model::Explorer::Get().Yield();
  return 0;
}

int ModelClockGettime(clockid_t, timespec* time) {
  if (model::Explorer::Get().IsExploring()) model::Explorer::Get().Point();
  const uint64_t now_ns = model::World::Get().Tick();
  time->tv_sec = static_cast<time_t>(now_ns / 1'000'000'000);
  time->tv_nsec = static_cast<long>(now_ns % 1'000'000'000);
  return 0;
}

int ModelPrctl(int, ...) { return 0; }

}  // extern "C"
