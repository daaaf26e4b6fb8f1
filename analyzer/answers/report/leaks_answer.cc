// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/report/leak_words.h"
#include "answers/report/owner_words.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "answers/report/trace_answer.h"
#include "base/format.h"
#include "ledger/load/ground.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

constexpr size_t kCurve = 16;  // characters

// "at the end", "when the trace stops", "at 12.3 s": whichever the numbers stand for.
std::string WhenText(const ReportInput& input) {
  if (!GroundOf(*input.analysis).has_history()) return "when the snapshot was taken";
  if (input.asked.to_ns != UINT64_MAX) return absl::StrCat("at ", FormatTime(input.Since(input.window_end_ns())));
  if (input.analysis->program_end_ns != 0) return "when the program's own code ended";
  return input.analysis->complete ? "at the end" : "where the trace stops";
}

void AddAlive(const LiveSet& live, absl::string_view what, const ReportInput& input, const TextOptions& options,
              Document* answer) {
  if (live.stacks.empty()) return;
  answer->Line(absl::StrCat("  ", what, ": ", FormatBytes(live.bytes), " in ",
                            FormatCountOf(live.block_count, "block", "blocks")));
  AddStackRows(live.stacks, {"what is alive", live.bytes}, input, options, answer);
}

// Between two times that were asked for.
void AddGrowth(const LeakReport& leaks, const ReportInput& input, const TextOptions& options, Document* answer) {
  if (leaks.growth.empty()) return;
  uint64_t bytes = 0;
  for (const StackUse& use : leaks.growth) bytes += use.bytes;
  answer->Line(absl::StrCat("  more alive at ", FormatTime(input.Since(leaks.growth_to_ns)), " than at ",
                            FormatTime(input.Since(leaks.growth_from_ns)), ": ", FormatBytes(bytes)));
  AddStackRows(leaks.growth, {"the growth", bytes}, input, options, answer);
}

// At most so many of the row's values, the last of each group, and none below 0.
Datum CurveDatum(const LeakRow& row) {
  std::vector<Datum> values;
  const size_t all = row.bytes.size(), shown = std::min(kCurve, all);
  for (size_t i = 0; i < shown; ++i)
    values.push_back(uint64_t(std::max<int64_t>(row.bytes[(i + 1) * all / shown - 1], 0)));
  return Datum::List(std::move(values));
}

using LeakColumn = AnswerColumn<const LeakRow*>;

// For people alone.
std::vector<LeakColumn> ShownColumns(const LeakFindings& findings) {
  return {
      {"", "per iteration", Unit::kBytes, "", nullptr,
       [](const LeakRow* row) {
         return row->status == LeakStatus::kGrowing ? RateText(row->bytes_per_iteration) : "-";
       }},
      {"", "grown", Unit::kBytes, "", [](const LeakRow* row) { return row->grown_bytes; }},
      {"", "blocks", Unit::kCount, "",
       [](const LeakRow* row) { return Datum::If(row->grown_blocks != 0, row->grown_blocks); }},
      {"", "since", Unit::kText, "", nullptr,
       [&findings](const LeakRow* row) {
         return absl::StrCat(IterationWord(findings, *row), " ", FormatCount(row->since_iteration));
       }},
      {"", "status", Unit::kText, "", [](const LeakRow* row) { return LeakStatusName(row->status); }},
      {"", kNoTitle, Unit::kCurve, "", [](const LeakRow* row) { return CurveDatum(*row); }},
      {"", "allocated by", Unit::kText, "", [](const LeakRow* row) { return LeakSite(*row); }},
  };
}

// Of the owner that has most, as far as one was seen.
LeakColumn OwnerColumn(const char* key, const char* what, Datum (*value)(const SeenOwner&)) {
  return {key, what, [value](const LeakRow* row) {
            const std::optional<SeenOwner> owner = MainOwner(*row);
            return owner ? value(*owner) : Datum();
          }};
}

