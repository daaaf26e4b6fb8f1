// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory nodes of graphs: the address at the node's creation, the memory at the launch, kept until a trim.
#include <gmock/gmock.h>

#include "tests/simcuda/driver/driver_fixture.h"
#include "tests/simcuda/driver/log_reader.h"

namespace simcuda {
namespace {

using testing::ElementsAre;

constexpr size_t kMiB = 1 << 20;

uint64_t Attribute(CUgraphMem_attribute attribute) {
  cuuint64_t value = ~0ull;
  EXPECT_EQ(cuDeviceGetGraphMemAttribute(0, attribute, &value), CUDA_SUCCESS);
  return value;
}
uint64_t Used() { return Attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT); }
uint64_t Reserved() { return Attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT); }

size_t FreeBytes() {
  size_t free_bytes = 0, total_bytes = 0;
  EXPECT_EQ(cuMemGetInfo(&free_bytes, &total_bytes), CUDA_SUCCESS);
  return free_bytes;
}

CUDA_MEM_ALLOC_NODE_PARAMS Wanted(size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = bytes;
  return parameters;
}

CUdeviceptr AddAllocation(CUgraph graph, size_t bytes) {
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = Wanted(bytes);
  EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters), CUDA_SUCCESS);
  EXPECT_NE(parameters.dptr, 0u);
  return parameters.dptr;
}

void AddFree(CUgraph graph, CUdeviceptr pointer) {
  CUgraphNode node = nullptr;
  EXPECT_EQ(cuGraphAddMemFreeNode(&node, graph, nullptr, 0, pointer), CUDA_SUCCESS);
}

// Two allocations of 3 MiB whose lifetimes do not overlap, one of 5 MiB that stays.
CUdeviceptr MakeGraph(CUgraph* graph) {
  EXPECT_EQ(cuGraphCreate(graph, 0), CUDA_SUCCESS);
  const CUdeviceptr first = AddAllocation(*graph, 3 * kMiB);
  AddFree(*graph, first);
  const CUdeviceptr second = AddAllocation(*graph, 3 * kMiB);
  AddFree(*graph, second);
  return AddAllocation(*graph, 5 * kMiB);
}

void LaunchTwice() {
  UsePrimaryContext();
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr, second = nullptr;
  const size_t free_before = FreeBytes();
  const CUdeviceptr kept = MakeGraph(&graph);
  EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(FreeBytes(), free_before);
  EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(Used(), 5 * kMiB);
  EXPECT_EQ(Reserved(), 6 * kMiB);
  EXPECT_EQ(FreeBytes(), free_before - 6 * kMiB);
  EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_ERROR_INVALID_VALUE);  // what the first left is still there
  EXPECT_EQ(cuMemFreeAsync(kept, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(kept, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Used(), 0u);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(Reserved(), 6 * kMiB);  // no synchronisation gives it back
  EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(kept), CUDA_SUCCESS);
  EXPECT_EQ(Attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 5 * kMiB);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
  EXPECT_EQ(Reserved(), 0u);
  EXPECT_EQ(FreeBytes(), free_before);
  cuuint64_t zero = 0;
  EXPECT_EQ(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &zero), CUDA_SUCCESS);
  EXPECT_EQ(Attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 0u);
}

TEST(GraphMemoryTest, AppearsAtTheLaunchAndStaysUntilTheTrim) {
  const std::string path = TemporaryPath("graph");
  ASSERT_EQ(RunInChild({{"SIMCUDA_LOG", path}}, LaunchTwice), 0);
  std::vector<std::string> kinds;
  std::map<std::string, std::string> live_after;
  for (const LogLine& line : ReadLog(path)) {
    if (line.at("kind") != "context_create") kinds.push_back(line.at("kind"));
    live_after[line.at("kind")] = line.at("live_bytes");
  }
  ::unlink(path.c_str());
  EXPECT_THAT(kinds, ElementsAre("graph_node", "graph_node_free", "graph_node", "graph_node_free", "graph_node",
                                 "graph_launch", "graph_alloc", "graph_free", "graph_alloc", "graph_free",
                                 "graph_alloc", "graph_launch", "free", "free_failed", "graph_launch", "graph_alloc",
                                 "graph_free", "graph_alloc", "graph_free", "graph_alloc", "free", "graph_trim"));
  EXPECT_EQ(live_after["graph_alloc"], std::to_string(5 * kMiB));
  EXPECT_EQ(live_after["free"], "0");
}

