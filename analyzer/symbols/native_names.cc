// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/native_names.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
  notes_.insert(notes_.end(), files.notes().begin(), files.notes().end());
}

std::vector<NativeFunction> NativeNames::At(uint32_t module_id, uint64_t address) const {
  const auto found = index_.find(module_id);
  return found == index_.end() ? std::vector<NativeFunction>() : modules_[found->second].symbols.At(address);
}

}  // namespace gpumem
