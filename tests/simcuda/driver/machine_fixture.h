// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A machine of two devices of 64 MiB for tests of the device model.
#ifndef TESTS_SIMCUDA_DRIVER_MACHINE_FIXTURE_H_
#define TESTS_SIMCUDA_DRIVER_MACHINE_FIXTURE_H_

#include <gtest/gtest.h>

#include "simcuda/device/granularity.h"
#include "simcuda/device/linear_memory.h"
#include "simcuda/device/virtual_memory.h"

namespace simcuda {

class MachineFixture : public testing::Test {
 protected:
  MachineFixture()
      : machine({.device_count = 2, .memory_bytes = 64 * kMiB}), linear(&machine), virtual_memory(&machine) {}

  uint64_t Allocate(uint64_t size, int device = 0, AllocationKind kind = AllocationKind::kDevice) {
    uint64_t address = 0;
    EXPECT_EQ(linear.Allocate({.device = device}, size, kind, &address), CUDA_SUCCESS);
    return address;
  }
  uint64_t Used(int device = 0) { return machine.device(device).used_bytes(); }
  uint64_t Live(int device = 0) { return machine.device(device).live_bytes(); }

  Machine machine;
  LinearMemory linear;
  VirtualMemory virtual_memory;
};

}  // namespace simcuda

#endif  // TESTS_SIMCUDA_DRIVER_MACHINE_FIXTURE_H_