void AppendOwnerColumns(std::vector<LeakColumn>* columns) {
  constexpr char kCandidate[] =
      "a line that may keep the memory, by its source alone, which proves nothing; null where an owner was seen";
  const auto is_shown = [](const LeakRow* row) { return row->candidate.line != 0 && !MainOwner(*row); };
  columns->push_back(OwnerColumn("owner", "what was seen to keep at least half of it; null: nothing was",
                                 [](const SeenOwner& owner) { return Datum(OwnerText(owner)); }));
  columns->push_back(
      OwnerColumn("owner_root",
                  "where the way to it begins: `global`, `class`, `function` (its closure, its defaults), `variable` "
                  "(of a function that ran), `cycle` (of references), `native` (no object of Python)",
                  [](const SeenOwner& owner) { return Datum(OwnerRootName(owner.root)); }));
  columns->push_back(OwnerColumn("owner_path", "the way: `history[*].grad_fn`",
                                 [](const SeenOwner& owner) { return Datum::TextOrNull(owner.path); }));
  columns->push_back(OwnerColumn("owner_file", "of the module or function",
                                 [](const SeenOwner& owner) { return Datum::TextOrNull(owner.file); }));
  columns->push_back(OwnerColumn("owner_bytes", "of the blocks of this line that it had",
                                 [](const SeenOwner& owner) { return Datum(owner.bytes); }));
  columns->push_back({"kept_by", "the same in words, or why it was not seen; null for what is not looked for",
                      [](const LeakRow* row) { return Datum::TextOrNull(KeptByText(*row)); }});
  columns->push_back({"candidate_file", kCandidate,
                      [is_shown](const LeakRow* row) { return Datum::If(is_shown(row), row->candidate.file); }});
  columns->push_back({"candidate_line", kCandidate,
                      [is_shown](const LeakRow* row) { return Datum::If(is_shown(row), row->candidate.line); }});
  columns->push_back({"candidate_code", "the text of that line",
                      [is_shown](const LeakRow* row) { return Datum::If(is_shown(row), row->code); }});
}

std::vector<LeakColumn> ListedColumns(const LeakFindings& findings, const ReportInput& input) {
  constexpr char kGrown[] = "growth after warm-up, all in all", kBegan[] = "when it began; iterations count from 1";
  constexpr char kAllocates[] = "the line that allocates; of a graph, most of it";
  std::vector<LeakColumn> columns = {
      {"status",
       "`growing`, `stopped` (it rose and settled), `freed` (the program let go of it and went on), `once` (one or "
       "two "
       "rises), `expected` (parameters, gradients, "
       "optimizer state, workspaces, CUDA graphs of a list of sizes)",
       [](const LeakRow* row) { return LeakStatusName(row->status); }},
      {"kind", "", [](const LeakRow* row) { return LeakKindName(row->kind); }},
      {"bytes_per_iteration", "growth a step or iteration, since it began",
       [](const LeakRow* row) { return row->bytes_per_iteration; }},
      {"grown_bytes", kGrown, [](const LeakRow* row) { return row->grown_bytes; }},
      {"grown_blocks", kGrown, [](const LeakRow* row) { return row->grown_blocks; }},
      {"loop", "index in `leak_loops`", [](const LeakRow* row) { return row->loop; }},
      {"since_iteration", kBegan, [](const LeakRow* row) { return row->since_iteration; }},
      {"since_ns", kBegan, [&input](const LeakRow* row) { return input.Since(row->since_ns); }},
      {"growths", "iterations in which it grew (of more than 2,048, groups of them)",
       [](const LeakRow* row) { return row->growths; }},
      {"confidence", "probability that values in random order would rise less: one-sided Mann-Kendall test",
       [](const LeakRow* row) { return row->confidence; }},
      {"replaced", "true for memory that is made anew in each step, larger each time: none of its blocks stays",
       [](const LeakRow* row) { return row->is_replaced; }},
      {"file", kAllocates, [](const LeakRow* row) { return Datum::TextOrNull(row->place.file); }},
      {"line", kAllocates, [](const LeakRow* row) { return Datum::If(!row->place.file.empty(), row->place.line); }},
      {"remark", "what it means, who was seen to keep it, and what to do",
       [&findings](const LeakRow* row) { return Datum::TextOrNull(LeakRemark(*row, findings)); }},
      {"stack_count", "stacks of the line; `frames` and `site` are of the largest",
       [](const LeakRow* row) { return row->stacks.size(); }},
  };
  AppendOwnerColumns(&columns);
  AppendStackColumns<const LeakRow*>([](const LeakRow* row) { return StackKey{row->stack, ""}; }, input, &columns);
  return columns;
}

