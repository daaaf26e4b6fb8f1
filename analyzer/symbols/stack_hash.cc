// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/stack_hash.h"

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "base/stable_hash.h"
#include "symbols/python_lines.h"

namespace gpumem {
namespace {

class Hasher {
 public:
  void Add(absl::string_view text) {
    value_ = StableHash(text, value_);
    AddByte(0);  // so that "ab", "c" is not "a", "bc"
  }
  void Add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) AddByte(static_cast<unsigned char>(number >> shift));
  }
  uint64_t value() const { return value_; }

 private:
  void AddByte(unsigned char byte) {
    const char c = static_cast<char>(byte);
    value_ = StableHash({&c, 1}, value_);
  }
  uint64_t value_ = kStableHashOfNothing;
};

void AddPython(const PythonCodeInfo* code, const FrameInfo& frame, Hasher* hasher) {
  hasher->Add("python");
  if (code == nullptr) return;
  // Each fork server of plans and sweeps is a file in a folder of its own; stacks of two of them are the same.
  const absl::string_view file = code->filename;
  hasher->Add(absl::EndsWith(file, "/fork_server.py") ? absl::string_view("fork_server.py") : file);
  hasher->Add(code->name);
  hasher->Add(PythonLine(*code, frame.instruction));
}

void AddNative(const ModuleInfo* module, const FrameInfo& frame, Hasher* hasher) {
  hasher->Add("native");
  if (module == nullptr) return;
  const absl::string_view path = module->path;
  hasher->Add(module->build_id.empty() ? path.substr(path.rfind('/') + 1) : absl::string_view(module->build_id));
  hasher->Add(frame.pc - module->load_bias);
}

}  // namespace

uint64_t StackHash(const StackTable& stacks, uint64_t stack_id) {
  Hasher hasher;
  const std::vector<uint32_t> frames = stacks.Frames(stack_id);
  if (frames.empty()) return 0;
  for (const uint32_t id : frames) {
    const FrameInfo* const frame = stacks.frame(id);
    if (frame == nullptr) {
      hasher.Add("lost");
    } else if (frame->cut) {
      hasher.Add("cut");
    } else if (frame->forward) {
      hasher.Add("forward");
      hasher.Add(stacks.string(frame->node));
    } else if (frame->python_code != 0) {
      AddPython(stacks.python_code(frame->python_code), *frame, &hasher);
    } else {
      AddNative(stacks.ModuleOf(*frame), *frame, &hasher);
    }
  }
  return hasher.value();
}

}  // namespace gpumem
