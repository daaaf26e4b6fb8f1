// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// DefinitionBuilder: what events of a trace that is made here refer to: strings, frames and stacks, each with an id of
// its own and defined once. What is new since the last Take is to be written in front of the events that use it.
//
// Frames are told in words (file, function, line), as other recorders do. A native one gets an address in a module
// without a path, under which its names are stored (ModuleSymbols). Not thread-safe; owns its tables. Nothing fails.
//
//   const uint32_t frame = builder.PythonFrame("train.py", "step", 12);
//   row.stack = builder.Stack(caller, frame);
//   packet = builder.Take();

#ifndef GPUMEM_ANALYZER_TRACE_WRITE_DEFINITION_BUILDER_H_
#define GPUMEM_ANALYZER_TRACE_WRITE_DEFINITION_BUILDER_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "gpumem/trace.pb.h"
#include "trace/module_symbols.h"

namespace gpumem {

// ValidText: what protobuf takes as a string: UTF-8. Names out of other people's files need not be. Pure.
//
//   string.set_value(ValidText("a\xff"));   // "a" and the replacement character

// Each byte that belongs to no valid character becomes U+FFFD.
std::string ValidText(absl::string_view text);

class DefinitionBuilder {
 public:
  // 0 for "".
  uint32_t String(absl::string_view text);
  // Frame.id. An unknown file is "", an unknown line 0; `nn_module` is the NnModule.id of the object that it calls.
  uint32_t PythonFrame(absl::string_view file, absl::string_view function, uint32_t line, uint32_t nn_module = 0);
  uint32_t NativeFrame(absl::string_view file, absl::string_view function, uint32_t line);
  // The mark of a forward pass: what is inside it ran for the autograd node of class `node`.
  uint32_t ForwardMark(absl::string_view node);
  // The mark of callers that nobody recorded: outermost.
  uint32_t CutMark();
  // The stack of `frame` called from the stack `caller`, 0 = from nowhere.
  uint64_t Stack(uint64_t caller, uint32_t frame);

  // Thread.id of a further thread; `tid` 0 = not known. Who asks keeps which is whose.
  uint32_t Thread(uint32_t tid) {
    trace::Thread* const thread = pending_.add_threads();
    thread->set_id(++threads_);
    thread->set_tid(tid);
    return threads_;
  }

  // Further definitions go in here directly.
  trace::Definitions* pending() { return &pending_; }
  // Whether Take would give so much that it should be written, events or not.
  bool is_large() const { return new_entries_ >= kManyEntries || bytes_ - taken_bytes_ >= kManyBytes; }
  bool is_empty() const { return new_entries_ == 0 && pending_.ByteSizeLong() == 0; }
  // What all definitions so far take here and in the trace, about and at the most.
  uint64_t bytes() const { return bytes_; }
  // All that is new.
  trace::Definitions Take();

 private:
  static constexpr size_t kManyEntries = 100000;
  static constexpr uint64_t kManyBytes = uint64_t{3} << 20;

  enum class Sort : uint8_t { kPython, kNative, kMark };
  using Key = std::tuple<Sort, uint32_t, uint32_t, uint32_t, uint32_t>;  // file, function, line, nn_module

  uint32_t Frame(const Key& key, trace::Frame frame);

  trace::Definitions pending_;
  size_t new_entries_ = 0;
  uint64_t bytes_ = 0, taken_bytes_ = 0;
  uint32_t python_codes_ = 0, threads_ = 0;
  uint64_t addresses_ = 0;
  ModuleSymbols names_;  // of native frames that Take has not given yet
  absl::flat_hash_map<std::string, uint32_t> strings_;
  absl::flat_hash_map<Key, uint32_t> frames_;
  absl::flat_hash_map<std::pair<uint64_t, uint32_t>, uint64_t> stacks_;  // caller, frame
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_WRITE_DEFINITION_BUILDER_H_
