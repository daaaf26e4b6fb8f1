// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What leaks finds in a trace that a test made; stacks have their line in the outermost function as their site.

#ifndef GPUMEM_TESTS_ANALYZER_LEDGER_LEAKS_FIND_LEAKS_H_
#define GPUMEM_TESTS_ANALYZER_LEDGER_LEAKS_FIND_LEAKS_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ledger/leaks/leak_finder.h"
#include "replay/analyze.h"
#include "symbols/symbolizer.h"
#include "testing/training_trace.h"

namespace gpumem {

inline constexpr uint64_t kMiB = 1 << 20, kSegment = 0x7f0000000000, kKept = kSegment + 512 * kMiB;

inline LeakFindings Find(testing::TrainingTrace& trace, const Suppressions* suppressions = nullptr) {
  const std::string path = trace.builder().WriteTemporary();
  StackTable stacks;
  absl::StatusOr<Analysis> analysis = Analyze(path, {}, &stacks);
  EXPECT_TRUE(analysis.ok()) << analysis.status();
  SymbolizerOptions options;
  options.native = false;
  Symbolizer symbolizer(&stacks, options);
  const FrameResolver resolve = [&](uint32_t frame) -> const std::vector<ResolvedFrame>& {
    return symbolizer.ResolveFrame(frame);
  };
  const PlaceOfStack place_of = [&](uint64_t stack) {
    LeakPlace place;
    for (const ResolvedFrame& frame : symbolizer.Resolve(stack)) {
      if (place.site.empty()) place.site = absl::StrCat(frame.file, ":", frame.line);
      place.frames.push_back({frame.file, frame.function, frame.line, frame.python});
      place.names.push_back(frame.function);
    }
    return place;
  };
  LeakRequest request;
  request.suppressions = suppressions;
  request.source = [](const std::string&) { return std::vector<std::string>(); };
  LeakFinder finder(&*analysis, &stacks, resolve, place_of, request);
  const absl::Status status = RunTwoPasses(path, stacks.objects(), {&finder});
  std::remove(path.c_str());
  EXPECT_TRUE(status.ok()) << status;
  return finder.Take();
}

}  // namespace gpumem

#endif  // GPUMEM_TESTS_ANALYZER_LEDGER_LEAKS_FIND_LEAKS_H_
