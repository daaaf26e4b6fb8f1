// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// AttributeTrace: what is said of a hand-made trace (testing/training_trace.h).
//
//   AttributionRequest request;
//   request.moments = {Peak()};
//   AttributeTrace(trace, request).moments[0].categories;

#ifndef GPUMEM_TESTS_ANALYZER_LEDGER_ATTRIBUTION_ATTRIBUTE_TRACE_H_
#define GPUMEM_TESTS_ANALYZER_LEDGER_ATTRIBUTION_ATTRIBUTE_TRACE_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <utility>

#include "ledger/attribution/attributor.h"
#include "replay/analyze.h"
#include "symbols/symbolizer.h"
#include "testing/training_trace.h"

namespace gpumem::testing {

inline Attribution AttributeTrace(TrainingTrace& trace, AttributionRequest request) {
  const std::string path = trace.builder().WriteTemporary();
  StackTable stacks;
  absl::StatusOr<Analysis> analysis = Analyze(path, {}, &stacks);
  EXPECT_TRUE(analysis.ok()) << analysis.status();
  for (MomentQuery& moment : request.moments) {
    if (moment.text == "peak") moment.number = analysis->devices.at(0).peak_allocated.event_index;
  }
  SymbolizerOptions options;
  options.native = false;
  Symbolizer symbolizer(&stacks, options);
  const FrameResolver resolve = [&](uint32_t frame) -> const std::vector<ResolvedFrame>& {
    return symbolizer.ResolveFrame(frame);
  };
  const Rules rules;
  Attributor attributor(&*analysis, &stacks, resolve, &rules, std::move(request));
  const absl::Status status = RunTwoPasses(path, stacks.objects(), {&attributor});
  std::remove(path.c_str());
  EXPECT_TRUE(status.ok()) << status;
  return attributor.Take();
}

inline MomentQuery Peak() { return {MomentQuery::Kind::kEvent, 0, "peak"}; }

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_LEDGER_ATTRIBUTION_ATTRIBUTE_TRACE_H_
