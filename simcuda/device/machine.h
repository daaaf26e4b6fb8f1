// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The simulated machine: its devices, their addresses and contents, the log, and the one lock that guards them all.
// LinearMemory, VirtualMemory, HostMemory and ArrayMemory are the subjects that work on it.
//
// Thread-safety: a subject's public methods lock `mutex`; everything else here wants it held. It is never held while
// code of the program runs.
// Ownership: the driver owns one machine for the life of the process; tests make their own.
// Failure mode: ok() is false where the address space could not be had; cuInit then fails.
#ifndef SIMCUDA_DEVICE_MACHINE_H_
#define SIMCUDA_DEVICE_MACHINE_H_

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "simcuda/base/event_log.h"
#include "simcuda/base/memory_observer.h"
#include "simcuda/base/shared_usage.h"
#include "simcuda/device/address_space.h"
#include "simcuda/device/contents.h"
#include "simcuda/device/free_ranges.h"

namespace simcuda {

// One device's physical memory: what is charged against its size, and what was asked for.
//
//   used_bytes  granules, contexts, arrays: what cuMemGetInfo takes off the total
//   live_bytes  the sizes as the program requested them
//   others_bytes  what other processes hold: the made-up one and those that share the machine
//
// Thread-safety: none; the machine locks. Failure mode: a charge beyond the size is refused and changes nothing.

class DeviceMemory : public GranuleSource {
 public:
  DeviceMemory(int device, uint64_t total_bytes, AddressSpace* addresses)
      : device_(device), total_bytes_(total_bytes), addresses_(addresses), small_(this) {}

  bool Charge(uint64_t bytes) {
    if (limit_bytes() < used_bytes_ || bytes > limit_bytes() - used_bytes_) return false;
    SetUsed(used_bytes_ + bytes);  // published first: of two processes that want the last memory, none gets too much
    if (used_bytes_ + others_bytes() > limit_bytes()) {
      SetUsed(used_bytes_ - bytes);
      return false;
    }
    peak_used_bytes_ = std::max(peak_used_bytes_, used_bytes_);
    return true;
  }
  // Gives more than it has, as far as there are addresses, and goes on to state its size: how much a program wants.
  void Overcommit() { overcommits_ = true; }
  void Discharge(uint64_t bytes) { SetUsed(used_bytes_ - bytes); }

  // Who else is on this device: `physical` is its number in `shared`, which may be null.
  void SetNeighbours(SharedUsage* shared, int physical, uint64_t made_up_bytes) {
    shared_ = shared;
    physical_ = physical;
    made_up_bytes_ = made_up_bytes;
  }

  void AddLive(uint64_t bytes) {
    live_bytes_ += bytes;
    peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes_);
  }
  void RemoveLive(uint64_t bytes) { live_bytes_ -= bytes; }

  // GranuleSource: charged granules with addresses.
  std::optional<uint64_t> TakeGranules(uint64_t size) override {
    if (!Charge(size)) return std::nullopt;
    const auto address = addresses_->Take(device_, size);
    if (!address) Discharge(size);
    return address;
  }
  void GiveGranules(uint64_t address, uint64_t size) override {
    addresses_->Give(device_, address, size);
    Discharge(size);
  }

  // Plain allocations: below kSmallLimit they share granules.
  std::optional<uint64_t> Allocate(uint64_t size);
  void Free(uint64_t address, uint64_t size);

  int device() const { return device_; }
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t live_bytes() const { return live_bytes_; }
  uint64_t others_bytes() const { return made_up_bytes_ + (shared_ != nullptr ? shared_->OthersBytes(physical_) : 0); }
  uint64_t free_bytes() const { return total_bytes_ - std::min(total_bytes_, used_bytes_ + others_bytes()); }
  int physical() const { return physical_; }
  uint64_t peak_used_bytes() const { return peak_used_bytes_; }
  uint64_t peak_live_bytes() const { return peak_live_bytes_; }

