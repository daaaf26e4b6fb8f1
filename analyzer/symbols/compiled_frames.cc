// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/compiled_frames.h"

#include <utility>

#include "absl/strings/match.h"
#include "symbols/names.h"
#include "symbols/python_lines.h"

namespace gpumem {
namespace {

absl::string_view LastPartOf(absl::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == absl::string_view::npos ? name : name.substr(dot + 1);
}

}  // namespace

const CompiledPiece* CompiledFrames::At(const std::string& file, uint32_t line) {
  const CompiledPiece* const piece = stacks_->objects().compiled_lines().At(file, line);
  if (piece == nullptr) return nullptr;
  if (!std::exchange(is_checked_, true)) Check();
  return contradicted_.count(file) == 0 ? piece : nullptr;
}

void CompiledFrames::Check() {
  const CompiledLines& lines = stacks_->objects().compiled_lines();
  stacks_->ForEachStack([&](uint64_t stack, uint32_t innermost) {
    const FrameInfo* const frame = stacks_->frame(innermost);
    const PythonCodeInfo* const code = frame == nullptr ? nullptr : stacks_->python_code(frame->python_code);
    if (code == nullptr || !lines.Has(code->filename)) return;
    const CompiledPiece* const piece = lines.At(code->filename, PythonLine(*code, frame->instruction));
    if (piece != nullptr && IsContradicted(stacks_->Frames(stack), piece->sources.back()))
      contradicted_.insert(code->filename);
  });
}

// A stack tells where it reaches to the program's beginning: one of a backward pass may end at PyTorch's engine.
bool CompiledFrames::IsContradicted(const std::vector<uint32_t>& frames, const SourceLine& root) const {
  bool is_whole = false;
  for (const uint32_t id : frames) {
    const FrameInfo* const frame = stacks_->frame(id);
    if (frame == nullptr || frame->cut) return false;
    const PythonCodeInfo* const code = stacks_->python_code(frame->python_code);
    if (code == nullptr) continue;
    if (IsCallOf(*frame, root)) return false;
    is_whole = code->name == "<module>";
  }
  return is_whole;
}

bool CompiledFrames::IsCallOf(const FrameInfo& frame, const SourceLine& root) const {
  const CompiledLines& lines = stacks_->objects().compiled_lines();
  const PythonCodeInfo& code = *stacks_->python_code(frame.python_code);
  if (code.filename != lines.text(root.file) || code.first_line > root.line) return false;
  const std::string name = WithoutResumption(code.name), wanted = WithoutResumption(lines.text(root.function));
  const bool are_qualified = absl::StrContains(name, '.') && absl::StrContains(wanted, '.');
  return are_qualified ? absl::EndsWith(name, wanted) : LastPartOf(name) == LastPartOf(wanted);
}

}  // namespace gpumem
