// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/format.h"
#include "planner/sweep/digest.h"
#include "planner/sweep/sweep_page_parts.h"
#include "planner/sweep/words.h"

namespace gpumem::plan {
namespace {

constexpr size_t kMaxComponentRows = 12, kMaxStages = 20;

std::string WordText(SweepWord word, SweepLanguage language) { return std::string(Word(word, language)); }

void AddCut(size_t all, size_t shown, SweepLanguage language, Page* page) {
  if (all > shown)
    page->Line(absl::StrCat("  + ", all - shown, " ", Word(SweepWord::kAndMore, language)), Tone::kAside);
}

void AddTypes(const SweepRow& row, SweepLanguage language, Page* page) {
  const std::vector<PartBytes> types = MemoryTypes(row);
  uint64_t all = 0;
  for (const PartBytes& type : types) all += type.bytes;
  if (all == 0) return;
  std::vector<Page::Row> rows{{"", "%", WordText(SweepWord::kMemoryTypes, language)}};
  for (const PartBytes& type : types) {
    rows.push_back({FormatBytes(type.bytes), FormatPercent(static_cast<double>(type.bytes) / static_cast<double>(all)),
                    MemoryTypeTitle(type.name, language)});
  }
  page->Table({Align::kRight, Align::kRight, Align::kLeft}, rows);
}

void AddComponents(const SweepRow& row, SweepLanguage language, Page* page) {
  if (row.components.empty()) return;
  page->Gap();
  const auto stage = [language](const char* name) { return StageTitleOf(name, language); };
  std::vector<Page::Row> rows{{WordText(SweepWord::kComponents, language), WordText(SweepWord::kAtPeak, language),
                               stage("forward"), stage("backward"), stage("optimizer"), stage("other")}};
  const size_t shown = std::min(row.components.size(), kMaxComponentRows);
  for (size_t i = 0; i < shown; ++i) {
    Page::Row line = {ComponentTitle(row.components[i].name, language), BytesOrDash(SumOf(row.components[i].at_peak))};
    for (const PartBytes& operation : Operations(row.components[i].allocated))
      line.push_back(BytesOrDash(operation.bytes));
    rows.push_back(std::move(line));
  }
  std::vector<Align> columns(6, Align::kRight);
  columns[0] = Align::kLeft;
  page->Table(columns, rows);
  AddCut(row.components.size(), shown, language, page);
  page->Line(absl::StrCat("  ", stage("forward"), " / ", stage("backward"), " / ", stage("optimizer"), ": ",
                          Word(SweepWord::kAllocatedInAll, language)),
             Tone::kAside);
}

void AddStages(const SweepRow& row, SweepLanguage language, Page* page) {
  if (row.stages.empty()) return;
  page->Gap();
  std::vector<Page::Row> rows{{WordText(SweepWord::kStages, language), WordText(SweepWord::kPeak, language),
                               WordText(SweepWord::kGrowth, language), WordText(SweepWord::kTime, language),
                               WordText(SweepWord::kTimes, language)}};
  const size_t shown = std::min(row.stages.size(), kMaxStages);
  for (size_t i = 0; i < shown; ++i) {
    const RowStage& stage = row.stages[i];
    const uint64_t change = stage.growth_bytes < 0 ? 0 - static_cast<uint64_t>(stage.growth_bytes)
                                                   : static_cast<uint64_t>(stage.growth_bytes);
    const char* sign = stage.growth_bytes < 0 ? "-" : stage.growth_bytes > 0 ? "+" : "";
    rows.push_back({StageTitleOf(stage.name, language), BytesOrDash(stage.peak_allocated),
                    absl::StrCat(sign, FormatBytes(change)), SecondsText(stage.seconds), FormatCount(stage.count)});
  }
  std::vector<Align> columns(5, Align::kRight);
  columns[0] = Align::kLeft;
  page->Table(columns, rows);
  AddCut(row.stages.size(), shown, language, page);
}

}  // namespace

std::string BytesOrDash(uint64_t bytes) { return bytes == 0 ? "-" : FormatBytes(bytes); }

std::string SecondsText(double seconds) {
  if (!(seconds > 0)) return "0 s";
  if (seconds < 100) return absl::StrFormat("%.1f s", seconds);
  return FormatTime(static_cast<uint64_t>(std::llround(std::min(seconds, 1e9))) * 1'000'000'000);
}

void AddMadeOf(const SweepAnswer& answer, Page* page) {
  const SweepRow* row = RowToExplain(answer.rows);
  if (row == nullptr) return;
  page->Gap();
  page->Line({{Tone::kHeading, WordText(SweepWord::kPartsOf, answer.language)},
              {Tone::kPlain, absl::StrCat("  #", row->number, "  ", ConfigurationText(row->values))}});
  if (row->state != RowState::kFits)
    page->Line(absl::StrCat("  ", Word(SweepWord::kDoesNotFit, answer.language)), Tone::kWarning);
  AddTypes(*row, answer.language, page);
  AddComponents(*row, answer.language, page);
  AddStages(*row, answer.language, page);
}

}  // namespace gpumem::plan
