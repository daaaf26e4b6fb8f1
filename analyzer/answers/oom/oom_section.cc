// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Failed requests in the one-screen report: the last one that was final explained, the others named, and what requests
// cost that were served only after memory was given back.

#include "absl/strings/str_cat.h"
#include "answers/oom/oom_lines.h"
#include "answers/oom/oom_story.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "base/format.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

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
  const std::string cause = CauseOfOom(*oom);
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
