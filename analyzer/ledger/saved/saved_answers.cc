// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/saved/saved_answers.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "ledger/load/attribute.h"
#include "ledger/load/leaks.h"
#include "ledger/load/own_trace.h"
#include "ledger/saved/fields.h"

namespace gpumem {
namespace {

constexpr uint64_t kDefaultAbove = uint64_t{4} << 20;

// UINT64_MAX: none.
uint64_t KeptAbove() {
  const char* const set = std::getenv("GPUMEMSHIM_INDEX_ABOVE");
  if (set == nullptr) return kDefaultAbove;
  if (absl::string_view(set) == "never") return UINT64_MAX;
  return ParseBytes(set).value_or(kDefaultAbove);
}

// Changes when files appear or change that frames get their names from: rules go by names. Also when the trace becomes
// the user's own, or stops to be it: then other files may be read.
uint64_t StateOfSymbols(const StackTable& stacks, bool is_own) {
  std::string state = is_own ? "own|" : "";
  for (const ModuleInfo& module : stacks.modules()) {
    struct stat info {};
    if (stat(module.path.c_str(), &info) != 0) continue;
    absl::StrAppend(&state, module.path, "|", info.st_size, "|", info.st_mtim.tv_sec, "|");
  }
  return XXH3_64bits(state.data(), state.size());
}

// Everything that any request asks for, but moments.
AttributionRequest WholeRequest(LifeSink* lives) {
  AttributionRequest request;
  request.steps = request.modules = request.stages = true;
  request.lives = lives;
  return request;
}

absl::Status Build(const IndexFile& file, uint64_t symbols, LoadedTrace* loaded) {
  GPUMEM_ASSIGN_OR_RETURN(const auto writer, SavedFileWriter::Create(file));
  const DeviceAnalysis* const largest = LargestDevice(loaded->analysis);
  LifeTableWriter lives(writer.get(), SlotOfDevice(largest == nullptr ? 0 : largest->device));
  GPUMEM_ASSIGN_OR_RETURN(const auto attributor, LoadedAttributor::MakeReplaying(WholeRequest(&lives), "", loaded));
  GPUMEM_ASSIGN_OR_RETURN(const auto finder, LoadedLeakFinder::MakeReplaying("", loaded));
  GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {attributor->analysis(), finder->analysis()}));
  ArchiveWriter archive;
  archive(symbols, *attributor->Take(loaded), *finder->Take(loaded), lives.data());
  loaded->input.attribution = nullptr;
  loaded->input.leaks = nullptr;
  return writer->Finish(archive.bytes());
}

}  // namespace

std::shared_ptr<SavedAnswers> SavedAnswers::Read(const IndexFile& file, uint64_t symbols) {
  auto answers = std::make_shared<SavedAnswers>();
  answers->file_ = SavedFile::Open(file);
  if (answers->file_ == nullptr) return nullptr;
  ArchiveReader reader(answers->file_->main());
  uint64_t saved_symbols = 0;
  reader(saved_symbols, answers->whole_, answers->leaks_, answers->lives_);
  if (!reader.IsDone() || saved_symbols != symbols) return nullptr;
  return answers;
}

const SavedAnswers* AnswersOf(LoadedTrace* loaded) {
  if (!loaded->keeps_answers || loaded->answers != nullptr) return loaded->answers.get();
  const absl::StatusOr<IndexFile> file = SavedFileOf(loaded->analysis.path, "answers");
  if (file.ok()) {
    const uint64_t symbols =
        StateOfSymbols(loaded->stacks, IsOwnTrace(loaded->analysis.path, loaded->analysis.process));
    std::shared_ptr<const SavedAnswers> answers = SavedAnswers::Read(*file, symbols);
    if (answers == nullptr && Build(*file, symbols, loaded).ok()) answers = SavedAnswers::Read(*file, symbols);
    loaded->answers = std::move(answers);
  }
  loaded->keeps_answers = loaded->answers != nullptr;
  return loaded->answers.get();
}

