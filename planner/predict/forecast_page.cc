// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/format.h"
#include "planner/predict/plan_answer.h"

namespace gpumem::plan {
namespace {

constexpr size_t kMaxReads = 6;

std::string Difference(uint64_t from, uint64_t to) {
  if (to == from) return "no change";
  return to < from ? absl::StrCat("-", FormatBytes(from - to)) : absl::StrCat("+", FormatBytes(to - from));
}

std::string ReadText(const HostRead& read) {
  return absl::StrCat(read.site, read.operation.empty() ? "" : absl::StrCat("  ", read.operation), "  ",
                      FormatCountOf(read.count, "time", "times"));
}

// A sentence, and the lines that it speaks of.
void AddReads(const Forecast& forecast, HostReadKind kind, absl::string_view lead, absl::string_view sentence,
              Document* answer) {
  std::vector<std::string> lines;
  for (const HostRead& read : forecast.reads) {
    if (read.kind == kind) lines.push_back(ReadText(read));
  }
  if (lines.empty()) return;
  answer->Paragraph(lead, sentence);
  for (size_t i = 0; i < std::min(lines.size(), kMaxReads); ++i)
    answer->Line(absl::StrCat("              ", lines[i]), Tone::kAside);
  if (lines.size() > kMaxReads)
    answer->Line(absl::StrCat("              and ", lines.size() - kMaxReads, " more: --json has all"), Tone::kAside);
}

// Operators whose size depends on values, and so is not simulated by counts: all others ask nonzero or unique.
std::vector<std::string> NotCounted(const Forecast& forecast) {
  std::vector<std::string> found;
  for (const HostRead& read : forecast.reads) {
    const std::string& name = read.operation;
    const bool is_counted = absl::StrContains(name, "nonzero") ||
                            (absl::StrContains(name, "unique") && !absl::StrContains(name, "unique_dim"));
    if (read.kind == HostReadKind::kShape && !is_counted && !absl::c_linear_search(found, name)) found.push_back(name);
  }
  return found;
}

std::string PolicyText(const Forecast& forecast) {
  const std::string& policy = forecast.data_dependent;
  std::string text = absl::StrCat("sizes that depend on data values (nonzero, masks, unique): assumed to find ",
                                  policy == "upper"  ? "everything, so the peak is an upper bound"
                                  : policy == "zero" ? "nothing, so the peak is a lower bound"
                                                     : absl::StrCat(policy, " of all elements"),
                                  ".");
  if (forecast.with_zero.has_value())
    absl::StrAppend(&text, " Where they find nothing it is ", FormatBytes(forecast.with_zero->process), ".");
  const std::vector<std::string> others = NotCounted(forecast);
  if (!others.empty())
    absl::StrAppend(&text, " Not so ", absl::StrJoin(others, ", "),
                    ": what it finds is that of zeros, and may be more.");
  return absl::StrCat(text, " --data-dependent expect=0.3 assumes a share.");
}

std::string LibrariesText(const Forecast& forecast) {
  std::string text = "cuBLAS' workspaces are PyTorch's own, so they are in it.";
  if (forecast.processes.empty()) return text;
  absl::StrAppend(&text, WorkspacesText(forecast.workspaces()));
  if (!forecast.with_bounds.has_value()) return text;
  const RunPeaks &now = forecast.peaks(), &most = *forecast.with_bounds;
  return absl::StrCat(text, " Were they as large as docs/workspaces.md bounds them, it would be at most ",
                      FormatBytes(most.allocated), " allocated (", Difference(now.allocated, most.allocated), "), ",
                      FormatBytes(most.process), " in nvidia-smi (", Difference(now.process, most.process),
                      "): --workspaces bound.");
}

std::string ContextText(const Forecast& forecast) {
  const KnownSize context = forecast.processes.empty() ? KnownSize() : forecast.processes.front().reported.context;
  const absl::string_view known = context.known == "measured"  ? "as measured on this GPU"
                                  : context.known == "similar" ? "as measured on a GPU of this capability"
                                  : context.known == "set"     ? "as SIMCUDA_CTX_MB says"
                                                               : "a guess";
  return absl::StrCat(FormatBytes(context.bytes), " for CUDA's context, ", known,
                      "; it is in nvidia-smi's number alone.");
}

std::string StreamsText(const Forecast& forecast) {
  if (forecast.processes.empty() || forecast.processes.front().reported.event_queries == 0)
    return "the program never asked whether a kernel is done, so it does not matter how far they lag behind.";
  if (!forecast.with_late_events.has_value())
    return "kernels count as done at once: where tensors are used on several streams a GPU may keep blocks longer.";
  return absl::StrCat("kernels count as done at once; where they lag behind until somebody waits, PyTorch reserves ",
                      FormatBytes(forecast.with_late_events->reserved), " instead of ",
                      FormatBytes(forecast.peaks().reserved), ", and ",
                      FormatBytes(forecast.with_late_events->allocated), " are allocated.");
}

// "batch_size = 4, seq_len = 512".
std::string ValuesText(const std::vector<std::pair<std::string, int64_t>>& values) {
  return absl::StrJoin(values, ", ", [](std::string* out, const auto& value) {
    absl::StrAppend(out, value.first, " = ", value.second);
  });
}

std::string MarginText(const Forecast& forecast) {
  return forecast.margin == 0 ? "" : absl::StrFormat(" with %.3g %% of the device left free", forecast.margin * 100);
}

// How close the next value is.
std::string NextText(const VariedRun& next, const Forecast& forecast) {
  if (!next.note.empty() || !next.peaks.has_value()) return next.note;
  const uint64_t need = next.peaks->need(), have = forecast.capacity();
  if (need > have) return absl::StrCat("needs ", FormatBytes(need - have), " more than there is");
  const std::string left =
      absl::StrCat("leaves ", FormatBytes(have - need), " (",
                   FormatPercent(static_cast<double>(have - need) / static_cast<double>(have)), ")");
  const auto with_margin = static_cast<uint64_t>(static_cast<double>(need) / (1 - forecast.margin));
  if (with_margin > have) return absl::StrCat(left, ": less than the margin");
  return absl::StrCat(left, ", but the upper end of its range is ",
                      FormatBytes(next.wanted - std::min(next.wanted, have)), " more than there is");
}

Datum ValuesOrNull(const std::vector<std::pair<std::string, int64_t>>& values) {
  std::vector<gpumem::Member> members;
  for (const auto& [name, value] : values) members.push_back({name, value});
  return Datum::If(!values.empty(), Datum::Object(std::move(members), JsonLayout::kOneLine));
}

std::string VerdictOf(const VariedRun& run) {
  return absl::StrCat(!run.note.empty() ? run.note
                      : run.fits        ? "fits"
                                        : "does not fit",
                      run.with_zero ? " where the data find nothing" : "");
}

std::vector<AnswerColumn<VariedRun>> VariedColumns(const Forecast& forecast) {
  using Run = VariedRun;
  std::vector<AnswerColumn<Run>> columns = {
      {"values", "of an axis", [](const Run& run) { return ValuesOrNull(run.values); }},
      {"data_find_nothing", "the run was with data that find nothing", &Run::with_zero},
      {"peak", "", [](const Run& run) { return PeaksDatum(run.peaks); }},
      {"fits", "", &Run::fits},
      {"wanted_bytes", "how large the device must be for that; null = not known",
       [](const Run& run) { return Datum::If(run.wanted != 0, run.wanted); }},
      {"note", "", &Run::note}};
  const size_t axes = forecast.varied.empty() ? 0 : forecast.varied.front().values.size();
  for (size_t i = 0; i < axes; ++i) {
    columns.push_back({"", forecast.varied.front().values[i].first, Unit::kNumber, "",
                       [i](const Run& run) { return run.values[i].second; }});
  }
  for (const auto& [title, member] :
       {std::pair("allocated", &RunPeaks::allocated), std::pair("reserved", &RunPeaks::reserved),
        std::pair("nvidia-smi", &RunPeaks::process)}) {
    const auto text = [member = member](const Run& run) {
      return run.peaks.has_value() ? FormatBytes((*run.peaks).*member) : "-";
    };
    columns.push_back({"", title, Unit::kBytes, "", nullptr, text});
  }
  columns.push_back({"", kNoTitle, Unit::kText, "", VerdictOf});
  return columns;
}

void AddReadFields(const Forecast& forecast, Document* answer) {
  answer->Table<HostRead>("host_reads", "reads of values that are not known: one object each",
                          {{"kind", "", [](const HostRead& read) { return HostReadKindName(read.kind); }},
                           {"operation", "what read it, \"\" = not known", &HostRead::operation},
                           {"site", "the program's line", &HostRead::site},
                           {"count", "of reads, or of devices", &HostRead::count},
                           {"bytes", "of what was read; of the context, its size", &HostRead::bytes}},
                          forecast.reads, {.layout = JsonLayout::kOneLine});
}

void AddWorkspaceFields(const std::vector<WorkspaceUse>& uses, Document* answer) {
  using Use = WorkspaceUse;
  constexpr char kKnown[] = "how many different operations are known how ([workspaces.md](workspaces.md))";
  std::vector<Datum> unknown;
  for (const std::string& library : UnknownLibraries(uses)) unknown.emplace_back(library);
  answer->Field("unknown_workspaces", Datum::List(std::move(unknown), JsonLayout::kOneLine),
                "libraries whose operations count as 0, for nobody measured them");
  answer->Table<Use>(
      "workspaces", "one object a library",
      {{"library", "its name", &Use::library},
       {"set", kKnown, &Use::set},
       {"measured", kKnown, &Use::measured},
       {"similar", kKnown, &Use::similar},
       {"law", kKnown, &Use::lawful},
       {"bounded", kKnown, &Use::bounded},
       {"unknown", kKnown, &Use::unknown},
       {"without_bound", "of the unknown ones", &Use::without_bound},
       {"largest_bytes", "the largest workspace", &Use::largest},
       {"largest_bound_bytes", "the largest bound of those that rules give, or that count as 0", &Use::largest_bound}},
      std::vector<Use>(uses), {.layout = JsonLayout::kOneLine});
}

// What the numbers rest on, for machines.
Document ConfidenceFields(const Forecast& forecast) {
  const ProcessResult reported = forecast.processes.empty() ? ProcessResult() : forecast.processes.front().reported;
  std::vector<gpumem::Member> pinned;
  for (const auto& [text, count] : reported.pinned) pinned.push_back({text, count});
  constexpr char kOthers[] =
      "the most and the least of runs in which values that nobody computed were others; null = not needed";
  Document fields;
  fields.Field("data_dependent", forecast.data_dependent, "the policy");
  fields.Field("peak_where_data_find_nothing", PeaksDatum(forecast.with_zero), "null = not needed");
  fields.Field("peak_with_other_values", PeaksDatum(forecast.with_other_values), kOthers);
  fields.Field("least_peak_with_other_values", PeaksDatum(forecast.least_with_other_values), kOthers);
  fields.Field("peak_where_kernels_lag_behind", PeaksDatum(forecast.with_late_events), "null = not needed");
  AddReadFields(forecast, &fields);
  fields.Field("pinned", Datum::Object(std::move(pinned)), "how often, by pin");
  AddWorkspaceFields(reported.workspaces, &fields);
  fields.Field("peak_where_workspaces_are_bounds", PeaksDatum(forecast.with_bounds), "null = not needed");
  std::vector<Datum> drawn;
  for (const RunPeaks& peaks : forecast.with_drawn_workspaces) drawn.push_back(PeaksDatum(peaks));
  fields.Field("peaks_where_workspaces_are_drawn", Datum::List(std::move(drawn)),
               "of runs in which some that rules give are at one of their ends");
  const KnownSize& context = reported.context;
  fields.Field("context",
               Datum::If(context.bytes != 0,
                         Datum::Object({{"bytes", context.bytes},
                                        {"known", context.known,
                                         "of the context: `set`, `measured`, `similar`, or `nothing` for a guess"}},
                                       JsonLayout::kOneLine)),
               "CUDA's: `bytes`, `known`");
  return fields;
}

}  // namespace

absl::string_view HostReadKindName(HostReadKind kind) {
  switch (kind) {
    case HostReadKind::kShape:
      return "shape";
    case HostReadKind::kBranch:
      return "branch";
    case HostReadKind::kValue:
      return "value";
    case HostReadKind::kCopy:
      return "copy";
  }
  return "";
}

void AddVaried(const Forecast& forecast, Document* answer) {
  if (!forecast.searched) return;
  Document vary;
  vary.Gap();
  const std::string largest = ValuesText(forecast.largest), with_zero = ValuesText(forecast.largest_with_zero);
  vary.Line(
      {{Tone::kHeading, largest.empty() ? "Nothing that was tried fits"
                                        : absl::StrCat("The largest that fits", MarginText(forecast), ": ", largest)},
       {Tone::kPlain, with_zero.empty() ? "" : absl::StrCat(", or ", with_zero, " where the data find nothing")},
       {Tone::kAside, absl::StrCat("  ", FormatCountOf(forecast.varied.size(), "run", "runs"))}});
  const VariedRun* const next = forecast.next_larger();
  if (next != nullptr) vary.Line(absl::StrCat("The next, ", ValuesText(next->values), ", ", NextText(*next, forecast)));
  vary.Field("largest", ValuesOrNull(forecast.largest), "a value for each axis; null = nothing fits");
  vary.Field("largest_where_data_find_nothing", ValuesOrNull(forecast.largest_with_zero),
             "null = nothing fits, or not asked");
  vary.Field("margin", forecast.margin, "share of the device that is left free: 0.05");
  vary.Field("next_larger", next == nullptr ? Datum() : ValuesOrNull(next->values),
             "the values of the run that comes next after the largest; null = none was tried");
  vary.Table("runs", "one object each; of `explain`, how many there were", VariedColumns(forecast), forecast.varied,
             {});
  answer->Object("vary", "with `--vary`", std::move(vary));
}

void AddWhatIfs(const Forecast& forecast, Document* answer) {
  const bool is_shown = !forecast.what_ifs.empty();
  if (is_shown) answer->Heading("What would change it", "nvidia-smi's number of another run, unless it says estimate");
  const uint64_t now = forecast.answered() ? forecast.peaks().process : 0;
  const auto needs = [now](const WhatIf& each) {
    return each.peaks.has_value()   ? FormatBytes(each.peaks->process)
           : each.saves.has_value() ? FormatBytes(now - std::min(now, *each.saves))
                                    : "-";
  };
  const auto change = [now](const WhatIf& each) {
    return each.peaks.has_value()   ? Difference(now, each.peaks->process)
           : each.saves.has_value() ? absl::StrCat("-", FormatBytes(*each.saves))
                                    : "";
  };
  answer->Table<WhatIf>(
      "what_if", "what a change would save: one object each",
      {{"", "needs", Unit::kBytes, "", nullptr, needs},
       {"", "change", Unit::kGrowth, "", nullptr, change},
       {"change", "with", Unit::kText, "what is changed", &WhatIf::name},
       {"peak", "", [](const WhatIf& each) { return PeaksDatum(each.peaks); }},
       {"estimated_saving_bytes", "where it did not run; else null", &WhatIf::saves},
       {"note", kNoTitle, Unit::kText, "why there is no number, or what an estimate rests on", &WhatIf::note}},
      forecast.what_ifs, {.is_shown = is_shown});
}

void AddConfidence(const Forecast& forecast, Document* whole) {
  Document confidence = ConfidenceFields(forecast), *const answer = &confidence;
  answer->Gap();
  answer->Line("How sure this is", Tone::kHeading);
  answer->Paragraph("  exact       ",
                    "PyTorch's allocator and the program's own calls ran for real: blocks and segments of what was run "
                    "are those of a GPU.");
  if (!forecast.processes.empty() && !forecast.processes.front().reported.values_failed.empty()) {
    answer->Paragraph("  values      ",
                      absl::StrCat("values that decide were not computed (",
                                   forecast.processes.front().reported.values_failed, "): they count as 0."),
                      Tone::kWarning);
  }
  AddReads(forecast, HostReadKind::kShape, "  data        ", PolicyText(forecast), answer);
  AddReads(forecast, HostReadKind::kBranch, "  branches    ",
           "the program asked for the truth of tensors whose values were not computed, and may go another way on a "
           "GPU. --pin 'FILE.py:LINE=True' says what it is to find.",
           answer);
  AddReads(forecast, HostReadKind::kValue, "  values      ",
           "single numbers were read that are mostly 0 here: harmless for a loss that is printed, not for a size. "
           "--pin 'FILE.py:LINE=NUMBER' gives one.",
           answer);
  if (!forecast.processes.empty()) {
    for (const auto& [text, count] : forecast.processes.front().reported.pinned)
      answer->Line(absl::StrCat("  pinned      ", text, ", ", FormatCountOf(count, "time", "times")));
  }
  answer->Paragraph("  libraries   ", LibrariesText(forecast));
  answer->Paragraph("  context     ", ContextText(forecast));
  answer->Paragraph("  device      ", absl::StrCat(forecast.device.full_name, ": ", forecast.device.source, "."));
  answer->Paragraph("  streams     ", StreamsText(forecast));
  whole->Object("confidence", "what the numbers rest on", std::move(confidence));
}

void AddTime(const TimeSpent& time, Document* answer) {
  std::string text =
      absl::StrFormat("  %.1f s, of these %.1f s until the program used CUDA", time.total_s, time.before_cuda_s);
  if (time.imports_s.has_value())
    absl::StrAppendFormat(&text, " (interpreter %.1f s, imports %.1f s)", time.interpreter_s.value_or(0),
                          *time.imports_s);
  if (time.first_step_s.has_value())
    absl::StrAppendFormat(&text, ", %.1f s from there to the end of the first step", *time.first_step_s);
  absl::StrAppendFormat(&text, ", %.1f s for the rest of that run, %.1f s to read its trace", time.later_s,
                        time.reading_s);
  if (time.further_runs > 0)
    absl::StrAppendFormat(&text, ", %.1f s for %s", time.further_s,
                          FormatCountOf(static_cast<uint64_t>(time.further_runs), "further run", "further runs"));
  answer->Heading("Where the time went");
  answer->Paragraph("  ", absl::StrCat(text.substr(2), "."));
  constexpr char kOwn[] = "in `before_cuda_s`; null where each run imports for itself";
  answer->Field(
      "time",
      Datum::Object({{"total_s", time.total_s, "of the whole plan"},
                     {"interpreter_s", time.interpreter_s, kOwn},
                     {"imports_s", time.imports_s, kOwn},
                     {"before_cuda_s", time.before_cuda_s, "until the program used CUDA"},
                     {"first_step_s", time.first_step_s,
                      "from there to the end of the first step: the model, the first batch; null = it made none"},
                     {"later_s", time.later_s, "the rest of that run"},
                     {"reading_s", time.reading_s, "of its traces"},
                     {"further_runs", time.further_runs, "what-ifs, other values, tries of `--vary`"},
                     {"further_runs_s", time.further_s, "of all of them"}},
                    JsonLayout::kOneLine),
      "where the plan's seconds went");
}

}  // namespace gpumem::plan
