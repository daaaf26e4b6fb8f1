// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/symbolizer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "symbols/compiled_frames.h"
#include "symbols/names.h"
#include "symbols/python_lines.h"
#include "symbols/symbol_cache.h"

namespace gpumem {
namespace {

constexpr size_t kMaxNamedInANote = 4;

std::string LibraryName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// "a.so, b.so and 3 more"
std::string Listed(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMaxNamedInANote);
  const std::string list = absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", ");
  return shown == names.size() ? list : absl::StrCat(list, " and ", names.size() - shown, " more");
}

}  // namespace

// NativeNames: all native frames of a trace, grouped by module and looked up together: first what the trace itself
// holds, then the cache, then the files. Symbolizer's half for native code. Not thread-safe; the StackTable must
// outlive it.
class NativeNames {
 public:
  NativeNames(const StackTable* stacks, const SymbolizerOptions* options) : stacks_(stacks), options_(options) {}

  void LookUp();

  // Of a module's return address; empty where nothing is known.
  std::vector<NativeFunction> At(uint32_t module_id, uint64_t address) const;

  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& search_notes() const { return search_notes_; }
  const std::vector<ModuleReport>& reports() const { return reports_; }
  const ModuleSymbols& symbols(size_t report) const { return modules_[report].symbols; }

 private:
  struct Module {
    ModuleInfo info;
    std::vector<uint64_t> addresses;  // ascending, each once
    ModuleSymbols symbols;
    FileTrouble trouble = FileTrouble::kNone;
    std::string detail, failure;
  };
  void Group();
  std::vector<uint64_t> Missing(const Module& module) const;
  void TakeStored(size_t index);
  void Read(size_t index, ModuleFiles* files, const SymbolCache& cache, const LookupProgress& progress);
  void Count(size_t index);
  void WriteNotes();

  const StackTable* stacks_;
  const SymbolizerOptions* options_;
  std::vector<Module> modules_;                  // by path
  std::vector<ModuleReport> reports_;            // of the same index
  absl::flat_hash_map<uint32_t, size_t> index_;  // by Module.id
  std::vector<std::string> notes_, search_notes_;
};

// The same file, loaded at several places or times, is one module here.
void NativeNames::Group() {
  std::map<std::pair<std::string, std::string>, Module> groups;
  std::map<std::pair<std::string, std::string>, std::vector<uint32_t>> ids;
  for (const auto& [id, frame] : stacks_->frames()) {
    if (frame.python_code != 0 || frame.pc == 0) continue;
    const ModuleInfo* const info = stacks_->ModuleAt(frame.pc - 1);
    if (info == nullptr) continue;
    const auto key = std::make_pair(info->path, info->build_id);
    Module& module = groups[key];
    module.info = *info;
    module.addresses.push_back(frame.pc - info->load_bias);
    ids[key].push_back(info->id);
  }
  for (auto& [key, module] : groups) {
    std::sort(module.addresses.begin(), module.addresses.end());
    module.addresses.erase(std::unique(module.addresses.begin(), module.addresses.end()), module.addresses.end());
    ModuleReport report;
    report.path = key.first;
    report.build_id = key.second;
    report.addresses = module.addresses.size();
    std::vector<uint32_t>& of_module = ids[key];
    std::sort(of_module.begin(), of_module.end());
    of_module.erase(std::unique(of_module.begin(), of_module.end()), of_module.end());
    for (const uint32_t id : of_module) index_[id] = modules_.size();
    report.ids = std::move(of_module);
    modules_.push_back(std::move(module));
    reports_.push_back(std::move(report));
  }
}

std::vector<uint64_t> NativeNames::Missing(const Module& module) const {
  std::vector<uint64_t> missing;
  for (const uint64_t address : module.addresses) {
    if (!module.symbols.Has(address)) missing.push_back(address);
  }
  return missing;
}

void NativeNames::TakeStored(size_t index) {
  for (const uint32_t id : reports_[index].ids) {
    const ModuleSymbols* const stored = stacks_->symbols(id);
    if (stored == nullptr) continue;
    modules_[index].symbols.TakeFrom(*stored);
    reports_[index].source = SymbolSource::kTrace;
  }
}

