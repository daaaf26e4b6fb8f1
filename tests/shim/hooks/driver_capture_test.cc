// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Stream captures are counted (shim/hooks/driver_capture.cc).

#include "shim/hooks/capture.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

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
