// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory that more than one thing holds, or that goes with something else: each byte counts once, for its owner.

#include <gtest/gtest.h>

#include "testing/sizes.h"
#include "tests/analyzer/replay/analyze_trace.h"

namespace gpumem {
namespace {

using testing::kMiB;
using testing::TraceBuilder;

constexpr uint64_t kBase = 0x7f0000000000;

EventRow Row(trace::EventKind kind, trace::Memory memory, uint64_t address, uint64_t size, uint64_t handle,
             int device = 0) {
  EventRow row;
  row.kind = kind;
  row.layer = trace::DRIVER;
  row.memory = memory;
  row.device = device;
  row.address = address;
  row.size = size;
  row.handle = handle;
  return row;
}

uint64_t EndTotal(const Analysis& analysis) { return analysis.devices.at(0).end.total; }

TEST(CudaMemorySharedTest, PinnedMemoryGoesWithItsContext) {
  TraceBuilder trace;
  trace.Event(Row(trace::ALLOC, trace::HOST_PINNED, kBase, 5 * kMiB, 0, 0));
  trace.Event(Row(trace::HOST_REGISTER, trace::HOST_PINNED, kBase + (1 << 28), 3 * kMiB, 0, 0));
  trace.Event(Row(trace::ALLOC, trace::HOST_PINNED, kBase + (1 << 29), 2 * kMiB, 0, 1));  // another device's
  trace.Event(Row(trace::ALLOC, trace::HOST_PINNED, kBase + (1 << 30), kMiB, 0x77, 0));   // another context's
  trace.Event(Row(trace::DEVICE_RESET, trace::DEVICE, 0, 0, 0, 0)).End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_EQ(analysis.host_pinned_peak, 11 * kMiB);
  EXPECT_EQ(analysis.host_pinned_end, 3 * kMiB);
}

TEST(CudaMemorySharedTest, APoolOnTheHostHoldsNoDeviceMemory) {
  TraceBuilder trace;
  trace.Event(Row(trace::POOL_CREATE, trace::HOST_PINNED, 0, 0, 0x50, -1));
  trace.Event(Row(trace::ALLOC, trace::STREAM_ORDERED, kBase, 5 * kMiB, 0x50));
  trace.Event(Row(trace::ALLOC, trace::STREAM_ORDERED, kBase + 16 * kMiB, kMiB, 0x51)).End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_EQ(EndTotal(analysis), kMiB);
  EXPECT_EQ(analysis.host_pinned_end, 5 * kMiB);
}

TEST(CudaMemorySharedTest, GraphMemoryIsWhatTheDriverSaysLast) {
  TraceBuilder trace;
  trace.Event(Row(trace::GRAPH_NODE_ALLOC, trace::STREAM_ORDERED, kBase, 9 * kMiB, 0x60));
  trace.Event(Row(trace::GRAPH_MEMORY, trace::DEVICE, 0, 10 * kMiB, 0x61));
  trace.Event(Row(trace::GRAPH_MEMORY, trace::DEVICE, 0, 4 * kMiB, 0x61));
  trace.Event(Row(trace::FREE, trace::DEVICE, kBase, 0, 0)).End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_EQ(analysis.devices.at(0).peak_total.bytes, 10 * kMiB);
  EXPECT_EQ(EndTotal(analysis), 4 * kMiB);
  EXPECT_EQ(analysis.devices.at(0).leaks.unknown_frees, 0u) << "a node's address is known";
}

TEST(CudaMemorySharedTest, AMulticastObjectHasNoMemoryAndHoldsWhatIsBound) {
  TraceBuilder trace;
  trace.Event(Row(trace::PHYSICAL_CREATE, trace::MULTICAST, 0, 2 * kMiB, 7, -1));
  trace.Event(Row(trace::PHYSICAL_CREATE, trace::PHYSICAL, 0, 2 * kMiB, 8));
  trace.Event(Row(trace::MULTICAST_BIND, trace::PHYSICAL, 8, 2 * kMiB, 7));
  trace.Event(Row(trace::MAP, trace::VIRTUAL, kBase, 2 * kMiB, 7));
  trace.Event(Row(trace::PHYSICAL_RELEASE, trace::PHYSICAL, 0, 0, 8));
  TraceBuilder unbound = trace;
  trace.End();
  EXPECT_EQ(EndTotal(AnalyzeTrace(trace)), 2 * kMiB) << "released, but bound";
  unbound.Event(Row(trace::MULTICAST_UNBIND, trace::PHYSICAL, 0, 2 * kMiB, 7)).End();
  EXPECT_EQ(EndTotal(AnalyzeTrace(unbound)), 0u);
}

TEST(CudaMemorySharedTest, BindingsGoWithTheirObject) {
  TraceBuilder trace;
  trace.Event(Row(trace::PHYSICAL_CREATE, trace::MULTICAST, 0, 2 * kMiB, 7, -1));
  trace.Event(Row(trace::PHYSICAL_CREATE, trace::PHYSICAL, 0, 2 * kMiB, 8));
  trace.Event(Row(trace::MULTICAST_BIND, trace::PHYSICAL, 8, 2 * kMiB, 7));
  trace.Event(Row(trace::PHYSICAL_RELEASE, trace::PHYSICAL, 0, 0, 8));
  trace.Event(Row(trace::PHYSICAL_RELEASE, trace::PHYSICAL, 0, 0, 7)).End();
  EXPECT_EQ(EndTotal(AnalyzeTrace(trace)), 0u);
}

TEST(CudaMemorySharedTest, AnExternalObjectIsNeverOursAndCountsOnce) {
  TraceBuilder trace;
  trace.Event(Row(trace::PHYSICAL_CREATE, trace::PHYSICAL, 0, kMiB, 9));  // the same number, another key space
  trace.Event(Row(trace::IMPORT, trace::EXTERNAL, 0, 8 * kMiB, 9));
  trace.Event(Row(trace::MAP, trace::EXTERNAL, kBase, 2 * kMiB, 9));
  trace.Event(Row(trace::MAP, trace::EXTERNAL, kBase + 16 * kMiB, 2 * kMiB, 9));
  trace.Event(Row(trace::FREE, trace::DEVICE, kBase, 0, 0));
  trace.Event(Row(trace::IMPORT_CLOSE, trace::EXTERNAL, 0, 0, 9)).End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_EQ(EndTotal(analysis), kMiB);
  EXPECT_EQ(analysis.imported_peak, 8 * kMiB);
  EXPECT_EQ(analysis.imported_end, 8 * kMiB) << "a buffer is still mapped";
  EXPECT_EQ(analysis.devices.at(0).leaks.unknown_frees, 0u);
}

TEST(CudaMemorySharedTest, ASparseArrayHoldsWhatIsMappedIntoIt) {
  TraceBuilder trace;
  trace.Event(Row(trace::ALLOC, trace::ARRAY, 0x900, 0, 0));
  trace.Event(Row(trace::PHYSICAL_CREATE, trace::PHYSICAL, 0, 2 * kMiB, 8));
  trace.Event(Row(trace::MAP, trace::ARRAY, 0x900, 0, 8));
  trace.Event(Row(trace::PHYSICAL_RELEASE, trace::PHYSICAL, 0, 0, 8));
  TraceBuilder destroyed = trace;
  trace.End();
  EXPECT_EQ(EndTotal(AnalyzeTrace(trace)), 2 * kMiB);
  destroyed.Event(Row(trace::FREE, trace::ARRAY, 0x900, 0, 0)).End();
  EXPECT_EQ(EndTotal(AnalyzeTrace(destroyed)), 0u);
}

TEST(CudaMemorySharedTest, AContextTakesItsOwnMemoryAlone) {
  TraceBuilder trace;
  trace.Event(Row(trace::ALLOC, trace::DEVICE, kBase, 3 * kMiB, 0));
  trace.Event(Row(trace::ALLOC, trace::DEVICE, kBase + 16 * kMiB, 5 * kMiB, 0x70));
  trace.Event(Row(trace::PHYSICAL_CREATE, trace::PHYSICAL, 0, kMiB, 8));
  trace.Event(Row(trace::CONTEXT_DESTROY, trace::DEVICE, 0, 0, 0x70, -1)).End();
  EXPECT_EQ(EndTotal(AnalyzeTrace(trace)), 4 * kMiB);
}

TEST(CudaMemorySharedTest, AContextThatCouldNotBeDestroyedKeepsItsMemory) {
  TraceBuilder trace;
  trace.Event(Row(trace::ALLOC, trace::DEVICE, kBase, 5 * kMiB, 0x70));
  trace.Event(Row(trace::CONTEXT_DESTROY, trace::DEVICE, 0, 0, 0x70, -1));
  trace.Event(Row(trace::FREE_FAILED, trace::DEVICE, 0, 0, 0x70, -1)).End();
  EXPECT_EQ(EndTotal(AnalyzeTrace(trace)), 5 * kMiB);
}

TEST(ResidualMemoryTest, ContextsAndModulesAreInNoTotal) {
  TraceBuilder trace;
  trace.Event(Row(trace::CONTEXT_CREATE, trace::DEVICE, 0, 300 * kMiB, 0));
  trace.Event(Row(trace::CONTEXT_CREATE, trace::DEVICE, 0, 200 * kMiB, 0x70));
  trace.Event(Row(trace::MODULE_LOAD, trace::DEVICE, 0, 6 * kMiB, 0x80));
  trace.Event(Row(trace::MODULE_LOAD, trace::DEVICE, 0, 4 * kMiB, 0x81));
  trace.Event(Row(trace::MODULE_UNLOAD, trace::DEVICE, 0, 0, 0x80));
  trace.Event(Row(trace::ALLOC, trace::DEVICE, kBase, kMiB, 0));
  trace.Event(Row(trace::CONTEXT_DESTROY, trace::DEVICE, 0, 0, 0x70)).End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_EQ(EndTotal(analysis), kMiB);
  const ResidualUse& residual = analysis.devices.at(0).residual;
  EXPECT_EQ(residual.contexts, 1u);
  EXPECT_EQ(residual.context_bytes, 300 * kMiB);
  EXPECT_EQ(residual.peak_context_bytes, 500 * kMiB);
  EXPECT_EQ(residual.modules, 1u);
  EXPECT_EQ(residual.module_bytes, 4 * kMiB);
  EXPECT_EQ(residual.peak_module_bytes, 10 * kMiB);
}

}  // namespace
}  // namespace gpumem