void NativeNames::Read(size_t index, ModuleFiles* files, const SymbolCache& cache, const LookupProgress& progress) {
  Module& module = modules_[index];
  ModuleReport& report = reports_[index];
  const FoundModule found = files->Find(module.info);
  module.trouble = found.trouble;
  module.detail = found.detail;
  const bool dwarf = options_->dwarf && found.has_debug_info;
  const SymbolDepth depth = dwarf ? SymbolDepth::kDwarf : SymbolDepth::kTable;
  if (!found.readable()) {
    // The file is gone, but what it said may be known still.
    for (const SymbolDepth any : {SymbolDepth::kDwarf, SymbolDepth::kTable})
      module.symbols.TakeFrom(cache.Read(module.info.build_id, any));
  } else {
    module.symbols.TakeFrom(cache.Read(module.info.build_id, depth));
  }
  const size_t before = Missing(module).size();
  if (before < module.addresses.size()) report.source = SymbolSource::kCache;
  if (before == 0) module.trouble = FileTrouble::kNone;
  if (before == 0 || !found.readable()) return;

  LookupRequest request{found.binary, found.debug, module.info.build_id, Missing(module), dwarf};
  LookupAnswer answer = LookUpIsolated(request, progress);
  module.failure = answer.problem;
  report.source = SymbolSource::kFile;
  report.file = found.debug.empty() ? found.binary : found.debug;
  module.symbols.TakeFrom(answer.symbols);
  if (answer.problem.empty()) cache.Write(module.info.build_id, depth, answer.symbols);
}

void NativeNames::Count(size_t index) {
  const Module& module = modules_[index];
  ModuleReport& report = reports_[index];
  for (const uint64_t address : module.addresses) {
    const std::vector<NativeFunction> functions = module.symbols.At(address);
    if (functions.empty()) continue;
    report.named += functions.back().function.empty() ? 0 : 1;
    report.with_lines += functions.front().line == 0 ? 0 : 1;
  }
  switch (module.trouble) {
    case FileTrouble::kNone:
      report.problem = module.failure;
      break;
    case FileTrouble::kNoFile:
      report.problem = "has no file";
      break;
    case FileTrouble::kMissing:
      report.problem = module.detail.empty() ? "is not on this machine" : module.detail;
      break;
    case FileTrouble::kUnreadable:
      report.problem = module.detail;
      break;
    case FileTrouble::kOtherBuild:
      report.problem = absl::StrCat("is another build than the traced one: ", module.detail);
      break;
    case FileTrouble::kNotVerified:
      report.problem = "has no build id to tell whether it is the traced file";
      break;
  }
}

void NativeNames::WriteNotes() {
  std::vector<std::string> missing, unverified;
  size_t others = 0;
  for (size_t i = 0; i < modules_.size(); ++i) {
    const Module& module = modules_[i];
    const std::string& path = reports_[i].path;
    if (module.trouble == FileTrouble::kMissing) missing.push_back(LibraryName(path));
    if (module.trouble == FileTrouble::kNotVerified) unverified.push_back(LibraryName(path));
    const bool reported = module.trouble == FileTrouble::kOtherBuild || module.trouble == FileTrouble::kUnreadable;
    if (!reported && module.failure.empty()) continue;
    if (++others > kMaxNamedInANote) continue;
    const std::string what = module.failure.empty() ? reports_[i].problem : module.failure;
    const std::string next =
        !module.failure.empty() ? "Names may be missing"
        : module.trouble == FileTrouble::kOtherBuild
            ? "Its frames stay module and offset. Give the traced file with --symbols PATH, or set "
              "DEBUGINFOD_URLS"
            : "Its frames stay module and offset. Give a readable file with --symbols PATH";
    notes_.push_back(absl::StrCat(path, module.failure.empty() ? " " : ": ", what, ". ", next, "."));
  }
  if (others > kMaxNamedInANote)
    notes_.push_back(absl::StrCat(others - kMaxNamedInANote,
                                  " more modules cannot be used: gpumemshim export trace --names lists them."));
  if (!missing.empty())
    notes_.push_back(absl::StrCat(
        "No file here for ", Listed(missing),
        ": their frames stay module and offset. Run gpumemshim export trace --names where the program ran, or "
        "name the files with --symbols PATH or --sysroot DIR."));
  if (!unverified.empty())
    notes_.push_back(absl::StrCat("The names of ", Listed(unverified),
                                  " come from the files that are here now: they have no build id that would tell "
                                  "whether they are the traced ones."));
}

