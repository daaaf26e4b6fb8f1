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

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "simcuda/base/event_log.h"
#include "simcuda/base/memory_observer.h"
#include "simcuda/device/address_space.h"
#include "simcuda/device/contents.h"
#include "simcuda/device/device_memory.h"

namespace simcuda {

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
  // Contents::Known, Learn and what takes a range's being known back; `known`: whether all of it is.
  char* Bytes(uint64_t address, uint64_t size, bool* known);
  char* Learn(uint64_t address, uint64_t size, bool known);
  void Doubt(uint64_t address, uint64_t size);
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
