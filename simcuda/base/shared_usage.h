// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What each process of one simulated machine uses of its devices: a file (SIMCUDA_SHARED) that all of them map, with a
// slot a process. With it, processes share a device's memory as they would share a GPU's; without it each has devices
// of its own. Devices are numbered physically, whatever CUDA_VISIBLE_DEVICES says.
//
//   | magic | slot 0: process, used[64] | slot 1 ... |     a slot whose process is gone counts nothing and is taken
//   over
//
// Needs libc alone: the driver and the NVML stub both have it. Thread-safety: Publish() under the owner's lock, the
// rest from any thread. Ownership: a mapping lives as long as the process. Failure mode: Open() gives null, with errno;
// a full file (64 processes) leaves a process unseen.
// Example:
//   SharedUsage* shared = SharedUsage::Open("/dev/shm/sim");
//   if (shared != nullptr && shared->Join()) shared->Publish(0, 512 << 20);
#ifndef SIMCUDA_BASE_SHARED_USAGE_H_
#define SIMCUDA_BASE_SHARED_USAGE_H_

#include <atomic>
#include <cstdint>

namespace simcuda {

// The process id of the made-up process that holds SIMCUDA_OTHERS_MB; Linux never gives it out.
inline constexpr uint32_t kMadeUpProcess = 1u << 22;

class SharedUsage {
 public:
  static constexpr int kDevices = 64, kSlots = 64;

  // Maps the file, making it where it is not there.
  static SharedUsage* Open(const char* path);

  // Takes a slot for this process; false where all are taken.
  bool Join();

  // This process's use of a device. A forked child that did not join itself publishes nothing.
  void Publish(int device, uint64_t bytes);

  // What the other living processes use of a device.
  uint64_t OthersBytes(int device) const;

  // Up to `room` other living processes with memory on the device; returns how many there are.
  struct Process {
    uint32_t id;
    uint64_t bytes;
  };
  int Others(int device, Process* processes, int room) const;

 private:
  struct Slot {
    std::atomic<uint32_t> process;
    std::atomic<uint32_t> unused;
    std::atomic<uint64_t> bytes[kDevices];
  };
  struct File {
    std::atomic<uint64_t> magic;
    Slot slots[kSlots];
  };

  File* file_ = nullptr;
  Slot* own_ = nullptr;
};

}  // namespace simcuda

#endif  // SIMCUDA_BASE_SHARED_USAGE_H_
