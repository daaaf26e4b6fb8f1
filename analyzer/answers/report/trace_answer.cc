// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/trace_answer.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "answers/report/cupti_words.h"
#include "answers/report/sections.h"
#include "answers/report/state.h"
#include "base/utf8.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

std::vector<Member> SeriesMembers(uint64_t allocated, uint64_t reserved, uint64_t other, uint64_t total) {
  return {{"allocated_bytes", allocated, "PyTorch blocks in use, as `torch.cuda.memory_allocated()` counts"},
          {"reserved_bytes", reserved, "PyTorch segments, as `torch.cuda.memory_reserved()` counts"},
          {"other_bytes", other, "CUDA device memory of this process that is not a PyTorch segment"},
          {"total_bytes", total, "reserved + other; not less than allocated"}};
}

Datum PeakDatum(const DeviceAnalysis& device, const ReportInput& input) {
  constexpr char kPeakTimes[] = "times of the peaks";
  const SeriesPeak &allocated = device.peak_allocated, &reserved = device.peak_reserved, &other = device.peak_other,
                   &total = device.peak_total;
  std::vector<Member> members = SeriesMembers(allocated.bytes, reserved.bytes, other.bytes, total.bytes);
  members.push_back({"allocated_time_ns", input.Since(allocated.time_ns), kPeakTimes});
  members.push_back({"reserved_time_ns", input.Since(reserved.time_ns), kPeakTimes});
  members.push_back({"other_time_ns", input.Since(other.time_ns), kPeakTimes});
  members.push_back({"total_time_ns", input.Since(total.time_ns), kPeakTimes});
  members.push_back(
      {"bound", PeakBoundName(device.bound),
       "in `peak`: `exact`; `at_least` where events are missing, or PyTorch's own total is above all that "
       "was counted: the peaks were that high or higher; `about` where frees are missing of memory whose "
       "total nobody states ([trace-files.md](trace-files.md#when-events-are-missing))"});
  return Datum::Object(std::move(members));
}

constexpr int kLeadWidth = 8;

// Names of devices and versions are cut where they are too long, sentences are broken.
void AddFact(const Remark& fact, Document* answer) {
  const std::string lead = absl::StrCat("  ", PadRight(fact.lead, kLeadWidth));
  if (fact.lead.empty()) {
    answer->Line(absl::StrCat("  ", fact.text));
  } else if (fact.lead == "with" || absl::StartsWith(fact.lead, "GPU")) {
    answer->Line(absl::StrCat(lead, fact.text));
  } else {
    answer->Paragraph(absl::StrCat(lead, fact.lead.size() < kLeadWidth ? "" : " "), fact.text, fact.tone);
  }
}

// What every answer of this trace would repeat: file, devices and versions, which gpumemshim info has.
bool IsOfRecording(const Remark& fact) {
  return fact.lead == "trace" || fact.lead == "with" || absl::StartsWith(fact.lead, "GPU");
}

}  // namespace

void AddHead(const ReportInput& input, Detail detail, Document* answer) {
  const std::string& program = input.analysis->process.program;
  answer->Line({{Tone::kHeading, program.empty() ? "(program not known)" : program},
                {Tone::kPlain, absl::StrCat("  ", ProcessText(input))},
                {Tone::kWarning, detail == Detail::kBrief && IsSimulated(*input.analysis) ? ", simulated GPU" : ""}});
  for (const Remark& fact : HeadFacts(input, detail == Detail::kFull)) {
    if (detail == Detail::kFull || !IsOfRecording(fact)) AddFact(fact, answer);
  }
  for (const Remark& remark : StateRemarks(input))
    answer->Paragraph(absl::StrCat("  ", PadRight(remark.lead, kLeadWidth)), remark.text, remark.tone);
  for (const Remark& remark : CuptiRemarks(input)) AddFact(remark, answer);
  AddLimits(input, answer);
}

Datum ValuesDatum(const MeasureValues& values) {
  return Datum::Object(SeriesMembers(values.allocated, values.reserved, values.other, values.total));
}

Datum MapDatum(const std::map<std::string, std::string>& values) {
  std::vector<Member> members;
  for (const auto& [name, value] : values) members.push_back({name, value});
  return Datum::Object(std::move(members));
}

Datum HostPinnedDatum(const Analysis& analysis) {
  constexpr char kBytes[] = "its peak and what is left at the end";
  return Datum::Object(
      {{"peak_bytes", analysis.host_pinned_peak, kBytes}, {"end_bytes", analysis.host_pinned_end, kBytes}});
}

Document DeviceAnswer(const DeviceAnalysis& device, const ReportInput& input) {
  Document answer;
  answer.Field("device", device.device, "CUDA ordinal");
  answer.Field("name", device.name, "as the driver names it");
  answer.Field("capacity_bytes", Datum::If(device.capacity != 0, device.capacity), "size of its memory, else null");
  answer.Field("peak", PeakDatum(device, input),
               "object: the largest value of each series and when it was first reached");
  answer.Field("end", ValuesDatum(device.end), "object: each series at the end of the trace");
  return answer;
}

void AddDevices(const ReportInput& input, const std::function<void(const DeviceAnalysis&, Document*)>& rest,
                Document* answer) {
  std::vector<Document> devices;
  for (const DeviceAnalysis& device : input.analysis->devices)
    rest(device, &devices.emplace_back(DeviceAnswer(device, input)));
  answer->Documents("devices", "one object a GPU, below", std::move(devices));
}

Document TraceAnswer(absl::string_view command, const ReportInput& input, Detail detail) {
  Document answer = HeadFields(command, input);
  AddHead(input, detail, &answer);
  return answer;
}

void EndWithNotes(const ReportInput& input, Document* answer) {
  answer->Gap();
  AddNotes(input, answer);
}

}  // namespace gpumem