 private:
  static constexpr uint64_t kNoLimit = uint64_t{1} << 50;
  uint64_t limit_bytes() const { return overcommits_ ? kNoLimit : total_bytes_; }
  void SetUsed(uint64_t bytes) {
    used_bytes_ = bytes;
    if (shared_ != nullptr) shared_->Publish(physical_, bytes);
  }

  const int device_;
  const uint64_t total_bytes_;
  AddressSpace* const addresses_;
  SubAllocator small_;
  SharedUsage* shared_ = nullptr;  // lives as long as the process
  bool overcommits_ = false;
  int physical_ = 0;
  uint64_t made_up_bytes_ = 0;
  uint64_t used_bytes_ = 0, peak_used_bytes_ = 0;
  uint64_t live_bytes_ = 0, peak_live_bytes_ = 0;
};

struct MachineConfig {
  int device_count = 1;
  uint64_t memory_bytes = 0;         // of each device
  uint64_t context_bytes = 0;        // charged for each context
  uint64_t others_bytes = 0;         // held on each device by a made-up other process
  std::string shared_path{};         // see SharedUsage; empty: this process is alone
  std::vector<int> physical{};       // number of each device on the machine; empty: 0, 1, ...
  uint64_t module_bytes = 0;         // charged for each loaded module and context, in whole granules
  uint64_t content_bytes = 1 << 20;  // longest copy whose contents are kept
  bool overcommit = false;           // devices give more than they have
  uint64_t fail_first = 0;           // number of the first allocation call that fails; 0: none
  uint64_t fail_count = 1;
  int fail_result = 2;
  std::string log_pattern{};
  AddressOrder address_order = AddressOrder::kLinux;
  uint64_t context_range = 0;  // addresses that a WSL2 context holds until the first kernel
};

class Machine {
 public:
  explicit Machine(const MachineConfig& config);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  bool ok() const { return addresses.ok() && contents.ok(); }
  int device_count() const { return static_cast<int>(devices.size()); }
  DeviceMemory& device(int index) { return *devices[static_cast<size_t>(index)]; }

  // The result that the next allocation call must fail with, or CUDA_SUCCESS. Counts the call.
  CUresult NextForcedFailure();

  // Completes the event with its device's counters and writes it.
  void Log(LogEvent event);

  // Whom Log tells of each call that succeeded, whether or not there is a log (base/memory_observer.h); null: nobody.
  static void Observe(simcuda_observer observer);

  // A fresh handle or id, unique in the machine.
  uint64_t NextId() { return ++last_id_; }

  CUresult ChargeContext(const char* api, int device, uint64_t handle, uint64_t bytes);
  void DischargeContext(const char* api, int device, uint64_t handle, uint64_t bytes);

  // A context's size changed, by a limit that was set.
  CUresult ResizeContext(const char* api, int device, uint64_t handle, uint64_t old_bytes, uint64_t new_bytes);
  void MemoryInfo(int device, uint64_t* free_bytes, uint64_t* total_bytes);

  // A kernel is launched on the device.
  void OnKernel(int device);

  void Copy(uint64_t target, uint64_t source, uint64_t size);
  void Fill(uint64_t target, uint32_t value, unsigned width, uint64_t count);
  void Zero(uint64_t address, uint64_t size);
  // Contents::Seen with TruthOf, Learn, and what takes a range's truth back.
  char* Bytes(uint64_t address, uint64_t size, Truth* truth);
  char* Learn(uint64_t address, uint64_t size, Truth truth);
  void Doubt(uint64_t address, uint64_t size);
  // Of `count` elements of `width` bytes, one after the other.
  void TruthOfEach(uint64_t address, uint64_t count, uint64_t width, unsigned char* truths);
  bool IsKnown(uint64_t address, uint64_t size);
  // What is there, to the host; false and nothing where it is all zeros.
  bool Peek(void* target, uint64_t source, uint64_t size);

  std::mutex mutex;
  const MachineConfig config;
  AddressSpace addresses;
  Contents contents;
  std::vector<std::unique_ptr<DeviceMemory>> devices;
  uint64_t allocation_calls = 0, free_calls = 0, copies = 0;

 private:
  EventLog log_;
  uint64_t last_id_ = 0x1000;
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_MACHINE_H_
