// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The parts of a report for people. Each adds its lines to an answer and knows nothing of the others; kBrief is its
// share of the one-screen report, kFull what the subcommand of the same name prints. What is given outlives the answer.

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_SECTIONS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_SECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "answers/report/what_if.h"
#include "ledger/attribution/stage.h"
#include "ledger/load/input.h"
#include "render/document.h"
#include "replay/analysis.h"
#include "replay/mark_log.h"

namespace gpumem {

// Program, trace, devices, and whether the trace is whole. Every command starts with it.
void AddHead(const ReportInput& input, Detail detail, Document* answer);

// Failed requests: the last one that was final explained, the others named. Nothing where none failed.
void AddOoms(const ReportInput& input, const TextOptions& options, Document* answer);

// What PyTorch would have reserved under another setting; and why an estimate stands where a replay could, or nothing
// where it was replayed exactly.
void AddWhatIf(const WhatIfAnswer& what_if, Document* answer);
void AddWhyEstimated(const WhatIfAnswer& what_if, Document* answer);
Datum WhatIfDatum(const WhatIfAnswer* what_if);  // for machines; null where nobody was asked

// The whole explanation of the last request that failed for good, or that none failed. `what_if`: null where nobody was
// asked; the explained request's fit_expandable is already the replay's where that knows it.
void AddOomExplanation(const ReportInput& input, const WhatIfAnswer* what_if, const TextOptions& options,
                       Document* answer);
// For machines: the requests that failed, and those that were served later.
void AddOomLists(const ReportInput& input, const WhatIfAnswer* what_if, size_t top, Document* answer);
// What `gpumemshim oom` answers.
Document OomAnswer(const ReportInput& input, const WhatIfAnswer* what_if, const TextOptions& options, size_t top);

void AddTimeline(const DeviceAnalysis& device, const ReportInput& input, Detail detail, Document* answer);
// Of a device, for machines: "timeline".
Document TimelineFields(const DeviceAnalysis& device, const ReportInput& input);
// What `gpumemshim timeline` answers.
Document TimelineAnswer(const ReportInput& input);

// The entry of `live` whose allocation made it as large as it is: the one with an allocation at that very instant.
// nullptr where none is (a window that begins at its peak).
const StackUse* ReachedBy(const LiveSet& live);
// The stage of that allocation; kNone where none is, or where its stack does not show one.
Stage StageWhenReached(const LiveSet& live, const ReportInput& input);
// The same as words: " in backward"; "" for kNone.
std::string WhenText(const LiveSet& live, const ReportInput& input);
// For machines: what the set is of, its instant, and its largest `top` stacks (0 = all).
Document LiveSetFields(const LiveSet& live, size_t top, const ReportInput& input);

// "step 3, stage train > backward": a place among the program's marks; "" where nothing was said.
std::string PlaceText(const MarkPlace& place);
// For machines: the object `where` of an instant.
Datum PlaceDatum(uint64_t time_ns, const ReportInput& input);
// What the program said about itself in the window; nothing where it said nothing.
void AddMarks(const ReportInput& input, Detail detail, Document* answer);
void AddMarkFields(const ReportInput& input, Document* answer);  // for machines

void AddPeak(const DeviceAnalysis& device, Measure measure, const ReportInput& input, const TextOptions& options,
             Document* answer);
// What `gpumemshim peak` answers. `device` may be null (a trace without GPU memory). `top` bounds the lists of
// machines, 0 = all.
Document PeakAnswer(const ReportInput& input, const DeviceAnalysis* device, Measure measure, const TextOptions& options,
                    size_t top);

// What the share of the device that nvidia-smi shows for this process is made of, and who else is there. Nothing where
// the trace has no samples.
void AddBreakdown(const DeviceAnalysis& device, const ReportInput& input, Document* answer);

// For machines: the same, what the device said over time, and what was asked all in all.
void AddBreakdownFields(const DeviceAnalysis& device, const ReportInput& input, Document* answer);
void AddDeviceSamples(const DeviceAnalysis& device, const ReportInput& input, Document* answer);
Datum SamplingDatum(const ReportInput& input);

// Limits of GPUMEMSHIM_WARN_AT that were reached.
void AddLimits(const ReportInput& input, Document* answer);

void AddLeaks(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options, Document* answer);
// For machines: what repeats, and of a device what is alive and what grew.
void AddLeakLoops(const ReportInput& input, Document* answer);
Document LeakFields(const DeviceAnalysis& device, size_t top, const ReportInput& input);
// What `gpumemshim leaks` answers.
Document LeaksAnswer(const ReportInput& input, const TextOptions& options, size_t top);

void AddFragmentation(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options,
                      Document* answer);
// For machines: one moment, and all that is said of a device's.
Datum PointDatum(const FragmentationPoint& point, const ReportInput& input);
Document FragmentationFields(const Fragmentation& fragmentation, size_t top, const ReportInput& input);
// What `gpumemshim fragmentation` answers; `what_if`: null where nobody was asked.
Document FragmentationAnswer(const ReportInput& input, const WhatIfAnswer* what_if, const TextOptions& options,
                             size_t top);

// Of the file that a trace came from.
struct FileCounts {
  uint64_t sections = 0;  // processes
  uint64_t packets = 0;
  size_t stack_nodes = 0, frames = 0, modules = 0;
};
// What `gpumemshim info` answers.
Document InfoAnswer(const ReportInput& input, const FileCounts& counts);

// What is missing from the trace, and what the numbers rest on.
void AddLosses(const ReportInput& input, Document* answer);
void AddNotes(const ReportInput& input, Document* answer);

// What to type next.
void AddNextStep(const ReportInput& input, Document* answer);

// What `gpumemshim report` answers: for people one screen, or with `is_full` every section. `top` bounds the lists of
// machines, 0 = all.
Document ReportAnswer(const ReportInput& input, const TextOptions& options, bool is_full, size_t top);

// The one-screen report: verdict, categories, lines of code, the curve, nvidia-smi's number.
void AddOverview(const ReportInput& input, const TextOptions& options, Document* answer);

// All of it: every section in its brief form.
void AddReport(const ReportInput& input, const TextOptions& options, Document* answer);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_SECTIONS_H_
