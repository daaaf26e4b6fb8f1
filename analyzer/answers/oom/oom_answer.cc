// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim oom` answers: for people the whole explanation of the last request that failed for good.

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "answers/oom/oom_lines.h"
#include "answers/oom/oom_story.h"
#include "answers/parts/pin_lines.h"
#include "answers/report/owner_words.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "answers/report/trace_answer.h"
#include "base/format.h"
#include "ledger/load/ground.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

constexpr size_t kMaxOwners = 5;
constexpr uint8_t kAllocatorLayer = 3;

std::string ShareOf(uint64_t bytes, uint64_t total) {
  return total == 0 ? "" : FormatPercent(static_cast<double>(bytes) / static_cast<double>(total));
}

// The sample of the device that was taken right behind the failed request; null where there is none of that time.
const DeviceReading* ReadingBehind(const OomEvent& oom, const ReportInput& input) {
  constexpr uint64_t kSoonAfterNs = 1'000'000'000;
  for (const DeviceAnalysis& device : input.analysis->devices) {
    if (device.device != oom.device) continue;
    for (const DeviceReading& reading : device.use.readings)
      if (reading.time_ns >= oom.time_ns && reading.time_ns - oom.time_ns <= kSoonAfterNs) return &reading;
  }
  return nullptr;
}

// What the trace did not count, by who has it: other processes by name, kernels' local memory, and the rest.
void AddUnseen(const OomEvent& oom, const ReportInput& input, uint64_t unseen,
               const std::function<void(uint64_t, std::string)>& row) {
  const DeviceReading* const reading = ReadingBehind(oom, input);
  uint64_t left = unseen;
  const auto take = [&](uint64_t bytes, std::string what) {
    if (bytes == 0 || bytes > left) return;
    left -= bytes;
    row(bytes, std::move(what));
  };
  if (reading != nullptr) {
    take(reading->driver.local, "local memory of this process's kernels");
    for (const OtherProcess& other : reading->others) {
      if (other.bytes == kNotStated) continue;
      take(other.bytes, absl::StrCat(other.name.empty() ? "another process" : other.name, " (pid ", other.pid, ")"));
    }
  }
  const bool knows_others = reading != nullptr && reading->other_count == reading->others.size();
  row(left, absl::StrCat("not seen here: CUDA context, kernels, rounding", knows_others ? "" : ", other processes"));
}

// Where the device's memory was, line by line; the lines sum to the device where it stated its free memory.
void AddStack(const OomEvent& oom, const ReportInput& input, Document* answer) {
  if (oom.device < 0) return;
  std::vector<Page::Row> rows;
  const auto row = [&](uint64_t bytes, std::string what) {
    rows.push_back({FormatBytes(bytes), ShareOf(bytes, oom.device_total), std::move(what)});
  };
  const std::optional<uint64_t> unseen = UnseenBytes(oom);
  if (oom.values.reserved > 0) {
    row(oom.values.allocated, "PyTorch's blocks");
    row(IdleBytes(oom.values), "idle in PyTorch's segments");
  }
  if (oom.values.other > 0 || oom.values.reserved == 0) row(oom.values.other, "other CUDA memory of this process");
  if (oom.pool_stated) row(IdlePoolBytes(oom), "idle in the stream-ordered pool that was asked");
  if (unseen) {
    AddUnseen(oom, input, *unseen, row);
    row(oom.device_free, "free, as the device said");
  } else if (oom.device_stated) {
    row(oom.device_free, "free, as the device said");
  } else if (oom.device_total > oom.values.total) {
    row(oom.device_total - oom.values.total, "free or not seen here (CUDA context, other processes)");
  }
  answer->Line(
      {{Tone::kHeading, "Where the memory was"},
       {Tone::kAside, oom.device_total == 0 ? "" : absl::StrCat("  ", FormatBytes(oom.device_total), " in all")}});
  answer->Cells({Align::kRight, Align::kRight, Align::kLeft}, rows, /*heading=*/false);
  if (oom.torch_stated && (oom.torch_allocated != oom.values.allocated || oom.torch_reserved != oom.values.reserved)) {
    answer->Paragraph("  ",
                      absl::StrCat("PyTorch itself counted ", FormatBytes(oom.torch_allocated), " allocated and ",
                                   FormatBytes(oom.torch_reserved), " reserved: this trace does not have all of it."),
                      Tone::kWarning);
  }
}

