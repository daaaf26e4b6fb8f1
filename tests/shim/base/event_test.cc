// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The shim writes its enums as numbers of the schema; here both are compared name by name.

#include "shim/base/event.h"

#include <gpumem/trace.pb.h>
#include <gtest/gtest.h>

namespace gpumemshim {
namespace {

namespace pb = gpumem::trace;

template <typename T>
int Number(T value) {
  return static_cast<int>(value);
}

TEST(EventTest, KindsAreTheSchemas) {
  EXPECT_EQ(Number(EventKind::kAlloc), pb::ALLOC);
  EXPECT_EQ(Number(EventKind::kFree), pb::FREE);
  EXPECT_EQ(Number(EventKind::kAllocFailed), pb::ALLOC_FAILED);
  EXPECT_EQ(Number(EventKind::kFreeFailed), pb::FREE_FAILED);
  EXPECT_EQ(Number(EventKind::kAddressReserve), pb::ADDRESS_RESERVE);
  EXPECT_EQ(Number(EventKind::kAddressFree), pb::ADDRESS_FREE);
  EXPECT_EQ(Number(EventKind::kPhysicalCreate), pb::PHYSICAL_CREATE);
  EXPECT_EQ(Number(EventKind::kPhysicalRelease), pb::PHYSICAL_RELEASE);
  EXPECT_EQ(Number(EventKind::kPhysicalRetain), pb::PHYSICAL_RETAIN);
  EXPECT_EQ(Number(EventKind::kMap), pb::MAP);
  EXPECT_EQ(Number(EventKind::kUnmap), pb::UNMAP);
  EXPECT_EQ(Number(EventKind::kImport), pb::IMPORT);
  EXPECT_EQ(Number(EventKind::kImportClose), pb::IMPORT_CLOSE);
  EXPECT_EQ(Number(EventKind::kHostRegister), pb::HOST_REGISTER);
  EXPECT_EQ(Number(EventKind::kHostUnregister), pb::HOST_UNREGISTER);
  EXPECT_EQ(Number(EventKind::kPoolCreate), pb::POOL_CREATE);
  EXPECT_EQ(Number(EventKind::kPoolDestroy), pb::POOL_DESTROY);
  EXPECT_EQ(Number(EventKind::kPoolTrim), pb::POOL_TRIM);
  EXPECT_EQ(Number(EventKind::kContextCreate), pb::CONTEXT_CREATE);
  EXPECT_EQ(Number(EventKind::kContextDestroy), pb::CONTEXT_DESTROY);
  EXPECT_EQ(Number(EventKind::kModuleLoad), pb::MODULE_LOAD);
  EXPECT_EQ(Number(EventKind::kModuleUnload), pb::MODULE_UNLOAD);
  EXPECT_EQ(Number(EventKind::kGraphNodeAlloc), pb::GRAPH_NODE_ALLOC);
  EXPECT_EQ(Number(EventKind::kGraphNodeFree), pb::GRAPH_NODE_FREE);
  EXPECT_EQ(Number(EventKind::kGraphMemory), pb::GRAPH_MEMORY);
  EXPECT_EQ(Number(EventKind::kMulticastBind), pb::MULTICAST_BIND);
  EXPECT_EQ(Number(EventKind::kMulticastUnbind), pb::MULTICAST_UNBIND);
  EXPECT_EQ(Number(EventKind::kPoolSetting), pb::POOL_SETTING);
  EXPECT_EQ(Number(EventKind::kDeviceReset), pb::DEVICE_RESET);
  EXPECT_EQ(Number(EventKind::kOomDevice), pb::OOM_DEVICE);
  EXPECT_EQ(Number(EventKind::kOomAllocator), pb::OOM_ALLOCATOR);
  EXPECT_EQ(Number(EventKind::kOomPool), pb::OOM_POOL);
  EXPECT_EQ(Number(EventKind::kContextGrowth), pb::CONTEXT_GROWTH);
  EXPECT_EQ(Number(EventKind::kLocalMemory), pb::LOCAL_MEMORY);
  EXPECT_EQ(Number(EventKind::kTensor), pb::TENSOR);
  EXPECT_EQ(Number(EventKind::kSaved), pb::SAVED);
  EXPECT_EQ(Number(EventKind::kOptimizerStep), pb::OPTIMIZER_STEP);
  EXPECT_EQ(Number(EventKind::kHostRead), pb::HOST_READ);
  EXPECT_EQ(Number(EventKind::kTorchLimit), pb::TORCH_LIMIT);
  EXPECT_EQ(Number(EventKind::kExisting), pb::EXISTING);
  EXPECT_EQ(Number(EventKind::kExistingEnd), pb::EXISTING_END);
  EXPECT_EQ(Number(EventKind::kAllocatorUse), pb::ALLOCATOR_USE);
  EXPECT_EQ(Number(EventKind::kTensorData), pb::TENSOR_DATA);
  EXPECT_EQ(Number(EventKind::kCommunicator), pb::COMMUNICATOR);
  EXPECT_EQ(pb::EventKind_MAX, Number(EventKind::kCommunicator));
}

TEST(EventTest, LayersAndMemoryAreTheSchemas) {
  EXPECT_EQ(Number(Layer::kDriver), pb::DRIVER);
  EXPECT_EQ(Number(Layer::kRuntime), pb::RUNTIME);
  EXPECT_EQ(Number(Layer::kTorch), pb::TORCH);
  EXPECT_EQ(pb::Layer_MAX, Number(Layer::kTorch));
  EXPECT_EQ(Number(Memory::kDevice), pb::DEVICE);
  EXPECT_EQ(Number(Memory::kStreamOrdered), pb::STREAM_ORDERED);
  EXPECT_EQ(Number(Memory::kManaged), pb::MANAGED);
  EXPECT_EQ(Number(Memory::kHostPinned), pb::HOST_PINNED);
  EXPECT_EQ(Number(Memory::kArray), pb::ARRAY);
  EXPECT_EQ(Number(Memory::kVirtual), pb::VIRTUAL);
  EXPECT_EQ(Number(Memory::kPhysical), pb::PHYSICAL);
  EXPECT_EQ(Number(Memory::kPhysicalHost), pb::PHYSICAL_HOST);
  EXPECT_EQ(Number(Memory::kMulticast), pb::MULTICAST);
  EXPECT_EQ(Number(Memory::kExternal), pb::EXTERNAL);
  EXPECT_EQ(pb::Memory_MAX, Number(Memory::kExternal));
}

}  // namespace
}  // namespace gpumemshim
