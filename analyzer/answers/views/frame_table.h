// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FrameTable: an aggregated stack as the frames that a view shows, each frame of the view once. Applies the rules of
// what is shown (native frames, import machinery, --ignore, --depth, --invert, --split) and the filters by name. Lazy:
// a frame is looked up when a stack that has it is. Memory: one entry a distinct frame. Not thread-safe; the source
// must outlive it.
//
//   FrameTable frames(&source, std::move(rules), working_directory);
//   for (const uint32_t frame : frames.Resolve(stack)) Print(frames.frame(frame).label);   // outermost first
//
// Native frames, where they are trimmed: of the code between a Python line and the allocation only what tells something
// stays: the operator that Python called ("aten::linear"), the node of the backward pass ("AddmmBackward0"), and named
// functions of the program's own libraries. PyTorch's Python functions that only pass a call on go too.

#ifndef GPUMEM_ANALYZER_ANSWERS_VIEWS_FRAME_TABLE_H_
#define GPUMEM_ANALYZER_ANSWERS_VIEWS_FRAME_TABLE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "answers/views/frame_source.h"
#include "base/pattern.h"
#include "ledger/stacks/aggregated_stacks.h"
#include "ledger/stacks/frame_class.h"
#include "ledger/stacks/stack_view.h"

namespace gpumem {

struct FrameRules {
  NativeFrames native = NativeFrames::kTelling;
  bool imports = true;          // false: frames of importlib are left out
  std::vector<Pattern> ignore;  // frames whose label, function or path one of these is found in are left out
  bool invert = false;          // innermost frame first: who allocated, then who called it
  size_t depth = 0;             // at most so many frames from the first on; 0 = all
  // Frames of their own before all others: "GPU 0", "thread 1234 (python)".
  bool split_devices = false, split_threads = false;
  // What --by puts before them, outermost first; null: nothing. Labels that no function can have need no mark.
  std::function<std::vector<std::string>(const AggregatedStack&)> group;
};

// A stack is taken where each pattern is found in one of its frames, whether the rules show that frame or not.
struct StackFilters {
  Pattern function;
  Pattern file;    // the path as recorded
  Pattern module;  // ViewFrame::module
  Pattern thread;  // the thread's name, or its number

  bool any() const { return function.is_set() || file.is_set() || module.is_set() || thread.is_set(); }
};

// All text is as it was recorded: escape it for where it goes.
struct ViewFrame {
  std::string label;     // "train.py:42 Block.forward", "aten::linear", "GPU 0"
  std::string function;  // "Block.forward"; without template arguments and parameters
  std::string file;      // short, as in the label; "" = not known
  std::string path;      // as recorded
  uint32_t line = 0;     // 0 = not known
  std::string module;    // the path of the shared library; "torch.nn.modules.linear" for Python
  FrameClass kind = FrameClass::kNative;
};

class FrameTable {
 public:
  FrameTable(FrameSource* source, FrameRules rules, std::string working_directory)
      : source_(source), rules_(std::move(rules)), working_directory_(std::move(working_directory)) {}

  // The frames that stand for a stack: outermost first, or innermost first where inverted. Never empty: where nothing
  // is left, one frame says what is known ("backward of AddmmBackward0 (autograd thread)", "cudaMalloc (stack not
  // known)"). Valid until the next call.
  const std::vector<uint32_t>& Resolve(const AggregatedStack& stack);

  // The lines of the program's own files in a stack, outermost first; the last is "the line" as reports and SQL have it
  // (docs/glossary.md), also where no frame is the program's own. Frames that `ignore` names do not count.
  std::vector<std::string> Lines(const AggregatedStack& stack);

  // Looks a stack's frames up before they are needed, for the sake of a progress line: symbols may take seconds.
  void LookUp(const AggregatedStack& stack) {
    for (const uint32_t id : source_->FrameIds(stack.stack_id)) FactsOf(id);
  }

  const ViewFrame& frame(uint32_t index) const { return frames_[index]; }
  size_t size() const { return frames_.size(); }

  // "thread 1234 (python)"
  std::string ThreadLabel(uint32_t thread);

  // The same filters each time.
  bool Matches(const AggregatedStack& stack, const StackFilters& filters);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // What the rules make of one recorded frame (or of one function inlined into it).
  struct Facts {
    uint32_t full = kNone;       // index of the frame as such; kNone: ignored
    uint32_t reported = kNone;   // index of what it says where native frames are trimmed; kNone: nothing
    uint32_t workspace = kNone;  // index of "cuBLAS workspace", where the frame asks for one
    bool is_python = false;
    bool is_code = false;      // of the program or a package
    bool is_operator = false;  // `reported` is an operator
    bool is_mark = false;      // it stands for frames that were not recorded
  };
  using FrameKey = std::tuple<std::string, std::string, std::string>;  // label, path, module

  const std::vector<Facts>& FactsOf(uint32_t frame_id);
  Facts Judge(const ResolvedFrame& frame);
  bool IsIgnored(const ViewFrame& frame) const;
  uint32_t Intern(ViewFrame frame);
  uint32_t InternLabel(std::string label);
  // False where nothing is left of them, but for a mark.
  bool AppendShown(const std::vector<uint32_t>& frame_ids);
  std::string Placeholder(const AggregatedStack& stack);
  std::vector<ResolvedFrame> FramesOf(const AggregatedStack& stack);
  uint8_t MatchesOf(uint32_t frame_id, const StackFilters& filters);

  FrameSource* source_;
  FrameRules rules_;
  std::string working_directory_;
  std::vector<ViewFrame> frames_;
  absl::flat_hash_map<FrameKey, uint32_t> index_;
  absl::flat_hash_map<uint32_t, std::vector<Facts>> facts_;  // by frame id, innermost first
  absl::flat_hash_map<uint32_t, uint8_t> matches_;           // by frame id: a bit for each filter
  std::vector<uint32_t> resolved_;
};

// Keeps the stacks that match and sets `shown` to their sum. `merged` entries have no frames any more: they match only
// where there is no filter.
void FilterStacks(const StackFilters& filters, FrameTable* frames, AggregatedStacks* aggregated);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_VIEWS_FRAME_TABLE_H_
