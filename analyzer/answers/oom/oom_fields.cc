// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim oom` and `report` tell machines of failed requests.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "answers/oom/oom_story.h"
#include "answers/parts/pin_lines.h"
#include "answers/report/owner_words.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "answers/report/trace_answer.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

constexpr size_t kMaxOwnerRows = 20;

absl::string_view StepName(OomStep::Kind kind) {
  switch (kind) {
    case OomStep::Kind::kFailed:
      return "failed";
    case OomStep::Kind::kReleased:
      return "released";
    case OomStep::Kind::kServed:
      return "served";
  }
  return "";
}

std::vector<AnswerColumn<OomStep>> StepColumns(const ReportInput& input) {
  return {
      {"step", "`failed`, `released` or `served`, with `api`, `bytes` and the `count` of calls",
       [](const OomStep& step) { return StepName(step.kind); }},
      {"time_ns", "", [&input](const OomStep& step) { return input.Since(step.time_ns); }},
      {"api", "", [](const OomStep& step) { return step.api; }},
      {"bytes", "", [](const OomStep& step) { return step.bytes; }},
      {"count", "", [](const OomStep& step) { return step.count; }},
      {"device_free_bytes", "", [](const OomStep& step) { return Datum::If(step.device_stated, step.device_free); }}};
}

void AddChainFields(const OomEvent& oom, const ReportInput& input, Document* fields) {
  constexpr char kChain[] = "from the first failed call to the end: given up, or served";
  constexpr char kPool[] = "of the stream-ordered pool that was asked, as the driver said them, else null";
  constexpr char kCounted[] = "what PyTorch itself counted when it gave up, else null";
  const std::optional<uint64_t> unseen = UnseenBytes(oom);
  fields->Field("cuda_requested_bytes", oom.cuda_requested,
                "what CUDA was asked for (PyTorch asks for a whole segment); 0 = it was not asked");
  fields->Field("started_ns", input.Since(oom.started_ns), kChain);
  fields->Field("ended_ns", input.Since(oom.ended_ns), kChain);
  fields->Table("steps", "what happened between them, the first twelve", StepColumns(input), oom.steps,
                {.layout = JsonLayout::kOneLine});
  fields->Field("released_bytes", oom.released, "given back to CUDA meanwhile");
  fields->Field("limited", oom.limited,
                "true where PyTorch gave up without asking CUDA although the device had room: a limit of the program's "
                "own");
  fields->Field("limit_bytes", Datum::If(oom.limit != 0, oom.limit),
                "what PyTorch was allowed to reserve then; null where no limit was in force or it is not known (it is "
                "read as the program ends)");
  fields->Field("device_free_bytes", Datum::If(oom.device_stated, oom.device_free),
                "what the device reported as free right after the failure; null if it was not asked");
  fields->Field("unseen_bytes", Datum::If(unseen.has_value(), unseen.value_or(0)),
                "capacity - free - idle in the pool - what this trace knows: CUDA context, kernels, rounding, other "
                "processes; null where the device was not asked");
  fields->Field("torch_allocated_bytes", Datum::If(oom.torch_stated, oom.torch_allocated), kCounted);
  fields->Field("torch_reserved_bytes", Datum::If(oom.torch_stated, oom.torch_reserved), kCounted);
  fields->Field("pool_used_bytes", Datum::If(oom.pool_stated, oom.pool_used), kPool);
  fields->Field("pool_reserved_bytes", Datum::If(oom.pool_stated, oom.pool_reserved), kPool);
}

void AddFitFields(const OomEvent& oom, const WhatIfAnswer* what_if, Document* fields) {
  constexpr char kWhole[] = "segments without any block that were kept nevertheless";
  const bool is_replayed = what_if != nullptr && what_if->knows_fit();
  const absl::string_view basis = !is_replayed ? "estimate" : what_if->is_exact ? "replay" : "inexact_replay";
  fields->Field("would_have_fit_bytes", Datum::If(oom.described && KnowsRoom(oom), oom.would_have_fit),
                "at most so much could have been served: less than the request that was refused; null where not looked "
                "at (of very many failures the last 64 are)");
  fields->Field("fit_in_one_piece_bytes", Datum::If(oom.described, oom.fit_in_one_piece),
                "the same if all free space were in one piece");
  fields->Field("expandable_segments", Datum::If(oom.described, oom.expandable_segments),
                "whether PyTorch used expandable segments, or was about to; null where the moment was not looked at");
  fields->Field("fit_expandable_bytes", Datum::If(oom.fit_expandable.has_value(), oom.fit_expandable.value_or(0)),
                "had the program used expandable segments from its start; null where it did, and for requests that are "
                "not PyTorch's");
  fields->Field("fit_expandable_basis", Datum::If(oom.fit_expandable.has_value(), basis),
                "on what that rests: `replay` (PyTorch's own allocator), `inexact_replay` (the same, but the replay of "
                "the recorded settings does not give what was recorded), `estimate`; null as above. In `report` always "
                "`estimate`");
  fields->Field("whole_segments", oom.whole_segments, kWhole);
  fields->Field("whole_segment_bytes", oom.whole_segment_bytes, kWhole);
}