std::string StepText(const OomStep& step) {
  const std::string bytes = FormatBytes(step.bytes);
  switch (step.kind) {
    case OomStep::Kind::kFailed:
      return absl::StrCat(
          step.api, " of ", bytes, " failed",
          step.device_stated ? absl::StrCat(", ", FormatBytes(step.device_free), " free on the device") : "");
    case OomStep::Kind::kReleased:
      return absl::StrCat(bytes, " given back to CUDA by ", FormatCountOf(step.count, "call", "calls"), " of ",
                          step.api);
    case OomStep::Kind::kServed:
      return absl::StrCat(step.api, " of ", bytes, " succeeded");
  }
  return "";
}

void AddChain(const OomEvent& oom, Document* answer) {
  if (oom.steps.empty() && oom.layer != kAllocatorLayer) return;
  answer->Gap();
  answer->Line({{Tone::kHeading, "What happened"}});
  std::vector<Page::Row> rows;
  const uint64_t start = oom.started_ns;
  const auto since = [&](uint64_t time_ns) {
    return absl::StrCat("+", FormatTime(time_ns > start ? time_ns - start : 0));
  };
  for (const OomStep& step : oom.steps) rows.push_back({since(step.time_ns), StepText(step)});
  if (oom.steps.empty()) {
    rows.push_back({"", oom.limited ? "PyTorch asked CUDA for nothing: the request is over a limit of its own"
                                    : "no failed call of CUDA is in the trace"});
    if (oom.released > 0) rows.push_back({"", absl::StrCat(FormatBytes(oom.released), " of cached memory given back")});
  }
  if (oom.layer == kAllocatorLayer && oom.final)
    rows.push_back({oom.steps.empty() ? "" : since(oom.ended_ns), "PyTorch gave up"});
  answer->Cells({Align::kRight, Align::kLeft}, rows, /*heading=*/false);
}

// On what the fit with expandable segments rests.
std::string BasisText(const WhatIfAnswer* what_if) {
  const absl::string_view meant = "with expandable segments from the start";
  if (what_if == nullptr || !what_if->knows_fit()) return absl::StrCat("estimate: ", meant);
  if (what_if->is_exact) return absl::StrCat(meant, ", by replay in PyTorch ", what_if->torch);
  return absl::StrCat("estimate: ", meant, ", by a replay in PyTorch ", what_if->torch, " that is not exact");
}

void AddFits(const OomEvent& oom, const WhatIfAnswer* what_if, Document* answer) {
  if (oom.device < 0 || !oom.described || !KnowsRoom(oom)) return;
  answer->Gap();
  answer->Line({{Tone::kHeading, "Would have fit"},
                {Tone::kAside, absl::StrCat("  of ", FormatBytes(oom.requested), " asked for")}});
  std::vector<Page::Row> rows;
  rows.push_back({IsBoundedByRefusal(oom) ? absl::StrCat("less than ", FormatBytes(oom.requested))
                                          : FormatBytes(oom.would_have_fit),
                  "at most, as it was"});
  if (oom.fragmentation.free > 0) {
    rows.push_back({FormatBytes(oom.fit_in_one_piece), "if all free space were one piece"});
    if (oom.fit_expandable) rows.push_back({FormatBytes(*oom.fit_expandable), BasisText(what_if)});
  }
  answer->Cells({Align::kRight, Align::kLeft}, rows, /*heading=*/false);
  if (what_if != nullptr) AddWhyEstimated(*what_if, answer);
  const FragmentationPoint& pieces = oom.fragmentation;
  if (pieces.free == 0) return;
  answer->Paragraph(
      "  ",
      absl::StrCat("Fragmentation: ", FormatBytes(pieces.free), " free inside PyTorch's segments in ",
                   FormatCountOf(pieces.free_ranges, "range", "ranges"), ", the largest ",
                   FormatBytes(pieces.largest_free_range), " (external ", FormatPercent(pieces.external_ratio), ")."));
}

