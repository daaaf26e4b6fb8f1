// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Built against the headers of one CUDA version and linked with the runtime of it: the struct layouts agree.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/simcuda/driver/run_in_child.h"

namespace simcuda {
namespace {

TEST(LayoutTest, DevicePropertiesAreThoseOfTheHeadersVersion) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_SMS", "99"}},
                       [] {
                         cudaDeviceProp properties;
                         ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
                         EXPECT_STREQ(properties.name, "SimCUDA H200");
                         EXPECT_EQ(properties.multiProcessorCount, 99);
                         EXPECT_EQ(properties.major, 9);
                         EXPECT_EQ(properties.l2CacheSize > 0, true);
                         EXPECT_EQ(properties.managedMemory, 1);
                       }),
            0);
}

TEST(LayoutTest, CapturedAllocationsComeAliveAtTheLaunch) {
  EXPECT_EQ(
      RunInChild({},
                 [] {
                   cudaStream_t stream = nullptr;
                   cudaGraph_t graph = nullptr;
                   cudaGraphExec_t exec = nullptr;
                   void* pointer = nullptr;
                   unsigned long long used = 7;
                   ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
                   ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
                   ASSERT_EQ(cudaMallocAsync(&pointer, 1 << 20, stream), cudaSuccess);
                   ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
                   ASSERT_EQ(cudaGraphInstantiateWithFlags(&exec, graph, 0), cudaSuccess);
                   EXPECT_EQ(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used), cudaSuccess);
                   EXPECT_EQ(used, 0u);
                   EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
                   EXPECT_EQ(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used), cudaSuccess);
                   EXPECT_EQ(used, 1u << 20);
                   EXPECT_EQ(cudaFree(pointer), cudaSuccess);
                   cudaMemAllocNodeParams parameters{};
                   parameters.poolProps.allocType = cudaMemAllocationTypePinned;
                   parameters.poolProps.location = {cudaMemLocationTypeDevice, 0};
                   parameters.bytesize = 4096;
                   cudaGraphNode_t node = nullptr;
                   ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
                   ASSERT_EQ(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters), cudaSuccess);
                   ASSERT_NE(parameters.dptr, nullptr);
                   EXPECT_EQ(cudaGraphAddMemFreeNode(&node, graph, &node, 1, parameters.dptr), cudaSuccess);
                   void* freed = nullptr;
                   EXPECT_EQ(cudaGraphMemFreeNodeGetParams(node, &freed), cudaSuccess);
                   EXPECT_EQ(freed, parameters.dptr);
                   EXPECT_EQ(cudaDeviceGraphMemTrim(0), cudaSuccess);
                 }),
      0);
}

TEST(LayoutTest, ExternalMemoryIsMapped) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         cudaExternalMemory_t memory = nullptr;
                         cudaExternalMemoryHandleDesc description{};
                         description.type = cudaExternalMemoryHandleTypeOpaqueFd;
                         description.size = 1 << 20;
                         description.handle.fd = ::memfd_create("test", 0);
                         ASSERT_EQ(cudaImportExternalMemory(&memory, &description), cudaSuccess);
                         cudaExternalMemoryBufferDesc buffer{};
                         buffer.size = 4096;
                         void* pointer = nullptr;
                         EXPECT_EQ(cudaExternalMemoryGetMappedBuffer(&pointer, memory, &buffer), cudaSuccess);
                         EXPECT_EQ(cudaFree(pointer), cudaSuccess);
                         cudaExternalMemoryMipmappedArrayDesc shape{};
                         shape.formatDesc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
                         shape.extent = {64, 64, 0};
                         shape.numLevels = 2;
                         cudaMipmappedArray_t array = nullptr;
                         EXPECT_EQ(cudaExternalMemoryGetMappedMipmappedArray(&array, memory, &shape), cudaSuccess);
                         EXPECT_EQ(cudaFreeMipmappedArray(array), cudaSuccess);
                         EXPECT_EQ(cudaDestroyExternalMemory(memory), cudaSuccess);
                       }),
            0);
}

}  // namespace
}  // namespace simcuda
