// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory of graphs (shim/hooks/driver_graphs.cc). What was recorded of a device's graphs is remembered for the life of
// a process, so each test has a device of its own.

#include <algorithm>

#include "shim/hooks/capture.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

const auto kGraph = MakeHandle<CUgraph>(0x9000);
const auto kExec = MakeHandle<CUgraphExec>(0x9001);

class DriverGraphs : public HookTest {
 protected:
  static CUDA_MEM_ALLOC_NODE_PARAMS AllocOn(int device) {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.poolProps.location.id = device;
    params.bytesize = 512;
    return params;
  }

  static void AddAllocNode(int device) {
    fake::cuGraphAddMemAllocNode::Answer(CUDA_SUCCESS,
                                         [](auto, auto, auto, auto, auto* params) { params->dptr = 0x7000; });
    CUDA_MEM_ALLOC_NODE_PARAMS params = AllocOn(device);
    CUgraphNode node = nullptr;
    EXPECT_EQ(Keep([&] { return cuGraphAddMemAllocNode(&node, kGraph, nullptr, 0, &params); }), CUDA_SUCCESS);
  }
};

TEST_F(DriverGraphs, NodesAreMarks) {
  AddAllocNode(10);
  EXPECT_EQ(Recorded(), Lines{"GraphNodeAlloc StreamOrdered cuGraphAddMemAllocNode device=10 address=0x7000 size=512 "
                              "handle=0x9000"});
  fake::cuGraphAddMemFreeNode::Answer(CUDA_SUCCESS);
  EXPECT_EQ(Keep([] { return cuGraphAddMemFreeNode(nullptr, kGraph, nullptr, 0, 0x7000); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"GraphNodeFree StreamOrdered cuGraphAddMemFreeNode address=0x7000 handle=0x9000"});
}

TEST_F(DriverGraphs, NodesThatCouldNotBeAddedAreNone) {
  fake::cuGraphAddMemAllocNode::Answer(CUDA_ERROR_NOT_SUPPORTED);
  CUDA_MEM_ALLOC_NODE_PARAMS params = AllocOn(11);
  EXPECT_EQ(Keep([&] { return cuGraphAddMemAllocNode(nullptr, kGraph, nullptr, 0, &params); }),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverGraphs, NodesByTheirType) {
  fake::cuGraphAddNode::Answer(CUDA_SUCCESS);
  fake::cuGraphAddNode_v2::Answer(CUDA_SUCCESS);
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  params.alloc.poolProps = AllocOn(12).poolProps;
  params.alloc.bytesize = 512;
  params.alloc.dptr = 0x7000;
  Keep([&] { return cuGraphAddNode(nullptr, kGraph, nullptr, 0, &params); });
  EXPECT_EQ(Recorded(),
            Lines{"GraphNodeAlloc StreamOrdered cuGraphAddNode device=12 address=0x7000 size=512 handle=0x9000"});
  params = {};
  params.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  params.free.dptr = 0x7000;
  Keep([&] { return cuGraphAddNode_v2(nullptr, kGraph, nullptr, nullptr, 0, &params); });
  EXPECT_EQ(Recorded(), Lines{"GraphNodeFree StreamOrdered cuGraphAddNode_v2 address=0x7000 handle=0x9000"});
  params.type = CU_GRAPH_NODE_TYPE_KERNEL;
  Keep([&] { return cuGraphAddNode(nullptr, kGraph, nullptr, 0, &params); });
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverGraphs, WhatALaunchReservedIsRecordedWhereItChanged) {
  AddAllocNode(13);
  Recorded();
  fake::cuGraphLaunch::Answer(CUDA_SUCCESS, [](auto...) { g_driver.graph_reserved = 8192; });
  Keep([] { return cuGraphLaunch(kExec, nullptr); });
  EXPECT_EQ(fake::cuGraphLaunch::before, Lines{});
  const Lines first = Recorded();
  EXPECT_EQ(
      std::count(first.begin(), first.end(), "GraphMemory Device cuGraphLaunch device=13 size=8192 handle=0x9001"), 1);
  Keep([] { return cuGraphLaunch(kExec, nullptr); });
  EXPECT_EQ(Recorded(), Lines{});
  fake::cuDeviceGraphMemTrim::Answer(CUDA_SUCCESS, [](auto) { g_driver.graph_reserved = 0; });
  Keep([] { return cuDeviceGraphMemTrim(13); });
  const Lines last = Recorded();
  EXPECT_EQ(std::count(last.begin(), last.end(), "GraphMemory Device cuDeviceGraphMemTrim device=13"), 1);
}

TEST_F(DriverGraphs, NothingIsAskedAfterAFailureOrInACapture) {
  AddAllocNode(14);
  Recorded();
  g_driver.graph_reserved = 4096;
  g_driver.questions = 0;
  fake::cuGraphLaunch_ptsz::Answer(CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Keep([] { return cuGraphLaunch_ptsz(kExec, nullptr); }), CUDA_ERROR_OUT_OF_MEMORY);
  capture::g_active.store(1);
  fake::cuGraphExecDestroy::Answer(CUDA_SUCCESS);
  Keep([] { return cuGraphExecDestroy(kExec); });
  EXPECT_EQ(g_driver.questions, 0);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverGraphs, AMarkedNodeIsLookedAfterLikeOthers) {
  Event event = MakeEvent(ApiId::kcuMemAllocAsync, EventKind::kAlloc, Memory::kStreamOrdered);
  event.device = 15;
  capture::MarkNode(event);
  EXPECT_EQ(event.kind, EventKind::kGraphNodeAlloc);
  fake::cuGraphLaunch_ptsz::Answer(CUDA_SUCCESS, [](auto...) { g_driver.graph_reserved = 100; });
  Keep([] { return cuGraphLaunch_ptsz(kExec, nullptr); });
  const Lines lines = Recorded();
  EXPECT_EQ(
      std::count(lines.begin(), lines.end(), "GraphMemory Device cuGraphLaunch_ptsz device=15 size=100 handle=0x9001"),
      1);
}

// Stream captures are counted (shim/hooks/driver_graphs.cc).

using DriverCapture = HookTest;

const auto kStream = MakeHandle<CUstream>(0x5000);

int Active() { return capture::g_active.load(); }

TEST_F(DriverCapture, EveryFormOfBeginCounts) {
  fake::cuStreamBeginCapture::Answer(CUDA_SUCCESS);
  fake::cuStreamBeginCapture_ptsz::Answer(CUDA_SUCCESS);
  fake::cuStreamBeginCapture_v2::Answer(CUDA_SUCCESS);
  fake::cuStreamBeginCapture_v2_ptsz::Answer(CUDA_SUCCESS);
  fake::cuStreamBeginCaptureToGraph::Answer(CUDA_SUCCESS);
  fake::cuStreamBeginCaptureToGraph_ptsz::Answer(CUDA_SUCCESS);
  constexpr auto kMode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  Keep([] { return cuStreamBeginCapture(kStream); });
  EXPECT_EQ(Active(), 1);
  Keep([] { return cuStreamBeginCapture_ptsz(kStream); });
  EXPECT_EQ(Active(), 2);
  Keep([] { return cuStreamBeginCapture_v2(kStream, kMode); });
  EXPECT_EQ(Active(), 3);
  Keep([] { return cuStreamBeginCapture_v2_ptsz(kStream, kMode); });
  EXPECT_EQ(Active(), 4);
  Keep([] { return cuStreamBeginCaptureToGraph(kStream, nullptr, nullptr, nullptr, 0, kMode); });
  EXPECT_EQ(Active(), 5);
  Keep([] { return cuStreamBeginCaptureToGraph_ptsz(kStream, nullptr, nullptr, nullptr, 0, kMode); });
  EXPECT_EQ(Active(), 6);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverCapture, ABeginThatFailsDoesNotCount) {
  fake::cuStreamBeginCapture_v2::Answer(CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(Keep([] { return cuStreamBeginCapture_v2(kStream, CU_STREAM_CAPTURE_MODE_GLOBAL); }),
            CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(Active(), 0);
}

TEST_F(DriverCapture, ACaptureThatWasInvalidatedEndsToo) {
  capture::g_active.store(4);
  CUgraph graph = nullptr;
  fake::cuStreamEndCapture_ptsz::Answer(CUDA_SUCCESS);
  Keep([&] { return cuStreamEndCapture_ptsz(kStream, &graph); });
  EXPECT_EQ(Active(), 3);
  for (const CUresult result : {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED}) {
    fake::cuStreamEndCapture::Answer(result);
    EXPECT_EQ(Keep([&] { return cuStreamEndCapture(kStream, &graph); }), result);
  }
  EXPECT_EQ(Active(), 1);
  fake::cuStreamEndCapture::Answer(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  EXPECT_EQ(Keep([&] { return cuStreamEndCapture(kStream, &graph); }), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  EXPECT_EQ(Active(), 1);
}

TEST_F(DriverCapture, AnEndWithoutABeginCountsNoLessThanNone) {
  fake::cuStreamEndCapture::Answer(CUDA_SUCCESS);
  CUgraph graph = nullptr;
  Keep([&] { return cuStreamEndCapture(kStream, &graph); });
  EXPECT_EQ(Active(), 0);
}

TEST_F(DriverCapture, TheDriverIsAskedWhileACaptureGoesOnAlone) {
  g_driver.capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  EXPECT_FALSE(capture::IsCapturing(kStream));
  EXPECT_EQ(g_driver.questions, 0);
  capture::g_active.store(1);
  EXPECT_TRUE(capture::IsCapturing(kStream));
  EXPECT_FALSE(capture::IsCapturing(kStream, true));
  g_driver.capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  EXPECT_FALSE(capture::IsCapturing(kStream));
  g_driver.capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  g_driver.result = CUDA_ERROR_INVALID_HANDLE;
  EXPECT_FALSE(capture::IsCapturing(kStream));
}

}  // namespace
}  // namespace gpumemshim::hooks