void AddFillers(const OomEvent& oom, const ReportInput& input, const TextOptions& options, Document* answer) {
  if (oom.live.stacks.empty()) return;
  answer->Gap();
  answer->Line({{Tone::kHeading, "Who filled it"},
                {Tone::kAside, absl::StrCat("  ", FormatBytes(oom.live.bytes), " ", MeasureName(oom.live.measure),
                                            " in ", FormatCountOf(oom.live.block_count, "block", "blocks"))}});
  std::string stages;
  for (const auto& [stage, bytes] : LiveByStage(oom.live, input)) {
    if (stage == Stage::kNone) continue;
    absl::StrAppend(&stages, stages.empty() ? "" : ", ", StageTitle(stage), " ", FormatBytes(bytes), " (",
                    ShareOf(bytes, oom.live.bytes), ")");
  }
  if (!stages.empty()) answer->Paragraph("  allocated in ", stages);
  AddStackRows(oom.live.stacks, {"live", oom.live.bytes}, input, options, answer);
}

// Of memory beside PyTorch, where there was more of that: as at the peak of all CUDA memory, if it was the same then.
void AddFillersBeside(const OomEvent& oom, const ReportInput& input, const TextOptions& options, Document* answer) {
  if (oom.live.measure != Measure::kAllocated || oom.values.other <= oom.values.allocated) return;
  for (const DeviceAnalysis& device : input.analysis->devices) {
    const MemoryBreakdown& peak = device.breakdown_at_peak;
    if (device.device != oom.device || !peak.any || peak.values.other != oom.values.other) continue;
    answer->Gap();
    answer->Line({{Tone::kHeading, "Beside PyTorch"},
                  {Tone::kAside, absl::StrCat("  ", FormatBytes(oom.values.other), " of other CUDA memory")}});
    AddStackRows(peak.other, {"live", oom.values.other}, input, options, answer);
  }
}

// Who was seen to keep it, as soon as the program was in Python again; blocks of the failed attempt itself are gone by
// then, unless something keeps them.
void AddOwners(const OomEvent& oom, const ReportInput& input, Document* answer) {
  const OwnersMoment* const moment = OwnersAfter(oom, *input.analysis);
  if (moment == nullptr) return;
  std::vector<Page::Row> rows;
  for (const SeenOwner& owner : moment->seen.owners) {
    if (std::string text = OwnerText(owner); !text.empty() && rows.size() < kMaxOwners)
      rows.push_back({FormatBytes(owner.bytes), FormatCount(owner.blocks), std::move(text)});
  }
  if (rows.empty()) return;
  answer->Gap();
  answer->Line({{Tone::kHeading, "Who was seen to keep it"},
                {Tone::kAside, absl::StrCat("  at ", FormatTime(input.Since(moment->time_ns)), ", of ",
                                            FormatBytes(moment->seen.bytes), " in ",
                                            FormatCountOf(moment->seen.blocks, "block", "blocks"))}});
  rows.insert(rows.begin(), {"bytes", "blocks", "kept by"});
  answer->Cells({Align::kRight, Align::kRight, Align::kLeft}, rows, /*heading=*/true);
}

void AddPinsOfOom(const OomEvent& oom, const ReportInput& input, const TextOptions& options, Document* answer) {
  if (oom.pin_groups.empty()) return;
  answer->Gap();
  answer->Line({{Tone::kHeading, "Blocks that keep mostly empty segments"},
                {Tone::kAside,
                 absl::StrCat("  ", FormatBytes(ReturnableBytes(oom.pin_groups)), " would go back without them")}});
  TextOptions brief = options;
  brief.detail = Detail::kBrief;
  brief.top = 3;
  AddPinLines(PinLines(oom.pin_groups, input), oom.time_ns, input, brief, answer);
}

void AddActions(const OomEvent& oom, bool fit_is_replayed, const ReportInput& input, Document* answer) {
  const std::vector<OomAction> actions = ActionsOnOom(oom, input, fit_is_replayed);
  if (actions.empty()) return;
  answer->Gap();
  answer->Line({{Tone::kHeading, "What to do"}});
  for (size_t i = 0; i < actions.size(); ++i) {
    answer->Paragraph(absl::StrCat("  ", i + 1, ". "), absl::StrCat(actions[i].action, "."), Tone::kGood);
    answer->Paragraph("     ", absl::StrCat(actions[i].evidence, "."));
  }
}