void NativeNames::LookUp() {
  Group();
  ModuleFiles files(options_->search);
  const SymbolCache cache(options_->cache_folder);
  size_t all = 0, done = 0;
  for (const Module& module : modules_) all += module.addresses.size();
  for (size_t i = 0; i < modules_.size(); ++i) {
    TakeStored(i);
    const std::string what = absl::StrCat("symbols of ", LibraryName(reports_[i].path));
    const auto progress = [&](uint64_t at) {
      if (options_->progress) options_->progress(what, done + at, all);
    };
    progress(0);
    if (!Missing(modules_[i]).empty()) Read(i, &files, cache, [&](uint64_t at, uint64_t) { progress(at); });
    done += modules_[i].addresses.size();
    Count(i);
  }
  WriteNotes();
  search_notes_ = files.notes();
  notes_.insert(notes_.end(), search_notes_.begin(), search_notes_.end());
}

std::vector<NativeFunction> NativeNames::At(uint32_t module_id, uint64_t address) const {
  const auto found = index_.find(module_id);
  return found == index_.end() ? std::vector<NativeFunction>() : modules_[found->second].symbols.At(address);
}

namespace {

absl::string_view FileOf(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

// Of a program that ran on Windows, with the separator that everything here looks for: "C:/proj/train.py".
std::string WithSlashes(std::string path) {
  const bool has_drive = path.size() > 2 && absl::ascii_isalpha(static_cast<unsigned char>(path[0])) &&
                         path[1] == ':' && (path[2] == '\\' || path[2] == '/');
  const bool is_windows = has_drive || (absl::StrContains(path, '\\') && !absl::StrContains(path, '/'));
  if (is_windows) std::replace(path.begin(), path.end(), '\\', '/');
  return path;
}

}  // namespace

struct Symbolizer::State {
  State(const StackTable* table, SymbolizerOptions chosen)
      : stacks(table), options(std::move(chosen)), names(table, &options), compiled(table) {}

  const std::vector<ResolvedFrame>& ResolveFrame(uint32_t id);
  std::vector<ResolvedFrame> ResolveNative(const FrameInfo& frame);
  std::vector<ResolvedFrame> ResolvePython(const FrameInfo& frame);
  void Prepare();

  const StackTable* stacks;
  SymbolizerOptions options;
  NativeNames names;
  CompiledFrames compiled;
  bool prepared = false;
  absl::flat_hash_map<uint32_t, std::vector<ResolvedFrame>> frames;  // by frame id
};

Symbolizer::Symbolizer(const StackTable* stacks, SymbolizerOptions options)
    : state_(std::make_unique<State>(stacks, std::move(options))) {}
Symbolizer::~Symbolizer() = default;
void Symbolizer::Prepare() { state_->Prepare(); }
const std::vector<std::string>& Symbolizer::notes() const { return state_->names.notes(); }
const std::vector<std::string>& Symbolizer::search_notes() const { return state_->names.search_notes(); }
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

// A line of a file that torch.compile generated comes after the lines of the program that it computes.
std::vector<ResolvedFrame> Symbolizer::State::ResolvePython(const FrameInfo& frame) {
  ResolvedFrame own;
  own.python = true;
  own.nn_module = frame.nn_module;
  const PythonCodeInfo* const code = stacks->python_code(frame.python_code);
  if (code == nullptr) {
    own.function = own.short_function = "<lost Python function>";
    return {own};
  }
  own.function = own.short_function = WithoutResumption(code->name);
  own.file = WithSlashes(code->filename);
  own.line = PythonLine(*code, frame.instruction);
  std::vector<ResolvedFrame> resolved;
  if (const CompiledPiece* const piece = compiled.At(own.file, own.line); piece != nullptr) {
    const CompiledLines& lines = stacks->objects().compiled_lines();
    for (const SourceLine& source : piece->sources) {
      ResolvedFrame& made = resolved.emplace_back();
      made.python = made.inlined = true;
      made.function = made.short_function = WithoutResumption(lines.text(source.function));
      made.file = lines.text(source.file);
      made.line = source.line;
      made.compiled_in = piece->nn_module;
    }
  }
  resolved.push_back(std::move(own));
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
    last.file = WithSlashes(std::move(function.file));
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
    resolved = ResolvePython(*frame);
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
