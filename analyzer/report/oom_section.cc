// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "report/names.h"
#include "report/sections.h"
#include "report/stack_rows.h"

namespace gpumem {
namespace {

constexpr uint8_t kTorchLayer = 3;
constexpr size_t kMostOthersNamed = 5;
// A CUDA context with its kernels takes a few hundred MiB; what is missing beyond this somebody else holds.
constexpr uint64_t kContextAtMost = uint64_t{2} << 30;

// The one to explain: the last that was final, since that is the one a job dies of.
const OomEvent* Explained(const std::vector<OomEvent>& ooms) {
  const OomEvent* found = nullptr;
  for (const OomEvent& oom : ooms) {
    if (oom.final || found == nullptr) found = &oom;
  }
  return found;
}

std::string WhoAsked(const OomEvent& oom) {
  if (oom.layer == kTorchLayer) return "PyTorch";
  return oom.api.empty() ? absl::StrCat("a ", LayerName(oom.layer), " call") : oom.api;
}

std::string Happened(const OomEvent& oom, const ReportInput& input) {
  std::string text = absl::StrCat("  ", DeviceLabel(oom.device), " at ", FormatTime(input.Since(oom.time_ns)), ": ",
                                  WhoAsked(oom), " asked for ", FormatBytes(oom.requested));
  if (oom.result != 0 && oom.result != 2) absl::StrAppend(&text, ", ", ResultName(oom.result));
  if (oom.retries > 0)
    absl::StrAppend(&text, " (after ", FormatCountOf(oom.retries, "failed CUDA call", "failed CUDA calls"), ")");
  return text;
}

std::string StateOf(const OomEvent& oom) {
  const uint64_t cached = oom.values.reserved > oom.values.allocated ? oom.values.reserved - oom.values.allocated : 0;
  std::string text;
  if (oom.device_total != 0) absl::StrAppend(&text, "of ", FormatBytes(oom.device_total), ": ");
  absl::StrAppend(&text, FormatBytes(oom.values.allocated), " in PyTorch's blocks, ", FormatBytes(cached),
                  " cached by PyTorch, ", FormatBytes(oom.values.other), " other CUDA memory of this process");
  if (oom.device_total > oom.values.total) {
    absl::StrAppend(&text, ", ", FormatBytes(oom.device_total - oom.values.total),
                    " free or not ours (CUDA context, other processes)");
  }
  return text;
}

std::string FitText(const OomEvent& oom) {
  const bool is_bounded_by_refusal = oom.would_have_fit + 1 == oom.requested;
  std::string text = is_bounded_by_refusal ? absl::StrCat("less than ", FormatBytes(oom.requested))
                                           : absl::StrCat("at most ", FormatBytes(oom.would_have_fit));
  if (oom.fragmentation.free > 0) {
    absl::StrAppend(&text, "; PyTorch's largest free range was ", FormatBytes(oom.fragmentation.largest_free_range),
                    " of ", FormatBytes(oom.fragmentation.free), " free in ",
                    FormatCountOf(oom.fragmentation.free_ranges, "range", "ranges"));
  }
  return text;
}

// One sentence of judgement, only where the numbers carry it.
std::string Verdict(const OomEvent& oom) {
  const FragmentationPoint& pieces = oom.fragmentation;
  if (!oom.final)
    return "Served later: PyTorch gave cached memory back and asked again. That is slow when it happens often.";
  if (oom.device_total != 0 && oom.requested > oom.device_total) return "The request alone is larger than the device.";
  if (pieces.free >= oom.requested && pieces.largest_free_range < oom.requested) {
    return "Fragmentation: enough was free inside PyTorch's segments, but not in one piece. Try "
           "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.";
  }
  if (oom.device_total != 0 && oom.values.total + oom.requested + kContextAtMost <= oom.device_total) {
    return "This process alone does not fill the device: other processes (see nvidia-smi) or a limit of the program's "
           "own stood in the way.";
  }
  if (oom.device_total != 0 && oom.values.total + oom.requested <= oom.device_total) {
    return absl::StrCat("The device was full: what this trace cannot see of it, at least ",
                        FormatBytes(oom.device_total - oom.values.total - oom.requested),
                        ", is the CUDA context, its kernels, and what other processes hold (nvidia-smi).");
  }
  if (oom.device_total != 0 && oom.values.other > oom.values.reserved) {
    return "Most of the memory is not PyTorch's: see gpumem peak --measure total.";
  }
  const uint64_t missing = oom.requested > oom.would_have_fit ? oom.requested - oom.would_have_fit : 0;
  if (missing == 0) return "";
  return absl::StrCat("The device was full of live memory: ", FormatBytes(missing),
                      " less somewhere below would have let this request through.");
}

void AddOthers(const std::vector<OomEvent>& ooms, const OomEvent* explained, const ReportInput& input, Page* page) {
  if (ooms.size() < 2) return;
  size_t served = 0, named = 0;
  for (const OomEvent& oom : ooms) served += !oom.final && &oom != explained ? 1 : 0;
  for (const OomEvent& oom : ooms) {
    if (&oom == explained || !oom.final || named++ >= kMostOthersNamed) continue;
    page->Line({{Tone::kPlain, absl::StrCat("  also  ", Happened(oom, input))}});
  }
  if (named > kMostOthersNamed)
    page->Line(absl::StrCat("  and ", FormatCount(named - kMostOthersNamed), " more (gpumem report --json has all)"));
  if (served > 0) {
    page->Line(absl::StrCat("  ", FormatCountOf(served, "other request", "other requests"),
                            " failed at first, and succeeded after a retry"));
  }
}

}  // namespace

void AddOoms(const ReportInput& input, const TextOptions& options, Page* page) {
  const std::vector<OomEvent>& ooms = input.analysis->ooms;
  const OomEvent* oom = Explained(ooms);
  if (oom == nullptr) return;
  page->Gap();
  page->Line({{oom->final ? Tone::kAlarm : Tone::kWarning,
               oom->final ? "OUT OF MEMORY" : "Out of memory at first, then served"},
              {Tone::kHeading, Happened(*oom, input)}});
  AddOneStack("  asked by  ", oom->stack_id, oom->api, input, options, page);
  page->Paragraph("  the GPU   ", StateOf(*oom));
  page->Paragraph("  would fit ", FitText(*oom));
  const std::string verdict = Verdict(*oom);
  if (!verdict.empty()) page->Paragraph("  so        ", verdict, Tone::kWarning);
  if (!oom->live.stacks.empty()) {
    page->Line(absl::StrCat("  Who filled it (", FormatBytes(oom->live.bytes), " ", MeasureName(oom->live.measure),
                            " in ", FormatCountOf(oom->live.block_count, "block", "blocks"), "):"));
    AddStackRows(oom->live.stacks, {"live", oom->live.bytes}, input, options, page);
  }
  AddOthers(ooms, oom, input, page);
}

}  // namespace gpumem
