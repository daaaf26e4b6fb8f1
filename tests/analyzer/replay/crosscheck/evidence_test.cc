// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/crosscheck/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "testing/trace_builder.h"

namespace gpumem {
namespace {

// The user's command line is right, so this is not a usage error.
TEST(EvidenceTest, ATraceWithoutAHeaderIsDamaged) {
  testing::TraceBuilder trace;
  trace.CudaAlloc(0x7f0000000000, 512);
  const std::string path = trace.End().WriteTemporary();
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(20) << "\x01\x02\x03";
  std::filesystem::resize_file(path, 100);
  const absl::StatusOr<CrossEvidence> evidence = ReadCrossEvidence(path);
  EXPECT_TRUE(absl::IsDataLoss(evidence.status())) << evidence.status();
}

}  // namespace
}  // namespace gpumem
