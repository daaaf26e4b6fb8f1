// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// The driver's virtual memory management (shim/hooks/driver_virtual.cc).

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using DriverVirtual = HookTest;

constexpr CUmemGenericAllocationHandle kHandle = 0x8000;

CUmemAllocationProp Props(CUmemLocationType type, int id) {
  CUmemAllocationProp props{};
  props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = type;
  props.location.id = id;
  return props;
}

TEST_F(DriverVirtual, AddressesAreReservedAndFreed) {
  fake::cuMemAddressReserve::Answer(CUDA_SUCCESS, [](CUdeviceptr* out, auto...) { *out = 0x7000; });
  fake::cuMemAddressFree::Answer(CUDA_SUCCESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(Keep([&] { return cuMemAddressReserve(&address, 512, 0, 0, 0); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"AddressReserve Virtual cuMemAddressReserve address=0x7000 size=512"});
  EXPECT_EQ(Keep([&] { return cuMemAddressFree(address, 512); }), CUDA_SUCCESS);
  EXPECT_EQ(fake::cuMemAddressFree::before, Lines{"AddressFree Virtual cuMemAddressFree address=0x7000 size=512"});
}

// Address space is nobody's memory, so the device is not asked what it had free.
TEST_F(DriverVirtual, AReservationThatFails) {
  fake::cuMemAddressReserve::Answer(CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr address = 0x1;
  EXPECT_EQ(Keep([&] { return cuMemAddressReserve(&address, 512, 0, 0, 0); }), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Recorded(), Lines{"AllocFailed Virtual cuMemAddressReserve size=512 result=2"});
}

TEST_F(DriverVirtual, PhysicalMemoryIsWhereItsPropertiesSay) {
  fake::cuMemCreate::Answer(CUDA_SUCCESS, [](CUmemGenericAllocationHandle* out, auto...) { *out = kHandle; });
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp device = Props(CU_MEM_LOCATION_TYPE_DEVICE, 4);
  EXPECT_EQ(Keep([&] { return cuMemCreate(&handle, 512, &device, 0); }), CUDA_SUCCESS);
  EXPECT_EQ(handle, kHandle);
  EXPECT_EQ(Recorded(), Lines{"PhysicalCreate Physical cuMemCreate device=4 size=512 handle=0x8000"});
  const CUmemAllocationProp host = Props(CU_MEM_LOCATION_TYPE_HOST, 4);
  EXPECT_EQ(Keep([&] { return cuMemCreate(&handle, 512, &host, 0); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"PhysicalCreate PhysicalHost cuMemCreate size=512 handle=0x8000"});
  EXPECT_EQ(g_driver.questions, 0);  // there need be no context
}

TEST_F(DriverVirtual, PhysicalMemoryThatFails) {
  fake::cuMemCreate::Answer(CUDA_ERROR_OUT_OF_MEMORY);
  CUmemGenericAllocationHandle handle = 0x1;
  const CUmemAllocationProp device = Props(CU_MEM_LOCATION_TYPE_DEVICE, 3);
  EXPECT_EQ(Keep([&] { return cuMemCreate(&handle, 512, &device, 0); }), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(handle, 0x1u);
  EXPECT_EQ(Recorded(), (Lines{"AllocFailed Physical cuMemCreate device=3 size=512 result=2",
                               "OomDevice Device device=3 size=1000 requested=4000 no stack"}));
}

TEST_F(DriverVirtual, HandlesAreRetainedAndReleased) {
  fake::cuMemRetainAllocationHandle::Answer(CUDA_SUCCESS,
                                            [](CUmemGenericAllocationHandle* out, void*) { *out = kHandle; });
  fake::cuMemRelease::Answer(CUDA_SUCCESS);
  CUmemGenericAllocationHandle handle = 0;
  Keep([&] { return cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(0x7000)); });
  EXPECT_EQ(Recorded(), Lines{"PhysicalRetain Physical cuMemRetainAllocationHandle address=0x7000 handle=0x8000"});
  Keep([&] { return cuMemRelease(handle); });
  EXPECT_EQ(fake::cuMemRelease::before, Lines{"PhysicalRelease Physical cuMemRelease handle=0x8000"});
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverVirtual, AReleaseThatFailsIsTakenBack) {
  fake::cuMemRelease::Answer(CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Keep([] { return cuMemRelease(kHandle); }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Recorded(), Lines{"FreeFailed Physical cuMemRelease handle=0x8000 result=1"});
}

TEST_F(DriverVirtual, MapsAndUnmaps) {
  fake::cuMemMap::Answer(CUDA_SUCCESS);
  fake::cuMemUnmap::Answer(CUDA_SUCCESS);
  Keep([] { return cuMemMap(0x7000, 512, 0, kHandle, 0); });
  EXPECT_EQ(Recorded(), Lines{"Map Virtual cuMemMap address=0x7000 size=512 handle=0x8000"});
  Keep([] { return cuMemUnmap(0x7000, 512); });
  EXPECT_EQ(fake::cuMemUnmap::before, Lines{"Unmap Virtual cuMemUnmap address=0x7000 size=512"});
}

TEST_F(DriverVirtual, AMappingThatFailsIsNoEvent) {
  fake::cuMemMap::Answer(CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Keep([] { return cuMemMap(0x7000, 512, 0, kHandle, 0); }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverVirtual, ImportsHaveAHandleAndNoSize) {
  fake::cuMemImportFromShareableHandle::Answer(CUDA_SUCCESS,
                                               [](CUmemGenericAllocationHandle* out, auto...) { *out = kHandle; });
  CUmemGenericAllocationHandle handle = 0;
  Keep([&] { return cuMemImportFromShareableHandle(&handle, nullptr, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR); });
  EXPECT_EQ(Recorded(), Lines{"Import Physical cuMemImportFromShareableHandle handle=0x8000"});
}

}  // namespace
}  // namespace gpumemshim::hooks