bool SavedAnswers::Find(const MomentQuery& query, const Analysis& analysis, const StackTable& stacks,
                        Moment* moment) const {
  const LifeTable table = lives();
  if (query.kind == MomentQuery::Kind::kEvent) {
    const std::optional<uint64_t> time_ns = table.TimeOf(query.number);
    if (query.number > lives_.end_event || lives_.events == 0 || !time_ns) return false;
    moment->event_index = query.number;
    moment->time_ns = *time_ns;
    return true;
  }
  if (query.kind == MomentQuery::Kind::kTime) {
    const std::optional<uint64_t> event = table.EventAt(query.number);
    if (query.number > EndOfProgram(analysis) || !event) return false;
    moment->event_index = *event;
    moment->time_ns = query.number;
    return true;
  }
  MarkSearch search;
  bool is_found = false;
  for (const MarkedEvent& mark : lives_.marks) {
    if (!search.Takes(query, mark.time_ns, stacks.string(mark.text)) || mark.event == 0) continue;
    is_found = true;
    moment->event_index = mark.event - 1;
    moment->time_ns = mark.time_ns;
  }
  return is_found;
}

std::unique_ptr<Attribution> SavedAnswers::Answer(const AttributionRequest& request, const Analysis& analysis,
                                                  const StackTable& stacks) const {
  if (!request.moments.empty() && !lives_.is_exact) return nullptr;
  std::vector<Step> steps;
  for (const AttributedStep& each : whole_.steps) steps.push_back(each.step);
  auto answer = std::make_unique<Attribution>(whole_);
  for (const MomentQuery& query : request.moments) {
    Moment& moment = answer->moments.emplace_back();
    moment.asked = query.text;
    if (query.kind == MomentQuery::Kind::kStep) {
      const Step* const step = StepNumbered(steps, query.number);
      if (step == nullptr) continue;
      moment.event_index = step->peak.event_index;
      moment.time_ns = step->peak.time_ns;
    } else if (!Find(query, analysis, stacks, &moment)) {
      return nullptr;
    }
    moment.found = true;
    if (const Step* const step = StepAt(steps, moment.event_index)) moment.step = step->number;
    if (!lives().Fill(&moment)) return nullptr;
    for (const AttributedUse& use : moment.uses) {
      if (use.name != 0) answer->names.try_emplace(use.name, stacks.string(use.name));
    }
  }
  if (!request.steps) answer->steps.clear();
  if (!request.stages) answer->stages.clear();
  if (!request.stages) answer->unlisted_stages = 0;
  if (request.modules) return answer;
  answer->module_uses.clear();
  answer->module_peaks.assign(answer->modules.size(), 0);
  answer->inclusive_peaks.assign(answer->modules.size(), 0);
  return answer;
}

bool MayKeepAnswers(const LoadRequest& request, const std::string& path) {
  const AnalyzeOptions& asked = request.analyze;
  const AnalyzeOptions whole;
  const SymbolizerOptions& symbols = request.symbols;
  const bool is_default = request.keeps_answers && asked.device == whole.device && asked.layer == whole.layer &&
                          asked.from_ns == whole.from_ns && asked.to_ns == whole.to_ns &&
                          asked.timeline_buckets == whole.timeline_buckets && asked.plateaus == whole.plateaus &&
                          symbols.native && symbols.dwarf && symbols.search.symbols.empty() &&
                          symbols.search.sysroot.empty() && request.sources.empty();
  struct stat info {};
  const bool is_file = is_default && stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  return is_file && static_cast<uint64_t>(info.st_size) >= KeptAbove();
}

bool HasAnswers(const std::string& path) {
  const absl::StatusOr<IndexFile> file = SavedFileOf(path, "answers");
  return file.ok() && file->exists();
}

bool IsWorthKeeping(const Analysis& analysis) {
  const bool has_ended = analysis.complete || analysis.state == Analysis::Process::kEnded;
  return has_ended && analysis.recovered_events == 0 && !analysis.end_unknown && analysis.damage.empty() &&
         analysis.gaps.empty();
}

bool ReadSavedAnalysis(const std::string& path, Analysis* analysis, StackTable* stacks) {
  const absl::StatusOr<IndexFile> file = SavedFileOf(path, "analysis");
  const std::unique_ptr<SavedFile> saved = file.ok() ? SavedFile::Open(*file) : nullptr;
  if (saved == nullptr) return false;
  ArchiveReader reader(saved->main());
  reader(*analysis, *stacks);
  if (!reader.IsDone()) {
    *analysis = {};
    *stacks = StackTable();
    return false;
  }
  analysis->path = path;  // as it was named this time
  return true;
}

void SaveAnalysis(const Analysis& analysis, const StackTable& stacks) {
  const absl::StatusOr<IndexFile> file = SavedFileOf(analysis.path, "analysis");
  if (!file.ok()) return;
  const auto writer = SavedFileWriter::Create(*file);
  if (!writer.ok()) return;
  ArchiveWriter archive;
  archive(analysis, stacks);
  (*writer)->Finish(archive.bytes()).IgnoreError();
}

}  // namespace gpumem