// Rows that grow, or grew, with what each needs said of it below the table.
void AddRows(const LeakDevice& device, const LeakFindings& findings, const TextOptions& options, Document* answer) {
  std::vector<const LeakRow*> rows;
  std::vector<std::string> remarks;
  uint64_t expected = 0, expected_bytes = 0;
  for (const LeakRow& row : device.rows) {
    if (row.status == LeakStatus::kExpected) {
      ++expected;
      expected_bytes += row.grown_bytes;
      continue;
    }
    rows.push_back(&row);
    const bool is_shown = options.top == 0 || rows.size() <= options.top;
    if (std::string remark = LeakRemark(row, findings);
        is_shown && row.status == LeakStatus::kGrowing && !remark.empty())
      remarks.push_back(std::move(remark));
  }
  const size_t shown = Shown(rows.size(), options.top);
  if (shown > 0) answer->Table("", "", ShownColumns(findings), std::move(rows), {.count = shown, .counts_rest = true});
  for (const std::string& remark : remarks) answer->Paragraph("  - ", remark);
  if (expected > 0) {
    answer->Line(absl::StrCat("  Expected growth: ", FormatBytes(expected_bytes), " in ",
                              FormatCountOf(expected, "line", "lines"),
                              " (parameters, gradients, optimizer state, workspaces, CUDA graphs of a list of sizes)"),
                 Tone::kAside);
  }
  if (device.suppressed > 0)
    answer->Line(absl::StrCat("  Suppressed: ", FormatCountOf(device.suppressed, "line", "lines")), Tone::kAside);
}

Document AliveFields(const LeakReport& leaks, size_t top, const ReportInput& input) {
  constexpr char kSets[] = "live sets: PyTorch's blocks; CUDA memory that holds no PyTorch block";
  constexpr char kBetween[] = "the two times";
  Document alive;
  alive.Field("bytes", leaks.at_end_torch.bytes + leaks.at_end_cuda.bytes, "");
  alive.Object("torch", kSets, LiveSetFields(leaks.at_end_torch, top, input));
  alive.Object("cuda", kSets, LiveSetFields(leaks.at_end_cuda, top, input));
  alive.Field("freed_by_teardown", leaks.freed_by_teardown, "bytes of it that were freed after `program_end_ns`");
  alive.Field("unknown_frees", leaks.unknown_frees, "frees of addresses that the trace never saw allocated");
  alive.Field("refused_frees", leaks.refused_frees,
              "frees that CUDA refused; of an address on no known device at the first GPU");
  alive.Field("refused_unknown_frees", leaks.refused_unknown_frees,
              "of them: of memory that was freed before (a double free), or never allocated");
  if (leaks.growth_to_ns == 0) return alive;
  alive.Field("growth_from_ns", input.Since(leaks.growth_from_ns), kBetween);
  alive.Field("growth_to_ns", input.Since(leaks.growth_to_ns), kBetween);
  AddStacks("growth", leaks.growth, top, input, &alive, nullptr,
            "where `--from` or `--to` was given: stacks with more alive at `growth_to_ns` than at `growth_from_ns`");
  return alive;
}

}  // namespace

namespace {

void AddRefusedFrees(const LeakReport& leaks, Document* answer) {
  if (leaks.refused_unknown_frees > 0) {
    answer->Line(absl::StrCat("  ", FormatCountOf(leaks.refused_unknown_frees, "free", "frees"),
                              " of memory that was freed before (a double free), or never allocated: CUDA refused"),
                 Tone::kWarning);
  }
  if (const uint64_t others = leaks.refused_frees - leaks.refused_unknown_frees; others > 0) {
    answer->Line(
        absl::StrCat("  ", FormatCountOf(others, "free", "frees"), " of memory that stays allocated: CUDA refused"),
        Tone::kWarning);
  }
}

}  // namespace

void AddLeaks(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options, Document* answer) {
  const LeakReport& leaks = device.leaks;
  answer->Gap();
  if (input.leaks != nullptr) {
    const LeakDevice* const found = LeaksOf(*input.leaks, device.device);
    const bool grows = found != nullptr && !found->rows.empty() && found->rows[0].status == LeakStatus::kGrowing;
    answer->Line({{grows ? Tone::kAlarm : Tone::kHeading,
                   absl::StrCat(DeviceLabel(device.device), ": ", LeakHeadline(*input.leaks, device.device))}});
    for (const LeakLoop& loop : input.leaks->loops)
      answer->Line(absl::StrCat("  ", LoopText(loop, input)), Tone::kAside);
    if (found != nullptr) AddRows(*found, *input.leaks, options, answer);
    answer->Gap();
  }
  const uint64_t alive = leaks.at_end_torch.bytes + leaks.at_end_cuda.bytes;
  const bool has_history = GroundOf(*input.analysis).has_history();
  answer->Line({{Tone::kHeading, absl::StrCat(has_history ? "Not freed on " : "Held on ", DeviceLabel(device.device),
                                              " ", WhenText(input), ": ", FormatBytes(alive))}});
  TextOptions list = options;
  if (options.detail == Detail::kBrief) {
    list.top = std::min<size_t>(options.top, 3);
    list.below = options.full_stacks;
  }
  AddAlive(leaks.at_end_torch, "PyTorch blocks", input, list, answer);
  AddAlive(leaks.at_end_cuda, "other CUDA memory", input, list, answer);
  if (leaks.freed_by_teardown > 0)
    answer->Line(absl::StrCat("  freed by the teardown that followed: ", FormatBytes(leaks.freed_by_teardown)));
  AddGrowth(leaks, input, list, answer);
  if (leaks.unknown_frees > 0) {
    answer->Line(absl::StrCat("  ", FormatCountOf(leaks.unknown_frees, "free", "frees"),
                              " of addresses that this trace never saw allocated"));
  }
  AddRefusedFrees(leaks, answer);
}

