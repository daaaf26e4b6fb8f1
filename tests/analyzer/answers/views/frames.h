// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Stacks and weights made by hand for the tests of views/.

#ifndef GPUMEM_TESTS_ANALYZER_ANSWERS_VIEWS_FRAMES_H_
#define GPUMEM_TESTS_ANALYZER_ANSWERS_VIEWS_FRAMES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "answers/views/frame_source.h"
#include "answers/views/frame_table.h"
#include "ledger/stacks/aggregated_stacks.h"

namespace gpumem::testing {

inline ResolvedFrame ResolvedPython(const std::string& function, const std::string& file, uint32_t line) {
  ResolvedFrame frame;
  frame.function = frame.short_function = function;
  frame.file = file;
  frame.line = line;
  frame.python = true;
  return frame;
}

inline ResolvedFrame NativeFrame(const std::string& function, const std::string& module) {
  ResolvedFrame frame;
  frame.function = frame.short_function = function;
  frame.module = module;
  return frame;
}

class FakeFrames final : public FrameSource {
 public:
  // Innermost first. Returns the stack's id.
  uint64_t Stack(const std::vector<ResolvedFrame>& innermost_first) {
    std::vector<uint32_t> ids;
    for (const ResolvedFrame& frame : innermost_first) {
      ids.push_back(static_cast<uint32_t>(frames_.size()));
      frames_.push_back({frame});
    }
    stacks_.push_back(ids);
    return stacks_.size();
  }

  std::vector<uint32_t> FrameIds(uint64_t stack_id) override {
    return stack_id == 0 || stack_id > stacks_.size() ? std::vector<uint32_t>() : stacks_[stack_id - 1];
  }
  const std::vector<ResolvedFrame>& Frame(uint32_t frame_id) override { return frames_[frame_id]; }
  const ThreadInfo* Thread(uint32_t thread) override {
    const auto it = threads.find(thread);
    return it == threads.end() ? nullptr : &it->second;
  }
  const std::string& Api(uint32_t api) override { return apis[api]; }

  std::map<uint32_t, ThreadInfo> threads;
  std::map<uint32_t, std::string> apis;

 private:
  std::vector<std::vector<ResolvedFrame>> frames_;
  std::vector<std::vector<uint32_t>> stacks_;
};

inline AggregatedStack StackWith(uint64_t stack, uint64_t bytes, uint64_t count = 1) {
  AggregatedStack aggregated;
  aggregated.stack_id = stack;
  aggregated.weight = {bytes, count};
  return aggregated;
}

inline AggregatedStacks StacksWith(std::vector<AggregatedStack> stacks) {
  AggregatedStacks aggregated;
  aggregated.stacks = std::move(stacks);
  for (const AggregatedStack& stack : aggregated.stacks) aggregated.all.Add(stack.weight);
  aggregated.shown = aggregated.all;
  return aggregated;
}

inline std::vector<std::string> LabelsOf(FrameTable* table, const AggregatedStack& stack) {
  std::vector<std::string> labels;
  for (const uint32_t frame : table->Resolve(stack)) labels.push_back(table->frame(frame).label);
  return labels;
}

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_ANSWERS_VIEWS_FRAMES_H_