bool HasPython(uint64_t stack_id, const ReportInput& input) {
  const std::vector<ResolvedFrame> frames = input.stacks->Frames(stack_id);
  return std::any_of(frames.begin(), frames.end(), [](const ResolvedFrame& frame) { return frame.python; });
}

// The newest live block that a line of Python made; nullptr where there is none among the newest.
const StackUse* LastFromPython(const OomEvent& oom, const ReportInput& input) {
  std::vector<const StackUse*> newest;
  for (const StackUse& use : oom.live.stacks) newest.push_back(&use);
  const size_t looked_at = std::min<size_t>(newest.size(), 50);
  std::partial_sort(newest.begin(), newest.begin() + static_cast<std::ptrdiff_t>(looked_at), newest.end(),
                    [](const StackUse* a, const StackUse* b) { return a->newest_ns > b->newest_ns; });
  for (size_t i = 0; i < looked_at; ++i) {
    if (HasPython(newest[i]->stack_id, input)) return newest[i];
  }
  return nullptr;
}

// A thread that runs no Python, as autograd's do: what can be said of how the program came there.
void AddWayThere(const OomEvent& oom, const ReportInput& input, const TextOptions& options, Document* answer) {
  if (oom.layer != kAllocatorLayer || oom.stack_id == 0 || HasPython(oom.stack_id, input)) return;
  answer->Paragraph("            ",
                    "A thread of autograd's own, without Python frames: the node names the operation whose gradient "
                    "was computed.",
                    Tone::kAside);
  const StackUse* last = LastFromPython(oom, input);
  if (last == nullptr) return;
  const uint64_t before_ns = oom.time_ns > last->newest_ns ? oom.time_ns - last->newest_ns : 0;
  answer->Paragraph(
      "            ",
      absl::StrCat("The newest live block from a line of Python was made ", FormatTime(before_ns), " before:"),
      Tone::kAside);
  AddOneStack("            ", last->stack_id, last->api, input, options, answer);
}

void AddAsker(const OomEvent& oom, const ReportInput& input, const TextOptions& options, Document* answer) {
  AddOneStack("  asked by  ", oom.stack_id, oom.api, input, options, answer);
  AddWayThere(oom, input, options, answer);
  const std::string cause = CauseOfOom(oom, input);
  if (!cause.empty()) answer->Paragraph("  so        ", cause, Tone::kWarning);
}

}  // namespace

void AddOomExplanation(const ReportInput& input, const WhatIfAnswer* what_if, const TextOptions& options,
                       Document* answer) {
  const OomEvent* oom = OomToExplain(input.analysis->ooms);
  answer->Gap();
  if (oom == nullptr) {
    answer->Line(GroundOf(*input.analysis).has_failures
                     ? "No request for memory failed in this trace."
                     : "Not known whether a request for memory failed: such a file does not tell.");
    return;
  }
  AddOomHeading(*oom, input, answer);
  AddAsker(*oom, input, options, answer);
  answer->Gap();
  AddStack(*oom, input, answer);
  AddChain(*oom, answer);
  AddFits(*oom, what_if, answer);
  AddFillersBeside(*oom, input, options, answer);
  AddFillers(*oom, input, options, answer);
  AddOwners(*oom, input, answer);
  AddPinsOfOom(*oom, input, options, answer);
  AddActions(*oom, what_if != nullptr && what_if->knows_fit() && what_if->is_exact, input, answer);
  if (input.analysis->ooms.size() > 1 || !input.analysis->retries.empty()) {
    answer->Gap();
    answer->Line({{Tone::kHeading, "Other failures"}});
    AddOtherOoms(oom, input, answer);
    AddServedRetries(input, Detail::kFull, answer);
  }
}

Document OomAnswer(const ReportInput& input, const WhatIfAnswer* what_if, const TextOptions& options, size_t top) {
  Document answer = TraceAnswer("oom", input);
  AddOomLists(input, what_if, top, &answer);
  answer.Field("what_if", WhatIfDatum(what_if), "");
  AddDevices(
      input, [](const DeviceAnalysis&, Document*) {}, &answer);
  AddOomExplanation(input, what_if, options, &answer);
  EndWithNotes(input, &answer);
  return answer;
}

}  // namespace gpumem
