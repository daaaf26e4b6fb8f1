// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/symbolizer.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "symbols/elf_module.h"
#include "symbols/names.h"
#include "symbols/python_lines.h"

namespace gpumem {
namespace {

absl::string_view BaseName(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

struct Symbolizer::State {
  State(const StackTable* table, SymbolizerOptions chosen) : stacks(table), options(chosen) {}

  const std::vector<ResolvedFrame>& ResolveFrame(uint32_t id);
  std::vector<ResolvedFrame> ResolveNative(uint64_t pc);
  ResolvedFrame ResolvePython(const FrameInfo& frame) const;
  ElfModule& Open(const ModuleInfo& module);

  const StackTable* stacks;
  SymbolizerOptions options;
  absl::flat_hash_map<uint32_t, std::vector<ResolvedFrame>> frames;      // by frame id
  absl::flat_hash_map<std::string, std::unique_ptr<ElfModule>> modules;  // by path and build id
  std::vector<std::string> notes;
};

Symbolizer::Symbolizer(const StackTable* stacks, SymbolizerOptions options)
    : state_(std::make_unique<State>(stacks, options)) {}
Symbolizer::~Symbolizer() = default;
const std::vector<std::string>& Symbolizer::notes() const { return state_->notes; }

ElfModule& Symbolizer::State::Open(const ModuleInfo& module) {
  std::unique_ptr<ElfModule>& opened = modules[absl::StrCat(module.path, "\n", module.build_id)];
  if (opened == nullptr) {
    opened = std::make_unique<ElfModule>(module, options.dwarf);
    if (!opened->problem().empty()) notes.push_back(opened->problem());
  }
  return *opened;
}

ResolvedFrame Symbolizer::State::ResolvePython(const FrameInfo& frame) const {
  ResolvedFrame resolved;
  resolved.python = true;
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

std::vector<ResolvedFrame> Symbolizer::State::ResolveNative(uint64_t pc) {
  // A return address may lie behind its function, after a call that never returns; the call itself never does.
  const uint64_t call = pc - 1;
  const ModuleInfo* const module = stacks->ModuleAt(call);
  ResolvedFrame base;
  if (module == nullptr) {
    base.function = base.short_function = absl::StrCat("0x", absl::Hex(pc));
    return {base};
  }
  base.module = module->path;
  base.offset = pc - module->load_bias;
  base.function = base.short_function = absl::StrCat(BaseName(module->path), "+0x", absl::Hex(base.offset));
  if (!options.native) return {base};
  std::vector<ResolvedFrame> resolved;
  for (NativeFrame& frame : Open(*module).Lookup(call - module->load_bias)) {
    resolved.push_back(base);
    ResolvedFrame& last = resolved.back();
    last.file = std::move(frame.file);
    last.line = frame.line;
    last.inlined = frame.inlined;
    if (frame.symbol.empty()) continue;
    last.function = Demangle(frame.symbol);
    last.short_function = ShortName(last.function);
  }
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
  } else if (frame->python_code != 0) {
    resolved.push_back(ResolvePython(*frame));
  } else {
    resolved = ResolveNative(frame->pc);
  }
  return it->second = std::move(resolved);
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