TEST(GraphMemoryTest, CaptureMakesNodesOfStreamOrderedCalls) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         UsePrimaryContext();
                         CUstream stream = nullptr;
                         CUgraph graph = nullptr;
                         CUgraphExec exec = nullptr;
                         CUdeviceptr plain = 0, captured = 0;
                         size_t count = 3;
                         CUgraphNode nodes[3];
                         CUgraphNodeType type;
                         ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
                         ASSERT_EQ(cuMemAllocAsync(&plain, kMiB, stream), CUDA_SUCCESS);
                         ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemAllocAsync(&captured, 4 * kMiB, stream), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemFreeAsync(plain, stream), CUDA_ERROR_INVALID_VALUE);  // no graph's memory
                         EXPECT_EQ(cuMemsetD8Async(captured, 1, 16, stream), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemFreeAsync(captured, stream), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemFreeAsync(captured, stream), CUDA_ERROR_INVALID_VALUE);
                         EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
                         ASSERT_EQ(cuGraphGetNodes(graph, nodes, &count), CUDA_SUCCESS);
                         ASSERT_EQ(count, 3u);
                         EXPECT_EQ(cuGraphNodeGetType(nodes[0], &type), CUDA_SUCCESS);
                         EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
                         CUDA_MEM_ALLOC_NODE_PARAMS parameters;
                         EXPECT_EQ(cuGraphMemAllocNodeGetParams(nodes[0], &parameters), CUDA_SUCCESS);
                         EXPECT_EQ(parameters.dptr, captured);
                         EXPECT_EQ(parameters.bytesize, 4 * kMiB);
                         CUdeviceptr freed = 0;
                         EXPECT_EQ(cuGraphMemFreeNodeGetParams(nodes[2], &freed), CUDA_SUCCESS);
                         EXPECT_EQ(freed, captured);
                         EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
                         EXPECT_EQ(Reserved(), 0u);
                         EXPECT_EQ(cuGraphUpload(exec, stream), CUDA_SUCCESS);
                         EXPECT_EQ(Reserved(), 4 * kMiB);
                         EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
                         EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
                         EXPECT_EQ(Reserved(), 4 * kMiB);
                         EXPECT_EQ(Used(), 0u);
                         CUgraph clone = nullptr;
                         EXPECT_EQ(cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
                       }),
            0);
}

TEST(GraphMemoryTest, AutoFreeOnLaunchFreesWhatWasLeft) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         UsePrimaryContext();
                         CUgraph graph = nullptr;
                         CUgraphExec exec = nullptr;
                         MakeGraph(&graph);
                         EXPECT_EQ(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
                                   CUDA_SUCCESS);
                         EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_SUCCESS);
                         EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_SUCCESS);
                         EXPECT_EQ(Used(), 5 * kMiB);
                         EXPECT_EQ(Reserved(), 6 * kMiB);
                         EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
                         EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
                         EXPECT_EQ(Used(), 5 * kMiB);  // neither destroys memory
                       }),
            0);
}

TEST(GraphMemoryTest, TheGenericNodeDoesTheSame) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         UsePrimaryContext();
                         CUgraph graph = nullptr, other = nullptr;
                         CUgraphExec exec = nullptr, other_exec = nullptr;
                         CUgraphNode node = nullptr;
                         ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
                         ASSERT_EQ(cuGraphCreate(&other, 0), CUDA_SUCCESS);
                         CUgraphNodeParams allocation{}, release{};
                         allocation.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
                         allocation.alloc.poolProps = Wanted(0).poolProps;
                         allocation.alloc.bytesize = 2 * kMiB;
                         ASSERT_EQ(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &allocation), CUDA_SUCCESS);
                         release.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
                         release.free.dptr = allocation.alloc.dptr;
                         ASSERT_EQ(cuGraphAddNode(&node, other, nullptr, nullptr, 0, &release), CUDA_SUCCESS);
                         release.free.dptr = 4096;
                         EXPECT_EQ(cuGraphAddNode(&node, other, nullptr, nullptr, 0, &release),
                                   CUDA_ERROR_INVALID_VALUE);
                         EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
                         EXPECT_EQ(cuGraphInstantiate(&other_exec, other, 0), CUDA_SUCCESS);
                         EXPECT_EQ(cuGraphLaunch(other_exec, nullptr), CUDA_ERROR_INVALID_VALUE);  // not there yet
                         EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_SUCCESS);
                         EXPECT_EQ(Used(), 2 * kMiB);
                         EXPECT_EQ(cuGraphLaunch(other_exec, nullptr), CUDA_SUCCESS);  // one graph frees for another
                         EXPECT_EQ(Used(), 0u);
                       }),
            0);
}

TEST(GraphMemoryTest, ALaunchThatDoesNotFitChangesNothing) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_MEM_MB", "1000"}, {"SIMCUDA_CTX_MB", "100"}},
                       [] {
                         UsePrimaryContext();
                         CUgraph graph = nullptr;
                         CUgraphExec exec = nullptr;
                         ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
                         AddAllocation(graph, 500 * kMiB);
                         AddAllocation(graph, 500 * kMiB);
                         EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
                         EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
                         EXPECT_EQ(Used(), 0u);
                         EXPECT_EQ(FreeBytes(), 900 * kMiB);
                       }),
            0);
}

}  // namespace
}  // namespace simcuda