void AddActionFields(const OomEvent& oom, bool fit_is_replayed, const ReportInput& input, Document* fields) {
  constexpr char kAdvice[] = "the advice and the numbers that speak for it";
  std::vector<OomAction> actions;
  if (oom.described) actions = ActionsOnOom(oom, input, fit_is_replayed);
  fields->Field("cause", CauseOfOom(oom, input), "one sentence, \"\" where the numbers carry none");
  fields->Table<OomAction>("actions", "what to do, best first",
                           {{"action", kAdvice, [](const OomAction& action) { return action.action; }},
                            {"evidence", kAdvice, [](const OomAction& action) { return action.evidence; }},
                            {"bytes", "what the advice can make available at most; null where that is not known",
                             [](const OomAction& action) { return Datum::If(action.bytes != 0, action.bytes); }}},
                           std::move(actions), {});
}

// Owners by themselves: those of what C code or a function at work has are in no row.
void AddOwnerFields(const OomEvent& oom, const ReportInput& input, Document* fields) {
  const OwnersMoment* const moment = OwnersAfter(oom, *input.analysis);
  std::vector<SeenOwner> owners;
  for (size_t i = 0; moment != nullptr && i < moment->seen.owners.size() && owners.size() < kMaxOwnerRows; ++i) {
    if (!OwnerText(moment->seen.owners[i]).empty()) owners.push_back(moment->seen.owners[i]);
  }
  fields->Field("owners_ns", moment == nullptr ? Datum() : Datum(input.Since(moment->time_ns)),
                "when the recorder looked who keeps memory, after the failure; null: it did not");
  fields->Table<SeenOwner>(
      "owners", "who was seen to keep PyTorch's blocks then, most bytes first, at most 20",
      {{"owner", "in words", [](const SeenOwner& owner) { return OwnerText(owner); }},
       {"owner_root", "", [](const SeenOwner& owner) { return OwnerRootName(owner.root); }},
       {"owner_path", "", [](const SeenOwner& owner) { return Datum::TextOrNull(owner.path); }},
       {"owner_file", "", [](const SeenOwner& owner) { return Datum::TextOrNull(owner.file); }},
       {"owner_bytes", "", [](const SeenOwner& owner) { return owner.bytes; }},
       {"owner_blocks", "of how many blocks that is", [](const SeenOwner& owner) { return owner.blocks; }}},
      std::move(owners), {});
}

Document OomFields(const OomEvent& oom, const WhatIfAnswer* what_if, size_t top, const ReportInput& input) {
  const bool is_replayed = what_if != nullptr && what_if->knows_fit();
  Document fields;
  fields.Field("time_ns", input.Since(oom.time_ns), "");
  fields.Field("device", oom.device, "");
  fields.Field("layer", LayerName(oom.layer), "");
  fields.Field("api", oom.api, "");
  fields.Field("result", oom.result, "CUresult or cudaError_t; 0 at the torch layer");
  fields.Field("final", oom.final, "false where a later attempt of the same request succeeded");
  fields.Field("retries", oom.retries, "CUDA calls that failed before the allocator gave up");
  fields.Field("thread", oom.thread, "id of the thread in the trace");
  fields.Field("requested_bytes", oom.requested, "what was asked for; PyTorch's requests are rounded to 512");
  fields.Field("capacity_bytes", Datum::If(oom.device_total != 0, oom.device_total), "");
  fields.Field("values", ValuesDatum(oom.values), "");
  AddChainFields(oom, input, &fields);
  AddFitFields(oom, what_if, &fields);
  fields.Field("fragmentation", PointDatum(oom.fragmentation, input), "a point");
  AddActionFields(oom, is_replayed && what_if->is_exact, input, &fields);
  fields.Field("site", SiteDatum({oom.stack_id, oom.api}, input), "");
  fields.Field("hash", HashDatum(oom.stack_id, input), "");
  fields.Field("frames", FramesDatum(oom.stack_id, input), "");
  AddListOfPinLines("pin_lines", "lines of code whose blocks kept segments from CUDA, as in fragmentation",
                    oom.pin_groups, top, input, &fields);
  AddListOfPins("pins", "live blocks that kept segments from CUDA, as in fragmentation", oom.pins, top, input, &fields);
  AddOwnerFields(oom, input, &fields);
  fields.Object("live", "the live set: who filled the device", LiveSetFields(oom.live, top, input));
  return fields;
}

Document RetryFields(const ServedRetries& retries, size_t top, const ReportInput& input) {
  Document fields;
  fields.Field("device", retries.device, "");
  fields.Field("count", retries.count, "");
  fields.Field("failed_calls", retries.failed_calls, "CUDA calls that failed");
  fields.Field("released_bytes", retries.released, "");
  fields.Field("took_ns", retries.time_ns, "from the first failed call to the served one, summed");
  fields.Field("oldest_ns", input.Since(retries.first_ns), "");
  fields.Field("newest_ns", input.Since(retries.last_ns), "");
  AddStacks("stacks", retries.stacks, top, input, &fields);
  return fields;
}

}  // namespace

void AddOomLists(const ReportInput& input, const WhatIfAnswer* what_if, size_t top, Document* answer) {
  const OomEvent* const explained = OomToExplain(input.analysis->ooms);
  std::vector<Document> ooms, served;
  for (const OomEvent& oom : input.analysis->ooms)
    ooms.push_back(OomFields(oom, &oom == explained ? what_if : nullptr, top, input));
  for (const ServedRetries& retries : input.analysis->retries) served.push_back(RetryFields(retries, top, input));
  answer->Documents("ooms", "requests that failed, in order", std::move(ooms));
  answer->Documents("served_retries", "requests that failed at first, counted by device", std::move(served));
}

}  // namespace gpumem
