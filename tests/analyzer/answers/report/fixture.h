// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A made-up analysis in which every field has a value, and the stacks that it refers to. Tests change what they are
// about.

#ifndef GPUMEM_TESTS_ANALYZER_ANSWERS_REPORT_FIXTURE_H_
#define GPUMEM_TESTS_ANALYZER_ANSWERS_REPORT_FIXTURE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ledger/attribution/attribution.h"
#include "ledger/leaks/leaks.h"
#include "ledger/load/input.h"
#include "ledger/stacks/stack_source.h"

namespace gpumem::testing {

ResolvedFrame Python(const std::string& function, const std::string& file, uint32_t line);
ResolvedFrame Native(const std::string& function, const std::string& module, const std::string& file = "",
                     uint32_t line = 0);

class FakeStacks final : public StackSource {
 public:
  std::vector<ResolvedFrame> Frames(uint64_t stack_id) override {
    const auto found = stacks.find(stack_id);
    return found == stacks.end() ? std::vector<ResolvedFrame>() : found->second;
  }
  uint64_t Hash(uint64_t stack_id) override { return has_hashes ? stack_id : 0; }
  std::map<uint64_t, std::vector<ResolvedFrame>> stacks;
  bool has_hashes = false;
};

inline constexpr uint64_t kForward = 1, kOptimizer = 2, kBackward = 3, kNccl = 4, kForwardOfEval = 5;

struct Example {
  Analysis analysis;
  FakeStacks stacks;
  Attribution attribution;
  ObjectTable objects;
  LeakFindings leaks;
  bool is_attributed = false, has_leaks = false;
  ReportInput input() {
    return {&analysis, &stacks, {}, "", is_attributed ? &attribution : nullptr, has_leaks ? &leaks : nullptr};
  }
};

// What `gpumemshim report --json` says, lists uncut.
std::string ReportJson(const ReportInput& input);

// A training on one GPU that ended in order.
Example TrainingExample();
// The same with samples of the device, and another process on it.
Example SampledExample();
// The same again, dead of an out-of-memory error.
Example OomExample();

// One line of it keeps growing, by so many bytes all in all.
void AddLeak(Example* example, uint64_t bytes);

// What its peak was for: two modules, one parameter, one step.
void AddAttribution(Example* example);

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_ANSWERS_REPORT_FIXTURE_H_
