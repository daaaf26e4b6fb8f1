// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The parts of a report as text. Each adds its lines to a Page and knows nothing of the others; kBrief is its share of
// the one-screen report, kFull what the subcommand of the same name prints.

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_SECTIONS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_SECTIONS_H_

#include "ledger/load/input.h"
#include "render/document.h"
#include "render/page.h"
#include "replay/analysis.h"

namespace gpumem {

// Program, trace, devices, and whether the trace is whole. Every command starts with it.
void AddHead(const ReportInput& input, Detail detail, Page* page);

// Failed requests: the last one that was final explained, the others named. Nothing where none failed.
void AddOoms(const ReportInput& input, const TextOptions& options, Page* page);

// The whole explanation of the last request that failed for good, or that none failed.
void AddOomExplanation(const ReportInput& input, const TextOptions& options, Page* page);

void AddTimeline(const DeviceAnalysis& device, const ReportInput& input, Detail detail, Page* page);
// Of a device, for machines: "timeline".
Document TimelineFields(const DeviceAnalysis& device, const ReportInput& input);
// What `gpumemshim timeline` answers.
Document TimelineAnswer(const ReportInput& input);

// What the program said about itself in the window; nothing where it said nothing.
void AddMarks(const ReportInput& input, Detail detail, Page* page);

void AddPeak(const DeviceAnalysis& device, Measure measure, const ReportInput& input, const TextOptions& options,
             Page* page);
// What `gpumemshim peak` answers. `device` may be null (a trace without GPU memory). `top` bounds the lists of
// machines, 0 = all.
Document PeakAnswer(const ReportInput& input, const DeviceAnalysis* device, Measure measure, const TextOptions& options,
                    size_t top);

// What the share of the device that nvidia-smi shows for this process is made of, and who else is there. Nothing where
// the trace has no samples.
void AddBreakdown(const DeviceAnalysis& device, const ReportInput& input, Page* page);

// Limits of GPUMEMSHIM_WARN_AT that were reached.
void AddLimits(const ReportInput& input, Page* page);

void AddLeaks(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options, Page* page);

void AddFragmentation(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options, Page* page);

// What is missing from the trace, and what the numbers rest on.
void AddLosses(const ReportInput& input, Page* page);
void AddNotes(const ReportInput& input, Page* page);

// What to type next.
void AddNextStep(const ReportInput& input, Page* page);

// The one-screen report: verdict, categories, lines of code, the curve, nvidia-smi's number.
void AddOverview(const ReportInput& input, const TextOptions& options, Page* page);

// All of it: every section in its brief form.
void AddReport(const ReportInput& input, const TextOptions& options, Page* page);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_SECTIONS_H_
