// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/oom/oom_lines.h"

#include "absl/strings/str_cat.h"
#include "answers/oom/oom_story.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "base/format.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

constexpr size_t kMaxGroupsNamed = 5;
// In the one-screen report fewer are not worth a line of their own: PyTorch does it now and then in any full program.
constexpr uint64_t kRetriesWorthALine = 10;
constexpr uint64_t kPercentOfTime = 5;

std::string Happened(const OomEvent& oom, const ReportInput& input) {
  std::string text = absl::StrCat("  ", DeviceLabel(oom.device), " at ", FormatTime(input.Since(oom.time_ns)), ": ",
                                  WhoAsked(oom), " asked for ", FormatBytes(oom.requested));
  if (oom.result != 0 && oom.result != 2) absl::StrAppend(&text, ", ", ResultName(oom.result));
  if (oom.retries > 0)
    absl::StrAppend(&text, " (after ", FormatCountOf(oom.retries, "failed CUDA call", "failed CUDA calls"), ")");
  return text;
}

std::string GroupText(const OomGroup& group, const ReportInput& input) {
  if (group.count == 1) {
    return absl::StrCat("  ", DeviceLabel(group.device), " at ", FormatTime(input.Since(group.first_ns)), ": ",
                        group.who, " asked for ", FormatBytes(group.largest), ", ", group.site);
  }
  const std::string sizes = group.smallest == group.largest
                                ? FormatBytes(group.largest)
                                : absl::StrCat(FormatBytes(group.smallest), " to ", FormatBytes(group.largest));
  return absl::StrCat("  ", DeviceLabel(group.device), ": ", FormatCount(group.count), " requests for ", sizes, ", ",
                      FormatTime(input.Since(group.first_ns)), " to ", FormatTime(input.Since(group.last_ns)), ", ",
                      group.site);
}

bool IsWorthALine(const ServedRetries& retries, const ReportInput& input) {
  const uint64_t lasted = input.Since(input.analysis->end_ns);
  return retries.count >= kRetriesWorthALine || (lasted > 0 && retries.time_ns / kPercentOfTime >= lasted / 100);
}

std::string StateOf(const OomEvent& oom) {
  std::string text;
  if (oom.device_total != 0) absl::StrAppend(&text, "of ", FormatBytes(oom.device_total), ": ");
  absl::StrAppend(&text, FormatBytes(oom.values.allocated), " in PyTorch's blocks, ",
                  FormatBytes(IdleBytes(oom.values)), " cached by PyTorch, ", FormatBytes(oom.values.other),
                  " other CUDA memory of this process");
  if (const std::optional<uint64_t> unseen = UnseenBytes(oom)) {
    absl::StrAppend(&text, ", ", FormatBytes(*unseen), " not ours (CUDA context, other processes), ",
                    FormatBytes(oom.device_free), " free");
  } else if (oom.device_total > oom.values.total) {
    absl::StrAppend(&text, ", ", FormatBytes(oom.device_total - oom.values.total),
                    " free or not ours (CUDA context, other processes)");
  }
  return text;
}

std::string FitText(const OomEvent& oom) {
  std::string text = IsBoundedByRefusal(oom) ? absl::StrCat("less than ", FormatBytes(oom.requested))
                                             : absl::StrCat("at most ", FormatBytes(oom.would_have_fit));
  if (oom.fragmentation.free > 0) {
    absl::StrAppend(&text, "; PyTorch's largest free range was ", FormatBytes(oom.fragmentation.largest_free_range),
                    " of ", FormatBytes(oom.fragmentation.free), " free in ",
                    FormatCountOf(oom.fragmentation.free_ranges, "range", "ranges"));
  }
  return text;
}

}  // namespace

void AddOomHeading(const OomEvent& oom, const ReportInput& input, Document* answer) {
  answer->Line(
      {{oom.final ? Tone::kAlarm : Tone::kWarning, oom.final ? "OUT OF MEMORY" : "Out of memory at first, then served"},
       {Tone::kHeading, Happened(oom, input)}});
}

void AddOtherOoms(const OomEvent* explained, const ReportInput& input, Document* answer) {
  const std::vector<OomEvent>& ooms = input.analysis->ooms;
  size_t left_out = 0;
  const std::vector<OomGroup> groups = GroupOoms(ooms, explained, input);
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i < kMaxGroupsNamed) {
      answer->Line({{Tone::kPlain, absl::StrCat("  also  ", GroupText(groups[i], input))}});
    } else {
      left_out += groups[i].count;
    }
  }
  if (left_out > 0)
    answer->Line(absl::StrCat("  and ", FormatCount(left_out), " more (gpumemshim oom --json has all)"));
  uint64_t served = 0;
  for (const ServedRetries& retries : input.analysis->retries) served += retries.count;
  if (explained != nullptr && !explained->final && served > 0) --served;
  if (served > 0) {
    answer->Line(absl::StrCat("  ", FormatCountOf(served, "other request", "other requests"),
                              " failed at first, and succeeded after a retry"));
  }
}

void AddServedRetries(const ReportInput& input, Detail detail, Document* answer) {
  for (const ServedRetries& retries : input.analysis->retries) {
    if (detail == Detail::kBrief && !IsWorthALine(retries, input)) continue;
    const uint64_t lasted = input.Since(input.analysis->end_ns);
    const double share = lasted == 0 ? 0 : static_cast<double>(retries.time_ns) / static_cast<double>(lasted);
    answer->Paragraph(
        "  retries   ",
        absl::StrCat(DeviceLabel(retries.device), ": ", FormatCountOf(retries.count, "request was", "requests were"),
                     " served only after ", FormatBytes(retries.released), " had been given back to CUDA by ",
                     FormatCountOf(retries.released_calls, "call", "calls"), " between ",
                     FormatTime(input.Since(retries.first_ns)), " and ", FormatTime(input.Since(retries.last_ns)),
                     ". That took ", FormatTime(retries.time_ns), " (", FormatPercent(share),
                     " of the time), and each waits for the device."),
        Tone::kWarning);
    if (detail == Detail::kBrief) continue;
    TextOptions options;
    options.detail = Detail::kFull;
    AddStackRows(retries.stacks, {"", 0, "times", "asked by"}, input, options, answer);
  }
}

void AddOoms(const ReportInput& input, const TextOptions& options, Document* answer) {
  const std::vector<OomEvent>& ooms = input.analysis->ooms;
  const OomEvent* oom = OomToExplain(ooms);
  if (oom == nullptr) return;
  answer->Gap();
  AddOomHeading(*oom, input, answer);
  AddOneStack("  asked by  ", oom->stack_id, oom->api, input, options, answer);
  if (oom->device >= 0) {
    answer->Paragraph("  the GPU   ", StateOf(*oom));
    answer->Paragraph("  would fit ", FitText(*oom));
  }
  const std::string cause = CauseOfOom(*oom, input);
  if (!cause.empty()) answer->Paragraph("  so        ", cause, Tone::kWarning);
  if (!oom->live.stacks.empty()) {
    answer->Line(absl::StrCat("  Who filled it (", FormatBytes(oom->live.bytes), " ", MeasureName(oom->live.measure),
                              " in ", FormatCountOf(oom->live.block_count, "block", "blocks"), "):"));
    AddStackRows(oom->live.stacks, {"live", oom->live.bytes}, input, options, answer);
  }
  AddOtherOoms(oom, input, answer);
  AddServedRetries(input, Detail::kBrief, answer);
}

}  // namespace gpumem
