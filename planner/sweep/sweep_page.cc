// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/format.h"
#include "base/utf8.h"
#include "planner/sweep/digest.h"
#include "planner/sweep/sweep_document.h"
#include "planner/sweep/words.h"
#include "render/cells.h"

namespace gpumem::plan {
namespace {

constexpr int kLeastAxis = 5, kOtherColumns = 67;  // of the terminal
constexpr size_t kMaxReasons = 8, kMaxNumbers = 8, kMaxComponentRows = 12, kMaxStages = 20;

std::string SecondsText(double seconds) {
  if (!(seconds > 0)) return "0 s";
  if (seconds < 100) return absl::StrFormat("%.1f s", seconds);
  return FormatTime(static_cast<uint64_t>(std::llround(std::min(seconds, 1e9))) * 1'000'000'000);
}

std::string Text(SweepWord word, SweepLanguage language) { return std::string(Word(word, language)); }
std::string Text(SweepWord word, const SweepAnswer& answer) { return Text(word, answer.language); }

// A page breaks lines at blanks, which Chinese has few of.
std::string Breakable(const std::string& text) {
  return absl::StrReplaceAll(text, {{"；", "； "}, {"：", "： "}, {"，", "， "}, {"（", " （"}});
}

void AddHead(const SweepAnswer& answer, Document* document) {
  if (!answer.command.empty()) document->Line(absl::StrJoin(answer.command, " "), Tone::kHeading);
  std::string device = answer.device;
  if (answer.capacity > 0) absl::StrAppend(&device, " (", FormatBytes(answer.capacity), ")");
  document->Line(absl::StrCat("  ", device, device.empty() ? "" : ", ",
                              Word(answer.simulated ? SweepWord::kSimulated : SweepWord::kOnGpu, answer.language)));
  const bool one = answer.rows.size() == 1;
  std::string text =
      absl::StrCat("  ", answer.rows.size(), " ",
                   one && answer.language == SweepLanguage::kEnglish ? Text(SweepWord::kConfiguration, answer)
                                                                     : Text(SweepWord::kConfigurations, answer));
  if (!answer.steps.empty()) absl::StrAppend(&text, ", ", Text(SweepWord::kSteps, answer), ": ", answer.steps);
  if (answer.seconds > 0) absl::StrAppend(&text, ", ", SecondsText(answer.seconds));
  document->Line(text);
  if (answer.left > 0)
    document->Line(absl::StrCat("  ", answer.left, " ", Text(SweepWord::kLeft, answer)), Tone::kWarning);
}

// The name of an axis over its values, as long as the other columns leave room for. "How memory grows" has it in full.
std::string AxisHeading(const std::string& axis, size_t axes, const SweepAnswer& answer, const TextStyle& style) {
  int widest = std::max(kLeastAxis, (style.width - kOtherColumns) / static_cast<int>(axes) - 2);
  for (const std::string& value : ValuesOf(answer.rows, axis)) widest = std::max(widest, DisplayWidth(value));
  return TruncateEnd(axis, widest, style.ellipsis());
}

// Why configurations do not fit or have no answer: each reason once, with those that it is for.
void AddReasons(const SweepAnswer& answer, Document* document) {
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
    document->Paragraph(absl::StrCat("  #", absl::StrJoin(numbers, ", #"),
                                     all > kMaxNumbers ? absl::StrCat(" (+", all - kMaxNumbers, ")") : "", "  "),
                        reasons[i].first, Tone::kWarning);
  }
  if (reasons.size() > kMaxReasons)
    document->Line(absl::StrCat("  + ", reasons.size() - kMaxReasons, " ", Text(SweepWord::kAndMore, answer)),
                   Tone::kAside);
}

// For lines of this width.
Document RowsDocument(const SweepAnswer& answer, const TextStyle& style) {
  const std::vector<std::string> axes = AxesOf(answer.rows);
  std::vector<AnswerColumn<SweepRow>> columns = {{"", "#", Unit::kNumber, "", &SweepRow::number}};
  for (const std::string& axis : axes) {
    columns.push_back({"", AxisHeading(axis, axes.size(), answer, style), Unit::kNumber, "",
                       [axis](const SweepRow& row) { return ValueOn(row, axis); }});
  }
  const std::vector<AnswerColumn<SweepRow>> results = {
      {"", Text(SweepWord::kAllocated, answer), Unit::kBytesOrDash, "", &SweepRow::peak_allocated},
      {"", Text(SweepWord::kReserved, answer), Unit::kBytesOrDash, "", &SweepRow::peak_reserved},
      {"", Text(SweepWord::kProcess, answer), Unit::kBytesOrDash, "", &SweepRow::peak_process},
      {"", Text(SweepWord::kTime, answer), Unit::kNumber, "",
       [](const SweepRow& row) { return SecondsText(row.seconds); }},
      {"", Text(SweepWord::kResult, answer), Unit::kText, "",
       [&answer](const SweepRow& row) { return StateTitle(row.state, answer.language); }}};
  columns.insert(columns.end(), results.begin(), results.end());
  Document rows;
  rows.Table("", "", std::move(columns), answer.rows, {});
  return rows;
}

void AddRows(const SweepAnswer& answer, Document* document) {
  document->Gap();
  if (answer.rows.empty())
    return document->Line(absl::StrCat("  ", Text(SweepWord::kNothingRan, answer)), Tone::kWarning);
  document->Shown([&answer](const TextStyle& style) { return RowsDocument(answer, style); });
  AddReasons(answer, document);
}

void AddOne(const std::string& what, const SweepRow& row, const std::string& more, const SweepAnswer& answer,
            Document* document) {
  document->Paragraph(
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
void AddNext(const SweepAnswer& answer, Document* document) {
  const SweepRow* const next = NextAfterLargest(answer.rows, answer.margin);
  if (next == nullptr || next->capacity == 0) return;
  const uint64_t need = NeedOf(*next), have = next->capacity;
  const std::string close = absl::StrCat(", ", need <= have ? FormatBytes(have - need) : FormatBytes(need - have), " ",
                                         Text(need <= have ? SweepWord::kIsLeft : SweepWord::kIsMissing, answer));
  AddOne(Text(SweepWord::kNextLarger, answer), *next, close, answer, document);
}

void AddBest(const SweepAnswer& answer, Document* document) {
  if (answer.rows.empty()) return;
  document->Gap();
  const SweepRow *largest = LargestThatFits(answer.rows, answer.margin), *least = LeastThatFits(answer.rows);
  if (absl::c_none_of(answer.rows, HasAnswer)) {
    document->Line(absl::StrCat("  ", Text(SweepWord::kNothingAnswered, answer)), Tone::kAlarm);
  } else if (largest == nullptr) {
    document->Line(absl::StrCat("  ", Text(SweepWord::kNothingFits, answer), MarginText(answer)), Tone::kAlarm);
  } else {
    AddOne(absl::StrCat(Text(SweepWord::kLargestThatFits, answer), MarginText(answer)), *largest, "", answer, document);
  }
  AddNext(answer, document);
  if (least != nullptr && least != largest) AddOne(Text(SweepWord::kLeastMemory, answer), *least, "", answer, document);
}

void AddScaling(const SweepAnswer& answer, Document* document) {
  if (answer.scaling.empty() || absl::c_none_of(answer.rows, HasAnswer)) return;
  document->Gap();
  document->Line(Text(SweepWord::kScaling, answer), Tone::kHeading);
  size_t widest = 0;
  for (const AxisScaling& scaling : answer.scaling) widest = std::max(widest, scaling.axis.size());
  for (const AxisScaling& scaling : answer.scaling) {
    const std::string blanks(std::min<size_t>(widest - scaling.axis.size(), 40) + 2, ' ');
    document->Paragraph(absl::StrCat("  ", scaling.axis, blanks), Breakable(ScalingSentence(scaling, answer.language)));
  }
}

void AddLosses(const SweepAnswer& answer, Document* document) {
  std::vector<std::string> lost;
  for (const SweepRow& row : answer.rows) {
    if (row.lost_events > 0) {
      lost.push_back(
          absl::StrCat("#", row.number, ": ", FormatCount(row.lost_events), " ", Text(SweepWord::kEvents, answer)));
    }
  }
  if (lost.empty()) return;
  document->Gap();
  document->Paragraph(absl::StrCat("  ", Word(SweepWord::kLosses, answer.language), "  "), absl::StrJoin(lost, ", "),
                      Tone::kWarning);
}

// Pictures of single configurations in one line: there may be hundreds.
void AddFiles(const SweepAnswer& answer, Document* document) {
  if (answer.files.empty()) return;
  document->Gap();
  document->Line({{Tone::kHeading, Text(SweepWord::kFiles, answer)},
                  {Tone::kPlain, answer.directory.empty() ? "" : absl::StrCat("  ", answer.directory)}});
  std::vector<std::string> timelines;
  for (const std::string& file : answer.files) {
    absl::StartsWith(file, "memory_timeline_config_") ? timelines.push_back(file)
                                                      : document->Line(absl::StrCat("  ", file));
  }
  if (timelines.empty()) return;
  document->Line(timelines.size() == 1
                     ? absl::StrCat("  ", timelines.front())
                     : absl::StrCat("  ", timelines.front(), " ... ", timelines.back(), " (", timelines.size(), ")"));
}

void AddCut(size_t all, size_t shown, SweepLanguage language, Document* document) {
  if (all > shown)
    document->Line(absl::StrCat("  + ", all - shown, " ", Word(SweepWord::kAndMore, language)), Tone::kAside);
}

void AddTypes(const SweepRow& row, SweepLanguage language, Document* document) {
  const std::vector<PartBytes> types = MemoryTypes(row);
  uint64_t all = 0;
  for (const PartBytes& type : types) all += type.bytes;
  if (all == 0) return;
  document->Table<PartBytes>(
      "", "",
      {{"", kNoTitle, Unit::kBytes, "", &PartBytes::bytes},
       {"", "%", Unit::kShare, "", [all](const PartBytes& type) { return Datum::Share(type.bytes, all); }},
       {"", Text(SweepWord::kMemoryTypes, language), Unit::kText, "",
        [language](const PartBytes& type) { return MemoryTypeTitle(type.name, language); }}},
      std::vector<PartBytes>(types), {});
}

void AddComponents(const SweepRow& row, SweepLanguage language, Document* document) {
  if (row.components.empty()) return;
  document->Gap();
  const auto stage = [language](const char* name) { return StageTitleOf(name, language); };
  using Component = RowComponent;
  std::vector<AnswerColumn<Component>> columns = {
      {"", Text(SweepWord::kComponents, language), Unit::kText, "",
       [language](const Component& each) { return ComponentTitle(each.name, language); }},
      {"", Text(SweepWord::kAtPeak, language), Unit::kBytesOrDash, "",
       [](const Component& each) { return SumOf(each.at_peak); }}};
  const char* const kOperations[] = {"forward", "backward", "optimizer", "other"};
  for (size_t i = 0; i < std::size(kOperations); ++i) {
    columns.push_back({"", stage(kOperations[i]), Unit::kBytesOrDash, "",
                       [i](const Component& each) { return Operations(each.allocated)[i].bytes; }});
  }
  document->Table("", "", std::move(columns), row.components, {.count = kMaxComponentRows});
  AddCut(row.components.size(), kMaxComponentRows, language, document);
  document->Line(absl::StrCat("  ", stage("forward"), " / ", stage("backward"), " / ", stage("optimizer"), ": ",
                              Word(SweepWord::kAllocatedInAll, language)),
                 Tone::kAside);
}

void AddStages(const SweepRow& row, SweepLanguage language, Document* document) {
  if (row.stages.empty()) return;
  document->Gap();
  document->Table<RowStage>("", "",
                            {{"", Text(SweepWord::kStages, language), Unit::kText, "",
                              [language](const RowStage& stage) { return StageTitleOf(stage.name, language); }},
                             {"", Text(SweepWord::kPeak, language), Unit::kBytesOrDash, "", &RowStage::peak_allocated},
                             {"", Text(SweepWord::kGrowth, language), Unit::kGrowth, "", &RowStage::growth_bytes},
                             {"", Text(SweepWord::kTime, language), Unit::kNumber, "",
                              [](const RowStage& stage) { return SecondsText(stage.seconds); }},
                             {"", Text(SweepWord::kTimes, language), Unit::kCount, "", &RowStage::count}},
                            row.stages, {.count = kMaxStages});
  AddCut(row.stages.size(), kMaxStages, language, document);
}

void AddMadeOf(const SweepAnswer& answer, Document* document) {
  const SweepRow* row = RowToExplain(answer.rows);
  if (row == nullptr) return;
  document->Gap();
  document->Line({{Tone::kHeading, Text(SweepWord::kPartsOf, answer.language)},
                  {Tone::kPlain, absl::StrCat("  #", row->number, "  ", ConfigurationText(row->values))}});
  if (row->state != RowState::kFits)
    document->Line(absl::StrCat("  ", Word(SweepWord::kDoesNotFit, answer.language)), Tone::kWarning);
  AddTypes(*row, answer.language, document);
  AddComponents(*row, answer.language, document);
  AddStages(*row, answer.language, document);
}

}  // namespace

void AddSweep(const SweepAnswer& answer, Document* document) {
  AddHead(answer, document);
  AddRows(answer, document);
  AddBest(answer, document);
  AddScaling(answer, document);
  AddMadeOf(answer, document);
  AddLosses(answer, document);
  AddFiles(answer, document);
  if (!answer.notes.empty()) document->Gap();
  for (const std::string& note : answer.notes)
    document->Paragraph(absl::StrCat("  ", Word(SweepWord::kNotes, answer.language), ": "), Breakable(note),
                        Tone::kAside);
}

}  // namespace gpumem::plan
