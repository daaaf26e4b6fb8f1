// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <string>
#include <utility>
#include <vector>

#include "answers/parts/attribution_answer.h"
#include "answers/parts/categories.h"
#include "answers/parts/moment_fields.h"
#include "answers/report/remedies.h"
#include "answers/report/sections.h"
#include "answers/report/trace_answer.h"
#include "answers/report/verdict.h"

namespace gpumem {
namespace {

Datum ResidualDatum(const ResidualUse& use) {
  constexpr char kCounts[] = "how many there are at the end; of CUmodule and CUlibrary";
  constexpr char kBytes[] =
      "by how much the device's free memory fell while they were made: estimates, 0 where nothing could be measured; "
      "in "
      "no total";
  constexpr char kPeaks[] = "the same at their highest";
  return Datum::Object({{"contexts", use.contexts, kCounts},
                        {"modules", use.modules, kCounts},
                        {"context_bytes", use.context_bytes, kBytes},
                        {"module_bytes", use.module_bytes, kBytes},
                        {"peak_context_bytes", use.peak_context_bytes, kPeaks},
                        {"peak_module_bytes", use.peak_module_bytes, kPeaks}});
}

Datum VerdictDatum(const ReportInput& input) {
  constexpr char kSentences[] =
      "in it: what went wrong (null where nothing did), how high the peak was, what it was made of and by which line, "
      "what to do";
  const Verdict verdict = MakeVerdict(input);
  return Datum::Object(
      {{"kind", VerdictName(verdict.kind),
        "in it: `nothing`, `fits`, `unknown` (nothing wrong is seen, but events are missing, or more is "
        "counted than the device has), `fragmented`, `nearly_full`, `growing`, `out_of_memory`"},
       {"problem", Datum::TextOrNull(verdict.problem), kSentences},
       {"peak", Datum::TextOrNull(verdict.peak), kSentences},
       {"mostly", Datum::TextOrNull(verdict.mostly), kSentences},
       {"action", Datum::TextOrNull(verdict.action), kSentences}});
}

// Without text: the verdict has the first of them.
void AddRemedies(const ReportInput& input, Document* answer) {
  const DeviceAnalysis* const device = DeviceOfVerdict(input);
  answer->Table<Remedy>(
      "remedies",
      "what lives too long on the verdict's device, largest saving first; counted for traces of up to 300,000 events "
      "that have all of them, else empty",
      {{"kind", "in it: `gradients_in_forward`, `carried_over`, `checkpoint_copy`, `foreach_temporaries`",
        [](const Remedy& remedy) { return PeakPartName(remedy.part); }},
       {"cause", "in it: what lives too long", [](const Remedy& remedy) { return EvidenceOf(remedy); }},
       {"action", "in it: what to do", [](const Remedy& remedy) { return ActionOf(remedy.part); }},
       {"site", "in it: the line that allocates most of it; \"\" where no stack is known",
        [](const Remedy& remedy) { return remedy.site; }},
       {"held_bytes", "in it: at the peak, and not needed any more", [](const Remedy& remedy) { return remedy.held; }},
       {"peak_without_bytes", "in it: the peak of allocated, had it been let go of in time",
        [](const Remedy& remedy) { return remedy.peak_without; }}},
      device == nullptr ? std::vector<Remedy>() : RemediesOfPeak(input, *device, kLeastRemedyPercent), {});
}

void AddAttribution(const ReportInput& input, Document* answer) {
  constexpr char kMeaning[] =
      "what the largest peak was for, as in `at` without `modules` and `stacks`; null where the program said nothing "
      "of "
      "it";
  if (input.attribution == nullptr || input.attribution->moments.empty())
    return answer->Field("attribution", Datum(), kMeaning);
  Document fields;
  AddBasis(*input.attribution, &fields);
  fields.Append(MomentFields(input.attribution->moments.front(), input));
  answer->Object("attribution", kMeaning, std::move(fields));
}

void AddDeviceFields(const DeviceAnalysis& device, const ReportInput& input, size_t top, Document* object) {
  object->Field("residual", ResidualDatum(device.residual),
                "in devices, object: contexts and modules, which no allocation call names");
  object->Object("at_peak", "in devices: the live set at the peak of allocated (of total without PyTorch)",
                 LiveSetFields(LiveAtPeak(device, DefaultMeasure(device)), top, input));
  AddBreakdownFields(device, input, object);
  object->Append(TimelineFields(device, input));
  object->Object("fragmentation", "object, below; in `ooms` a point",
                 FragmentationFields(device.fragmentation, top, input));
  object->Append(LeakFields(device, top, input));
}

}  // namespace

Document ReportAnswer(const ReportInput& input, const TextOptions& options, bool is_full, size_t top) {
  Document answer = HeadFields("report", input);
  answer.Field("verdict", VerdictDatum(input), "object: the answer in sentences, as in the text");
  AddRemedies(input, &answer);
  answer.Field("what_if", WhatIfDatum(input.what_if),
               "object: as in [fragmentation](#fragmentation); null where reserved is hardly above allocated, or no "
               "replay could tell more");
  answer.Field("host_pinned", HostPinnedDatum(*input.analysis), "object: pinned host memory");
  answer.Field("sampling", SamplingDatum(input), "object: what the sampler asked, and the answers, below");
  AddOomLists(input, nullptr, top, &answer);
  AddAttribution(input, &answer);
  AddSnapshotFields(input, &answer);
  AddLeakLoops(input, &answer);
  AddDevices(
      input, [&](const DeviceAnalysis& device, Document* object) { AddDeviceFields(device, input, top, object); },
      &answer);
  is_full ? AddReport(input, options, &answer) : AddOverview(input, options, &answer);
  return answer;
}

}  // namespace gpumem
