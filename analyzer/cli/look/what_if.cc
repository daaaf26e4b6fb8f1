// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/look/what_if.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "answers/oom/oom_story.h"
#include "answers/report/verdict.h"
#include "cli/trace_options.h"
#include "ledger/saved/fields.h"
#include "ledger/saved/saved_file.h"

namespace gpumem {

// As in ledger/saved/fields.h: each takes its struct apart whole.
template <typename Archive, SameAs<WhatIfRun> V>
void Fields(Archive& archive, V& run) {
  auto& [settings, peak_reserved, fit, change, why_not] = run;
  archive(settings, peak_reserved, fit, change, why_not);
}

template <typename Archive, SameAs<WhatIfAnswer> V>
void Fields(Archive& archive, V& answer) {
  auto& [why_not, torch, device, is_exact, not_followed, doubts, recorded, other, changes] = answer;
  archive(why_not, torch, device, is_exact, not_followed, doubts, recorded, other, changes);
}

namespace {

WhatIfAsker& Asker() {
  static auto* const kAsker = new WhatIfAsker;
  return *kAsker;
}

// What a replay of the whole trace gave, kept beside its index; of the same Python alone.
absl::StatusOr<IndexFile> FileOfAnswer(const LoadedTrace& loaded, int device) {
  return SavedFileOf(loaded.analysis.path, absl::StrCat("replay", device));
}

std::string PythonNamed() {
  std::string named;
  for (const char* variable : {"GPUMEMSHIM_INTERPRETER", "VIRTUAL_ENV", "PATH"}) {
    const char* const value = std::getenv(variable);
    absl::StrAppend(&named, value == nullptr ? "" : value, "\n");
  }
  return named;
}

std::optional<WhatIfAnswer> KeptAnswer(const LoadedTrace& loaded, int device) {
  const absl::StatusOr<IndexFile> file = FileOfAnswer(loaded, device);
  const std::unique_ptr<SavedFile> saved = file.ok() ? SavedFile::Open(*file) : nullptr;
  if (saved == nullptr) return std::nullopt;
  ArchiveReader reader(saved->main());
  std::string python;
  WhatIfAnswer answer;
  reader(python, answer);
  return reader.IsDone() && python == PythonNamed() ? std::optional(answer) : std::nullopt;
}

void KeepAnswer(const LoadedTrace& loaded, const WhatIfAnswer& answer) {
  const absl::StatusOr<IndexFile> file = FileOfAnswer(loaded, answer.device);
  if (!file.ok()) return;
  const auto writer = SavedFileWriter::Create(*file);
  if (!writer.ok()) return;
  ArchiveWriter archive;
  archive(PythonNamed(), answer);
  (*writer)->Finish(archive.bytes()).IgnoreError();
}

}  // namespace

const OomEvent* ReplayableFailure(const Analysis& analysis) {
  const OomEvent* const explained = OomToExplain(analysis.ooms);
  const bool is_replayable = explained != nullptr && explained->final && explained->described &&
                             explained->layer == kTorchLayer && explained->fit_expandable.has_value();
  return is_replayable ? explained : nullptr;
}

void TakeFit(const OomEvent& failure, WhatIfAnswer* answer, Analysis* analysis) {
  if (answer->is_replayed() && !answer->other.fit.has_value())
    answer->why_not = "with expandable segments it does not come as far as with the recorded settings";
  if (answer->knows_fit())
    analysis->ooms[static_cast<size_t>(&failure - analysis->ooms.data())].fit_expandable = answer->other.fit;
}

void SetWhatIfAsker(WhatIfAsker asker) { Asker() = std::move(asker); }

std::optional<WhatIfAnswer> WhatIfFlag::Ask(const std::vector<std::string>& arguments, WhatIfQuestion question,
                                            Console* console) const {
  if (skips_ || Asker() == nullptr) return std::nullopt;
  TraceOptions whole;
  whole.shows_stacks = false;
  absl::StatusOr<LoadRequest> request = whole.Request(arguments, console);
  if (!request.ok()) return std::nullopt;
  question.trace = *std::move(request);
  WhatIfAnswer answer = Asker()(question, console);
  console->ProgressDone();
  return answer;
}

void WhatIfFlag::AskOfRun(const std::vector<std::string>& arguments, uint64_t most_events, LoadedTrace* loaded,
                          std::optional<WhatIfAnswer>* answer, Console* console) const {
  const DeviceAnalysis* const device = DeviceOfVerdict(loaded->input);
  if (skips_ || device == nullptr || loaded->analysis.events.torch > most_events ||
      !IsWorthReplay(loaded->input, *device))
    return;
  *answer = KeptAnswer(*loaded, device->device);
  if (!answer->has_value()) {
    *answer = Ask(arguments, {{}, device->device}, console);
    if (answer->has_value() && (*answer)->is_replayed()) KeepAnswer(*loaded, **answer);
  }
  if (answer->has_value()) loaded->input.what_if = &**answer;
}

}  // namespace gpumem
