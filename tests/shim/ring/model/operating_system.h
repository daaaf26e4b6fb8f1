// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the ring asks of the operating system, as the model has it: a mapping, a clock that moves with each reading, the
// number of the current thread and whether another is gone, membarrier. Memory for the reader comes from an arena that
// each execution starts anew.
//
// Not thread-safe.
//
//   OperatingSystem::Get().Reset();

#ifndef GPUMEM_TESTS_SHIM_RING_MODEL_OPERATING_SYSTEM_H_
#define GPUMEM_TESTS_SHIM_RING_MODEL_OPERATING_SYSTEM_H_

#include <cstddef>
#include <cstdint>

namespace gpumemshim::ring {
struct Lane;
}

namespace model {

class OperatingSystem {
 public:
  static constexpr size_t kMappingBytes = 256 << 10;
  static OperatingSystem& Get();

  void Reset();
  char* mapping();

  // Outside of fibers: be this thread.
  void Become(int writer);
  // The current fiber's, or that which we became.
  uint32_t CurrentTid() const;
  bool IsGone(uint32_t tid) const;

  void* Allocate(size_t bytes);  // zeroed

  // Which pages of the mapping have blocks: a store to another would be a SIGBUS. FreeBlocks wipes.
  bool HasBlocks(size_t offset, size_t bytes) const;
  void SetBlocks(size_t offset, size_t bytes, bool present);

 private:
  static constexpr int kMaxThreads = 16;
  OperatingSystem();
  void Exchange(int from, int to);

  int outside_ = -1;
  gpumemshim::ring::Lane* lanes_[kMaxThreads] = {};  // each thread's t_lane
  size_t used_ = 0;
  bool blocks_[kMappingBytes / 4096] = {};
};

}  // namespace model

#endif  // GPUMEM_TESTS_SHIM_RING_MODEL_OPERATING_SYSTEM_H_
