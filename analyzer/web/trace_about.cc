// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/trace_about.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ledger/stacks/names.h"
#include "render/columns.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

absl::string_view ToneName(Tone tone) {
  if (tone == Tone::kAlarm) return "alarm";
  return tone == Tone::kWarning ? "warning" : "note";
}

// What the peaks really are, where what a page draws lacks something, or has what was freed unseen.
std::string PeaksText(const ReportInput& input) {
  std::string text;
  for (const DeviceAnalysis& device : input.analysis->devices) {
    const Measure measure = DefaultMeasure(device);
    if (device.bound == PeakBound::kExact) continue;
    absl::StrAppend(&text, text.empty() ? " What is drawn is what was recorded: the peak of " : ", of ",
                    DeviceLabel(device.device), text.empty() ? " is " : " ",
                    BoundedBytes(device.bound, PeakOf(device, measure).bytes), " ", MeasureName(measure));
  }
  return text.empty() ? "" : absl::StrCat(text, ".");
}

}  // namespace

std::vector<Remark> TraceFacts(const ReportInput& input) {
  std::vector<Remark> facts = {{"process", ProcessText(input), Tone::kPlain}};
  for (Remark& fact : HeadFacts(input, /*full=*/true)) facts.push_back(std::move(fact));
  const std::vector<std::string> losses = LossLines(input);
  if (!losses.empty() || !ImportInfoOf(input.analysis->process.settings).any())
    facts.push_back(
        {"losses", losses.empty() ? "none: every event is in the trace" : absl::StrJoin(losses, "; "), Tone::kPlain});
  for (const std::string& note : input.analysis->notes) facts.push_back({"note", note, Tone::kPlain});
  return facts;
}

std::vector<Remark> TraceWarnings(const ReportInput& input) {
  std::vector<Remark> warnings;
  for (Remark& remark : StateRemarks(input)) {
    if (remark.lead != "LOST") warnings.push_back(std::move(remark));
  }
  const std::vector<std::string> losses = LossLines(input);
  if (!losses.empty()) {
    const bool alarm = input.analysis->losses.MissesEvents();
    warnings.push_back({"losses", absl::StrCat("Lost: ", absl::StrJoin(losses, "; "), ".", PeaksText(input)),
                        alarm ? Tone::kAlarm : Tone::kWarning});
  }
  for (const Remark& fact : HeadFacts(input, false)) {
    if (fact.tone == Tone::kWarning || fact.lead == "window")
      warnings.push_back({fact.lead,
                          absl::StrCat(fact.lead == "window"     ? "Shown is the window from "
                                       : fact.lead == "recorded" ? "The trace was recorded "
                                                                 : "This GPU is ",
                                       fact.text, "."),
                          fact.tone});
  }
  return warnings;
}

void WriteJsonRemarks(absl::string_view key, const std::vector<Remark>& remarks, PageWords* words, JsonWriter* json) {
  json->Key(key);
  json->BeginArray();
  for (const Remark& remark : remarks) {
    words->Add(ShownName(remark.lead));
    words->Add(ShownName(remark.text));
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("lead", ShownName(remark.lead));
    json->Field("text", ShownName(remark.text));
    json->Field("level", ToneName(remark.tone));
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace gpumem
