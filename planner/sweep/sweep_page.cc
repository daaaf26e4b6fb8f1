// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/sweep_page.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/format.h"
#include "base/utf8.h"
#include "planner/sweep/digest.h"
#include "planner/sweep/words.h"

namespace gpumem::plan {
namespace {

constexpr int kLeastAxis = 5, kOtherColumns = 67;  // of the terminal
constexpr size_t kMaxReasons = 8, kMaxNumbers = 8;

std::string Text(SweepWord word, const SweepAnswer& answer) { return std::string(Word(word, answer.language)); }

// A page breaks lines at blanks, which Chinese has few of.
std::string Breakable(const std::string& text) {
  return absl::StrReplaceAll(text, {{"；", "； "}, {"：", "： "}, {"，", "， "}, {"（", " （"}});
}

void AddHead(const SweepAnswer& answer, Page* page) {
  if (!answer.command.empty()) page->Line(absl::StrJoin(answer.command, " "), Tone::kHeading);
  std::string device = answer.device;
  if (answer.capacity > 0) absl::StrAppend(&device, " (", FormatBytes(answer.capacity), ")");
  page->Line(absl::StrCat("  ", device, device.empty() ? "" : ", ",
                          Word(answer.simulated ? SweepWord::kSimulated : SweepWord::kOnGpu, answer.language)));
  const bool one = answer.rows.size() == 1;
  std::string text =
      absl::StrCat("  ", answer.rows.size(), " ",
                   one && answer.language == SweepLanguage::kEnglish ? Text(SweepWord::kConfiguration, answer)
                                                                     : Text(SweepWord::kConfigurations, answer));
  if (!answer.steps.empty()) absl::StrAppend(&text, ", ", Text(SweepWord::kSteps, answer), ": ", answer.steps);
  if (answer.seconds > 0) absl::StrAppend(&text, ", ", SecondsText(answer.seconds));
  page->Line(text);
  if (answer.left > 0) page->Line(absl::StrCat("  ", answer.left, " ", Text(SweepWord::kLeft, answer)), Tone::kWarning);
}

// The name of an axis over its values, as long as the other columns leave room for. "How memory grows" has it in full.
std::string AxisHeading(const std::string& axis, size_t axes, const SweepAnswer& answer, const Page& page) {
  int widest = std::max(kLeastAxis, (page.style().width - kOtherColumns) / static_cast<int>(axes) - 2);
  for (const std::string& value : ValuesOf(answer.rows, axis)) widest = std::max(widest, DisplayWidth(value));
  return TruncateEnd(axis, widest, page.style().ellipsis());
}

// Why configurations do not fit or have no answer: each reason once, with those that it is for.
void AddReasons(const SweepAnswer& answer, Page* page) {
  std::vector<std::pair<std::string, std::vector<int>>> reasons;
  for (const SweepRow& row : answer.rows) {
    if (row.state == RowState::kFits || row.reason.empty()) continue;
    const auto found = absl::c_find_if(reasons, [&](const auto& reason) { return reason.first == row.reason; });
    (found == reasons.end() ? reasons.insert(found, {row.reason, {}}) : found)->second.push_back(row.number);
  }
  for (size_t i = 0; i < std::min(reasons.size(), kMaxReasons); ++i) {
    std::vector<int>& numbers = reasons[i].second;
    const size_t all = numbers.size();
    if (all > kMaxNumbers) numbers.resize(kMaxNumbers);
    page->Paragraph(absl::StrCat("  #", absl::StrJoin(numbers, ", #"),
                                 all > kMaxNumbers ? absl::StrCat(" (+", all - kMaxNumbers, ")") : "", "  "),
                    reasons[i].first, Tone::kWarning);
  }
  if (reasons.size() > kMaxReasons)
    page->Line(absl::StrCat("  + ", reasons.size() - kMaxReasons, " ", Text(SweepWord::kAndMore, answer)),
               Tone::kAside);
}

void AddRows(const SweepAnswer& answer, Page* page) {
  page->Gap();
  if (answer.rows.empty()) return page->Line(absl::StrCat("  ", Text(SweepWord::kNothingRan, answer)), Tone::kWarning);
  const std::vector<std::string> axes = AxesOf(answer.rows);
  Page::Row heading = {"#"};
  for (const std::string& axis : axes) heading.push_back(AxisHeading(axis, axes.size(), answer, *page));
  for (const SweepWord word :
       {SweepWord::kAllocated, SweepWord::kReserved, SweepWord::kProcess, SweepWord::kTime, SweepWord::kResult})
    heading.push_back(Text(word, answer));
  std::vector<Align> columns(heading.size(), Align::kRight);
  columns.back() = Align::kLeft;
  std::vector<Page::Row> rows{heading};
  for (const SweepRow& row : answer.rows) {
    Page::Row line = {absl::StrCat(row.number)};
    for (const std::string& axis : axes) line.push_back(ValueOn(row, axis));
    line.push_back(BytesOrDash(row.peak_allocated));
    line.push_back(BytesOrDash(row.peak_reserved));
    line.push_back(BytesOrDash(row.peak_process));
    line.push_back(SecondsText(row.seconds));
    line.emplace_back(StateTitle(row.state, answer.language));
    rows.push_back(std::move(line));
  }
  page->Table(columns, rows);
  AddReasons(answer, page);
}

void AddOne(const std::string& what, const SweepRow& row, const std::string& more, const SweepAnswer& answer,
            Page* page) {
  page->Paragraph(
      absl::StrCat("  ", what, ": "),
      absl::StrCat("#", row.number, ": ", ConfigurationText(row.values), "; ", Text(SweepWord::kAllocated, answer), " ",
                   FormatBytes(row.peak_allocated), ", nvidia-smi ", BytesOrDash(row.peak_process), more));
}

// " (5 % of the device free)".
std::string MarginText(const SweepAnswer& answer) {
  if (answer.margin == 0) return "";
  return absl::StrCat(" (", FormatPercent(answer.margin), " ", Text(SweepWord::kWithMargin, answer), ")");
}

// How close the next one is.
void AddNext(const SweepAnswer& answer, Page* page) {
  const SweepRow* const next = NextAfterLargest(answer.rows, answer.margin);
  if (next == nullptr || next->capacity == 0) return;
  const uint64_t need = NeedOf(*next), have = next->capacity;
  const std::string close = absl::StrCat(", ", need <= have ? FormatBytes(have - need) : FormatBytes(need - have), " ",
                                         Text(need <= have ? SweepWord::kIsLeft : SweepWord::kIsMissing, answer));
  AddOne(Text(SweepWord::kNextLarger, answer), *next, close, answer, page);
}

void AddBest(const SweepAnswer& answer, Page* page) {
  if (answer.rows.empty()) return;
  page->Gap();
  const SweepRow *largest = LargestThatFits(answer.rows, answer.margin), *least = LeastThatFits(answer.rows);
  if (largest == nullptr) {
    page->Line(absl::StrCat("  ", Text(SweepWord::kNothingFits, answer), MarginText(answer)), Tone::kAlarm);
  } else {
    AddOne(absl::StrCat(Text(SweepWord::kLargestThatFits, answer), MarginText(answer)), *largest, "", answer, page);
  }
  AddNext(answer, page);
  if (least != nullptr && least != largest) AddOne(Text(SweepWord::kLeastMemory, answer), *least, "", answer, page);
}

void AddScaling(const SweepAnswer& answer, Page* page) {
  if (answer.scaling.empty()) return;
  page->Gap();
  page->Line(Text(SweepWord::kScaling, answer), Tone::kHeading);
  size_t widest = 0;
  for (const AxisScaling& scaling : answer.scaling) widest = std::max(widest, scaling.axis.size());
  for (const AxisScaling& scaling : answer.scaling) {
    const std::string blanks(std::min<size_t>(widest - scaling.axis.size(), 40) + 2, ' ');
    page->Paragraph(absl::StrCat("  ", scaling.axis, blanks), Breakable(ScalingSentence(scaling, answer.language)));
  }
}

void AddLosses(const SweepAnswer& answer, Page* page) {
  std::vector<std::string> lost;
  for (const SweepRow& row : answer.rows) {
    if (row.lost_events > 0) {
      lost.push_back(
          absl::StrCat("#", row.number, ": ", FormatCount(row.lost_events), " ", Text(SweepWord::kEvents, answer)));
    }
  }
  if (lost.empty()) return;
  page->Gap();
  page->Paragraph(absl::StrCat("  ", Word(SweepWord::kLosses, answer.language), "  "), absl::StrJoin(lost, ", "),
                  Tone::kWarning);
}

// Pictures of single configurations in one line: there may be hundreds.
void AddFiles(const SweepAnswer& answer, Page* page) {
  if (answer.files.empty()) return;
  page->Gap();
  page->Line({{Tone::kHeading, Text(SweepWord::kFiles, answer)},
              {Tone::kPlain, answer.directory.empty() ? "" : absl::StrCat("  ", answer.directory)}});
  std::vector<std::string> timelines;
  for (const std::string& file : answer.files) {
    absl::StartsWith(file, "memory_timeline_config_") ? timelines.push_back(file)
                                                      : page->Line(absl::StrCat("  ", file));
  }
  if (timelines.empty()) return;
  page->Line(timelines.size() == 1
                 ? absl::StrCat("  ", timelines.front())
                 : absl::StrCat("  ", timelines.front(), " ... ", timelines.back(), " (", timelines.size(), ")"));
}

}  // namespace

void AddSweep(const SweepAnswer& answer, Page* page) {
  AddHead(answer, page);
  AddRows(answer, page);
  AddBest(answer, page);
  AddScaling(answer, page);
  AddMadeOf(answer, page);
  AddLosses(answer, page);
  AddFiles(answer, page);
  if (!answer.notes.empty()) page->Gap();
  for (const std::string& note : answer.notes)
    page->Paragraph(absl::StrCat("  ", Word(SweepWord::kNotes, answer.language), ": "), Breakable(note), Tone::kAside);
}

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
