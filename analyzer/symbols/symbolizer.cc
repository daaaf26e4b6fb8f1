// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/symbolizer.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "symbols/names.h"
#include "symbols/native_names.h"
#include "symbols/python_lines.h"

namespace gpumem {
namespace {

absl::string_view FileOf(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

struct Symbolizer::State {
  State(const StackTable* table, SymbolizerOptions chosen)
      : stacks(table), options(std::move(chosen)), names(table, &options) {}

  const std::vector<ResolvedFrame>& ResolveFrame(uint32_t id);
  std::vector<ResolvedFrame> ResolveNative(const FrameInfo& frame);
  ResolvedFrame ResolvePython(const FrameInfo& frame) const;
  void Prepare();

  const StackTable* stacks;
  SymbolizerOptions options;
  NativeNames names;
  bool prepared = false;
  absl::flat_hash_map<uint32_t, std::vector<ResolvedFrame>> frames;  // by frame id
};

Symbolizer::Symbolizer(const StackTable* stacks, SymbolizerOptions options)
    : state_(std::make_unique<State>(stacks, std::move(options))) {}
Symbolizer::~Symbolizer() = default;
void Symbolizer::Prepare() { state_->Prepare(); }
const std::vector<std::string>& Symbolizer::notes() const { return state_->names.notes(); }
const std::vector<ModuleReport>& Symbolizer::modules() const { return state_->names.reports(); }

const ModuleSymbols* Symbolizer::SymbolsOf(const ModuleReport& module) const {
  const std::vector<ModuleReport>& all = modules();
  return &module < all.data() || &module >= all.data() + all.size()
             ? nullptr
             : &state_->names.symbols(static_cast<size_t>(&module - all.data()));
}

void Symbolizer::State::Prepare() {
  if (std::exchange(prepared, true) || !options.native) return;
  names.LookUp();
}

ResolvedFrame Symbolizer::State::ResolvePython(const FrameInfo& frame) const {
  ResolvedFrame resolved;
  resolved.python = true;
  resolved.nn_module = frame.nn_module;
  const PythonCodeInfo* const code = stacks->python_code(frame.python_code);
  if (code == nullptr) {
    resolved.function = resolved.short_function = "<lost Python function>";
    return resolved;
  }
  resolved.function = resolved.short_function = code->name;
  resolved.file = code->filename;
  resolved.line = PythonLine(*code, frame.instruction);
  return resolved;
}

std::vector<ResolvedFrame> Symbolizer::State::ResolveNative(const FrameInfo& frame) {
  const uint64_t pc = frame.pc;
  const ModuleInfo* const module = stacks->ModuleOf(frame);
  ResolvedFrame base;
  if (module == nullptr) {
    base.function = base.short_function = absl::StrCat("[no file] 0x", absl::Hex(pc));
    return {base};
  }
  base.module = module->path;
  base.offset = pc - module->load_bias;
  base.function = base.short_function = absl::StrCat(FileOf(module->path), "+0x", absl::Hex(base.offset));
  if (!options.native) return {base};
  Prepare();
  std::vector<ResolvedFrame> resolved;
  for (NativeFunction& function : names.At(module->id, base.offset)) {
    resolved.push_back(base);
    ResolvedFrame& last = resolved.back();
    last.inlined = true;
    last.file = std::move(function.file);
    last.line = function.line;
    if (function.function.empty()) continue;
    last.function = std::move(function.function);
    last.short_function = ShortName(last.function);
  }
  if (resolved.empty()) return {base};
  resolved.back().inlined = false;
  return resolved;
}

const std::vector<ResolvedFrame>& Symbolizer::State::ResolveFrame(uint32_t id) {
  const auto [it, is_new] = frames.try_emplace(id);
  if (!is_new) return it->second;
  const FrameInfo* const frame = stacks->frame(id);
  std::vector<ResolvedFrame> resolved;
  if (frame == nullptr) {
    resolved.emplace_back();
    resolved[0].function = resolved[0].short_function = "<lost frame>";
  } else if (frame->cut) {
    resolved.emplace_back();
    resolved[0].function = resolved[0].short_function = "<callers not recorded>";
  } else if (frame->forward) {
    resolved.emplace_back();
    const std::string& node = stacks->string(frame->node);
    resolved[0].function = resolved[0].short_function =
        absl::StrCat("<backward of ", node.empty() ? "a node" : node, ">");
    resolved[0].forward = true;
  } else if (frame->python_code != 0) {
    resolved.push_back(ResolvePython(*frame));
  } else {
    resolved = ResolveNative(*frame);
  }
  return frames[id] = std::move(resolved);
}

const std::vector<ResolvedFrame>& Symbolizer::ResolveFrame(uint32_t frame_id) { return state_->ResolveFrame(frame_id); }

std::vector<ResolvedFrame> Symbolizer::Resolve(uint64_t stack_id) {
  std::vector<ResolvedFrame> resolved;
  for (const uint32_t id : state_->stacks->Frames(stack_id)) {
    const std::vector<ResolvedFrame>& frames = state_->ResolveFrame(id);
    resolved.insert(resolved.end(), frames.begin(), frames.end());
  }
  return resolved;
}

}  // namespace gpumem