void AddLeakLoops(const ReportInput& input, Document* answer) {
  if (input.leaks == nullptr) return;
  constexpr char kSeen[] = "how many of them were seen, from `from_ns` to `to_ns`";
  answer->Table<LeakLoop>(
      "leak_loops", "what repeats, in the order of the run; empty: growth is not judged",
      {{"kind",
        "of a loop: `steps` (training steps) or `iterations` of the line `site`; of a line: `memory`, `graph` "
        "(autograd's graphs are kept), `outside_pytorch`, `allocator` (reserved memory grows, allocated memory does "
        "not), `host` (pinned), `managed`, `driver` (contexts and loaded modules)",
        [](const LeakLoop& loop) { return loop.are_steps ? "steps" : "iterations"; }},
       {"site", "", [](const LeakLoop& loop) { return Datum::If(!loop.are_steps, loop.place.site); }},
       {"iterations", kSeen, [](const LeakLoop& loop) { return loop.iterations; }},
       {"from_ns", "", [&input](const LeakLoop& loop) { return input.Since(loop.from_ns); }},
       {"to_ns", "", [&input](const LeakLoop& loop) { return input.Since(loop.to_ns); }}},
      input.leaks->loops, {});
}

namespace {

Document GrowthFields(const LeakDevice* found, size_t top, const ReportInput& input) {
  Document fields;
  if (found == nullptr) return fields;
  fields.Field("leaks_headline", LeakHeadline(*input.leaks, found->device), "of a device: one sentence");
  fields.Field("leaks_sure", !input.leaks->misses_events,
               "false where events are missing: lost frees look like growth, lost allocations hide it");
  std::vector<const LeakRow*> rows;
  for (const LeakRow& row : found->rows) rows.push_back(&row);
  Document::Rows first;
  first.count = Shown(rows.size(), top);
  fields.Table("leaks", "of a device: a line of code each; growing ones first, then by `grown_bytes`",
               ListedColumns(*input.leaks, input), std::move(rows), first);
  fields.Field("suppressed", found->suppressed, "of a device: lines that `--suppressions` hides");
  return fields;
}

// Pinned and managed memory: nothing is said where nothing of it grows.
void AddHostLeaks(const ReportInput& input, const TextOptions& options, Document* answer) {
  const LeakDevice* const host = input.leaks == nullptr ? nullptr : LeaksOf(*input.leaks, kHostDevice);
  if (host == nullptr || GrowingBytes(input.leaks, kHostDevice) == 0) return;
  answer->Gap();
  answer->Line({{Tone::kAlarm, absl::StrCat("Of no device, ", PartThatGrows(*input.leaks, kHostDevice, input), ": ",
                                            LeakHeadline(*input.leaks, kHostDevice))}});
  AddRows(*host, *input.leaks, options, answer);
}

}  // namespace

Document LeakFields(const DeviceAnalysis& device, size_t top, const ReportInput& input) {
  Document fields;
  fields.Object("alive", "of a device: object, what is alive at the end (or at `--to`), below",
                AliveFields(device.leaks, top, input));
  fields.Append(GrowthFields(input.leaks == nullptr ? nullptr : LeaksOf(*input.leaks, device.device), top, input));
  return fields;
}

Document LeaksAnswer(const ReportInput& input, const TextOptions& options, size_t top) {
  Document answer = TraceAnswer("leaks", input);
  answer.Field("host_pinned", HostPinnedDatum(*input.analysis), "");
  AddLeakLoops(input, &answer);
  answer.Object("host", "pinned and managed memory that grows: `leaks` as a device has them; empty where there is none",
                GrowthFields(input.leaks == nullptr ? nullptr : LeaksOf(*input.leaks, kHostDevice), top, input));
  AddDevices(
      input, [&](const DeviceAnalysis& device, Document* object) { object->Append(LeakFields(device, top, input)); },
      &answer);
  AddHostLeaks(input, options, &answer);
  for (const DeviceAnalysis& device : input.analysis->devices) AddLeaks(device, input, options, &answer);
  return answer;
}

}  // namespace gpumem
