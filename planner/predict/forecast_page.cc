// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/forecast_page.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/format.h"

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
              Page* page) {
  std::vector<std::string> lines;
  for (const HostRead& read : forecast.reads) {
    if (read.kind == kind) lines.push_back(ReadText(read));
  }
  if (lines.empty()) return;
  page->Paragraph(lead, sentence);
  for (size_t i = 0; i < std::min(lines.size(), kMaxReads); ++i)
    page->Line(absl::StrCat("              ", lines[i]), Tone::kAside);
  if (lines.size() > kMaxReads)
    page->Line(absl::StrCat("              and ", lines.size() - kMaxReads, " more: --json has all"), Tone::kAside);
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

}  // namespace

void AddVaried(const Forecast& forecast, Page* page) {
  if (!forecast.searched) return;
  page->Gap();
  const std::string largest = ValuesText(forecast.largest), with_zero = ValuesText(forecast.largest_with_zero);
  page->Line(
      {{Tone::kHeading, largest.empty() ? "Nothing that was tried fits"
                                        : absl::StrCat("The largest that fits", MarginText(forecast), ": ", largest)},
       {Tone::kPlain, with_zero.empty() ? "" : absl::StrCat(", or ", with_zero, " where the data find nothing")},
       {Tone::kAside, absl::StrCat("  ", FormatCountOf(forecast.varied.size(), "run", "runs"))}});
  if (const VariedRun* const next = forecast.next_larger())
    page->Line(absl::StrCat("The next, ", ValuesText(next->values), ", ", NextText(*next, forecast)));
  Page::Row heading;
  std::vector<Align> columns;
  if (!forecast.varied.empty()) {
    for (const auto& [name, value] : forecast.varied.front().values) heading.push_back(name);
  }
  columns.assign(heading.size() + 3, Align::kRight);
  columns.push_back(Align::kLeft);
  for (const char* title : {"allocated", "reserved", "nvidia-smi", ""}) heading.push_back(title);
  std::vector<Page::Row> rows{heading};
  for (const VariedRun& run : forecast.varied) {
    Page::Row row;
    for (const auto& [name, value] : run.values) row.push_back(absl::StrCat(value));
    for (const uint64_t RunPeaks::*member : {&RunPeaks::allocated, &RunPeaks::reserved, &RunPeaks::process})
      row.push_back(run.peaks.has_value() ? FormatBytes((*run.peaks).*member) : "-");
    const char* policy = run.with_zero ? " where the data find nothing" : "";
    row.push_back(absl::StrCat(!run.note.empty() ? run.note : run.fits ? "fits" : "does not fit", policy));
    rows.push_back(row);
  }
  page->Table(columns, rows);
}

void AddWhatIfs(const Forecast& forecast, Page* page) {
  if (forecast.what_ifs.empty()) return;
  page->Gap();
  page->Line({{Tone::kHeading, "What would change it"},
              {Tone::kAside, "  nvidia-smi's number of another run, unless it says estimate"}});
  std::vector<Page::Row> rows{{"needs", "change", "with", ""}};
  const uint64_t now = forecast.peaks().process;
  for (const WhatIf& each : forecast.what_ifs) {
    const std::string need = each.peaks.has_value()   ? FormatBytes(each.peaks->process)
                             : each.saves.has_value() ? FormatBytes(now - std::min(now, *each.saves))
                                                      : "-";
    const std::string change = each.peaks.has_value()   ? Difference(now, each.peaks->process)
                               : each.saves.has_value() ? absl::StrCat("-", FormatBytes(*each.saves))
                                                        : "";
    rows.push_back({need, change, each.name, each.note});
  }
  page->Table({Align::kRight, Align::kRight, Align::kLeft, Align::kLeft}, rows);
}

void AddConfidence(const Forecast& forecast, Page* page) {
  page->Gap();
  page->Line("How sure this is", Tone::kHeading);
  page->Paragraph("  exact       ",
                  "PyTorch's allocator and the program's own calls ran for real: blocks and segments of what was run "
                  "are those of a GPU.");
  if (!forecast.processes.empty() && !forecast.processes.front().reported.values_failed.empty()) {
    page->Paragraph("  values      ",
                    absl::StrCat("values that decide were not computed (",
                                 forecast.processes.front().reported.values_failed, "): they count as 0."),
                    Tone::kWarning);
  }
  AddReads(forecast, HostReadKind::kShape, "  data        ", PolicyText(forecast), page);
  AddReads(forecast, HostReadKind::kBranch, "  branches    ",
           "the program asked for the truth of tensors whose values were not computed, and may go another way on a "
           "GPU. --pin 'FILE.py:LINE=True' says what it is to find.",
           page);
  AddReads(forecast, HostReadKind::kValue, "  values      ",
           "single numbers were read that are mostly 0 here: harmless for a loss that is printed, not for a size. "
           "--pin 'FILE.py:LINE=NUMBER' gives one.",
           page);
  if (!forecast.processes.empty()) {
    for (const auto& [text, count] : forecast.processes.front().reported.pinned)
      page->Line(absl::StrCat("  pinned      ", text, ", ", FormatCountOf(count, "time", "times")));
  }
  page->Paragraph("  libraries   ", LibrariesText(forecast));
  page->Paragraph("  context     ", ContextText(forecast));
  page->Paragraph("  device      ", absl::StrCat(forecast.device.full_name, ": ", forecast.device.source, "."));
  page->Paragraph("  streams     ", StreamsText(forecast));
}

void AddTime(const TimeSpent& time, Page* page) {
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
  page->Gap();
  page->Line("Where the time went", Tone::kHeading);
  page->Paragraph("  ", absl::StrCat(text.substr(2), "."));
}

}  // namespace gpumem::plan
