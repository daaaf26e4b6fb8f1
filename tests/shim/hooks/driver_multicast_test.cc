// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Multicast objects (shim/hooks/driver_virtual.cc).

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using DriverMulticast = HookTest;

constexpr CUmemGenericAllocationHandle kObject = 0xb000;
constexpr CUmemGenericAllocationHandle kMemory = 0x8000;

TEST_F(DriverMulticast, Create) {
  fake::cuMulticastCreate::Answer(CUDA_SUCCESS, [](CUmemGenericAllocationHandle* out, auto) { *out = kObject; });
  CUmulticastObjectProp props{};
  props.size = 512;
  CUmemGenericAllocationHandle object = 0;
  EXPECT_EQ(Keep([&] { return cuMulticastCreate(&object, &props); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"PhysicalCreate Multicast cuMulticastCreate size=512 handle=0xb000"});
}

TEST_F(DriverMulticast, CreateThatFails) {
  fake::cuMulticastCreate::Answer(CUDA_ERROR_NOT_SUPPORTED);
  CUmulticastObjectProp props{};
  props.size = 512;
  CUmemGenericAllocationHandle object = 0x1;
  EXPECT_EQ(Keep([&] { return cuMulticastCreate(&object, &props); }), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(object, 0x1u);
  EXPECT_EQ(Recorded(), Lines{"AllocFailed Multicast cuMulticastCreate size=512 result=801"});
}

TEST_F(DriverMulticast, MemoryAndAddressesAreBound) {
  fake::cuMulticastBindMem::Answer(CUDA_SUCCESS);
  fake::cuMulticastBindAddr::Answer(CUDA_SUCCESS);
  Keep([] { return cuMulticastBindMem(kObject, 64, kMemory, 0, 512, 0); });
  EXPECT_EQ(Recorded(), Lines{"MulticastBind Physical cuMulticastBindMem address=0x8000 size=512 handle=0xb000"});
  Keep([] { return cuMulticastBindAddr(kObject, 64, 0x7000, 512, 0); });
  EXPECT_EQ(Recorded(), Lines{"MulticastBind Virtual cuMulticastBindAddr address=0x7000 size=512 handle=0xb000"});
  fake::cuMulticastBindAddr::Answer(CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Keep([] { return cuMulticastBindAddr(kObject, 64, 0x7000, 512, 0); }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverMulticast, Unbind) {
  fake::cuMulticastUnbind::Answer(CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Keep([] { return cuMulticastUnbind(kObject, 2, 64, 512); }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(fake::cuMulticastUnbind::before,
            Lines{"MulticastUnbind Physical cuMulticastUnbind device=2 address=0x40 size=512 handle=0xb000"});
  EXPECT_EQ(Recorded(),
            Lines{"FreeFailed Physical cuMulticastUnbind device=2 address=0x40 size=512 handle=0xb000 result=1"});
}

}  // namespace
}  // namespace gpumemshim::hooks
