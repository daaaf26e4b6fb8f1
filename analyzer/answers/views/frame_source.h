// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FrameSource: where views get stacks and frames from. The seam between views/ and symbols/: commands hand in
// SymbolizedFrames, tests hand in frames made by hand. By frame instead of by stack, because a million stacks share a
// few thousand frames. Not thread-safe.

#ifndef GPUMEM_ANALYZER_ANSWERS_VIEWS_FRAME_SOURCE_H_
#define GPUMEM_ANALYZER_ANSWERS_VIEWS_FRAME_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "symbols/symbolizer.h"
#include "trace/stack_table.h"

namespace gpumem {

class FrameSource {
 public:
  virtual ~FrameSource() = default;
  // Innermost first; empty where the stack is not known.
  virtual std::vector<uint32_t> FrameIds(uint64_t stack_id) = 0;
  // A frame, and the functions that were inlined into it before it. Valid until the next call.
  virtual const std::vector<ResolvedFrame>& Frame(uint32_t frame_id) = 0;
  // What AggregatedStack::thread and ::api name. nullptr, "" where not known.
  virtual const ThreadInfo* Thread(uint32_t thread) = 0;
  virtual const std::string& Api(uint32_t api) = 0;
};

// Both must outlive it.
class SymbolizedFrames final : public FrameSource {
 public:
  SymbolizedFrames(const StackTable* stacks, Symbolizer* symbolizer) : stacks_(stacks), symbolizer_(symbolizer) {}
  std::vector<uint32_t> FrameIds(uint64_t stack_id) override { return stacks_->Frames(stack_id); }
  const std::vector<ResolvedFrame>& Frame(uint32_t frame_id) override { return symbolizer_->ResolveFrame(frame_id); }
  const ThreadInfo* Thread(uint32_t thread) override { return stacks_->thread(thread); }
  const std::string& Api(uint32_t api) override { return stacks_->string(api); }

 private:
  const StackTable* stacks_;
  Symbolizer* symbolizer_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_VIEWS_FRAME_SOURCE_H_
