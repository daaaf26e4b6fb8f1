// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "tests/simcuda/driver/driver_fixture.h"

namespace simcuda {
namespace {

CUstreamCaptureStatus StatusOf(CUstream stream, cuuint64_t* id = nullptr) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  EXPECT_EQ(cuStreamGetCaptureInfo(stream, &status, id, nullptr, nullptr, nullptr, nullptr), CUDA_SUCCESS);
  return status;
}

TEST(CaptureTest, ActiveBetweenBeginAndEnd) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         UsePrimaryContext();
                         CUstream stream = nullptr;
                         cuuint64_t id = 7;
                         CUgraph graph = nullptr;
                         CUgraphExec exec = nullptr;
                         size_t nodes = 0;
                         CUdeviceptr pointer = 0;
                         EXPECT_EQ(cuMemAlloc(&pointer, 4096), CUDA_SUCCESS);
                         EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
                         EXPECT_EQ(StatusOf(stream, &id), CU_STREAM_CAPTURE_STATUS_NONE);
                         EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
                         EXPECT_EQ(StatusOf(stream, &id), CU_STREAM_CAPTURE_STATUS_ACTIVE);
                         EXPECT_NE(id, 0u);
                         EXPECT_EQ(cuMemsetD8Async(pointer, 1, 10, stream), CUDA_SUCCESS);
                         EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
                         EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_NONE);
                         EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
                         EXPECT_EQ(nodes, 1u);
                         EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
                         EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
                         EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
                         EXPECT_EQ(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
                         EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
                       }),
            0);
}

TEST(CaptureTest, UnsafeCallInvalidatesAGlobalCaptureUnlessRelaxed) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         UsePrimaryContext();
                         CUstream stream = nullptr;
                         CUgraph graph = nullptr;
                         CUdeviceptr pointer = 0;
                         EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
                         EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
                         CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
                         EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
                         EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
                         EXPECT_EQ(cuMemAlloc(&pointer, 512), CUDA_SUCCESS);
                         EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemAlloc(&pointer, 512), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
                         EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
                         EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
                         EXPECT_EQ(cuMemAlloc(&pointer, 512), CUDA_SUCCESS);
                       }),
            0);
}

TEST(CaptureTest, AStreamJoinsThroughAnEvent) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         UsePrimaryContext();
                         CUstream origin = nullptr, side = nullptr;
                         CUevent event = nullptr;
                         CUgraph graph = nullptr;
                         cuStreamCreate(&origin, 0);
                         cuStreamCreate(&side, 0);
                         cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
                         EXPECT_EQ(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
                         EXPECT_EQ(cuEventRecord(event, origin), CUDA_SUCCESS);
                         EXPECT_EQ(cuStreamWaitEvent(side, event, 0), CUDA_SUCCESS);
                         EXPECT_EQ(StatusOf(side), CU_STREAM_CAPTURE_STATUS_ACTIVE);
                         EXPECT_EQ(cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
                         EXPECT_EQ(cuStreamEndCapture(origin, &graph), CUDA_SUCCESS);
                         EXPECT_EQ(StatusOf(side), CU_STREAM_CAPTURE_STATUS_NONE);
                       }),
            0);
}

}  // namespace
}  // namespace simcuda
