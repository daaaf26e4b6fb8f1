// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// AnalyzeTrace: what Analyze says of a hand-made trace.

#ifndef GPUMEM_TESTS_ANALYZER_REPLAY_ANALYZE_TRACE_H_
#define GPUMEM_TESTS_ANALYZER_REPLAY_ANALYZE_TRACE_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "replay/analyze.h"
#include "testing/trace_builder.h"

namespace gpumem {

inline Analysis AnalyzeTrace(testing::TraceBuilder& trace, const AnalyzeOptions& options = {}) {
  const std::string path = trace.WriteTemporary();
  absl::StatusOr<Analysis> analysis = Analyze(path, options);
  std::remove(path.c_str());
  EXPECT_TRUE(analysis.ok()) << analysis.status();
  return analysis.ok() ? *std::move(analysis) : Analysis{};
}

}  // namespace gpumem

#endif  // GPUMEM_TESTS_ANALYZER_REPLAY_ANALYZE_TRACE_H_
