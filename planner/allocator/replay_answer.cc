// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/replay_answer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "answers/report/json_parts.h"
#include "answers/report/trace_answer.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "render/draw.h"

namespace gpumem::plan {
namespace {

std::string Difference(uint64_t from, uint64_t to) {
  if (to == from) return "same";
  return to < from ? absl::StrCat("-", FormatBytes(from - to)) : absl::StrCat("+", FormatBytes(to - from));
}

std::string DeathText(const ReplayedRun& run) {
  return absl::StrCat("out of memory at request ", FormatCount(run.death->at + 1), ", for ",
                      FormatBytes(run.death->size));
}

std::string OutcomeText(const ReplayedRun& run) {
  if (!run.error.empty()) return run.error;
  if (run.death.has_value()) return "out of memory";
  if (run.served != 0 && run.failed == 0)
    return run.served == 1 ? "serves the request that failed" : absl::StrCat("serves all ", run.served, " that failed");
  if (run.failed != 0) return FormatCountOf(run.failed, "request fails", "requests fail");
  return "fits";
}

Page::Row RowOf(const std::string& name, const ReplayedRun& run, uint64_t compared_with, int device, bool compares) {
  if (!run.error.empty()) return {name, "-", "", "", "", "", run.error};
  const DeviceNeed& need = run.Of(device);
  const bool stopped = run.death.has_value();
  return {name,
          absl::StrCat(stopped ? ">" : "", FormatBytes(need.peak_reserved)),
          compares && !stopped ? Difference(compared_with, need.peak_reserved) : "",
          run.is_async ? "-" : FormatCount(run.segments.got),
          run.is_async ? "-" : FormatCount(run.retries),
          run.is_async ? "-" : FormatBytes(need.largest_free_at_peak),
          OutcomeText(run)};
}

std::string ChangeText(int64_t change) {
  if (change == 0) return "nothing more";
  const auto bytes = static_cast<uint64_t>(change < 0 ? -change : change);
  return absl::StrCat(change < 0 ? "gives back " : "gets ", FormatBytes(bytes));
}

void AddTrust(const ReplayAnswer& answer, Page* page) {
  page->Gap();
  const ReplayedRun& baseline = answer.baseline;
  if (answer.is_exact()) {
    page->Paragraph("  exact     ",
                    absl::StrCat("the recorded settings, replayed, give all ",
                                 FormatCountOf(answer.recorded.segments.got, "recorded segment", "recorded segments"),
                                 " in their order, with their sizes."),
                    Tone::kGood);
  } else {
    std::string text = "the replay of the recorded settings is not exact";
    if (!baseline.error.empty()) absl::StrAppend(&text, ": ", baseline.error);
    if (baseline.death.has_value()) absl::StrAppend(&text, ": ", DeathText(baseline), ", which the program got");
    absl::StrAppend(&text, ". Its peak of reserved is ", FormatBytes(baseline.Of(answer.device).peak_reserved),
                    ", recorded were ", FormatBytes(answer.recorded.Of(answer.device).peak_reserved),
                    ": rows may be off by as much as that (", FormatBytes(answer.off()), ").");
    page->Paragraph("  not exact ", text, Tone::kWarning);
    if (answer.difference.has_value()) {
      const SegmentDifference& first = *answer.difference;
      page->Paragraph("            ",
                      absl::StrCat("First difference: GPU ", first.device, ", change ", FormatCount(first.index + 1),
                                   " of its segments: recorded ", ChangeText(first.recorded), ", replayed ",
                                   ChangeText(first.replayed), "."));
    }
    for (const std::string& doubt : answer.doubts) page->Paragraph("            ", absl::StrCat(doubt, "."));
  }
  std::string how = absl::StrCat("PyTorch ", answer.torch, "'s own allocator on simulated CUDA, ",
                                 FormatCountOf(answer.facts.requests, "request", "requests"));
  if (!answer.torch_recorded.empty() && answer.torch_recorded != answer.torch)
    absl::StrAppend(&how, "; recorded with ", answer.torch_recorded,
                    ", whose allocator may differ (--torch names another Python)");
  page->Paragraph("  how       ", absl::StrCat(how, "."), Tone::kAside);
  if (std::any_of(answer.what_ifs.begin(), answer.what_ifs.end(), [](const ReplayedRun& run) { return run.is_async; }))
    page->Paragraph("  cudaMallocAsync ", "reserves in the driver's pool; that pool is simulated CUDA's, a model.",
                    Tone::kAside);
}

}  // namespace

std::string ConfName(const std::string& conf) { return conf.empty() ? "PyTorch's defaults" : conf; }

std::string ReplaySentence(const ReplayAnswer& answer) {
  const uint64_t recorded = answer.recorded.Of(answer.device).peak_reserved;
  const ReplayedRun* const best = BestOf(answer);
  const std::string about = answer.is_exact() ? "" : "about ";
  if (answer.what_ifs.empty()) {
    return answer.is_exact() ? "the replay gives what was recorded: what-ifs of this trace are exact"
                             : "the replay does not give what was recorded: what-ifs of this trace are estimates";
  }
  if (best == nullptr) return "no setting gets to the end of this history";
  const uint64_t need = best->Of(answer.device).peak_reserved, from = answer.compared().Of(answer.device).peak_reserved;
  std::string text;
  if (answer.recorded.failed != 0 && best->failed == 0 && best->served != 0) {
    text = absl::StrCat(
        ConfName(best->conf), " would have served ",
        best->served == 1 ? "the request that failed" : absl::StrCat("all ", best->served, " requests that failed"));
  }
  if (need < from) {
    absl::StrAppend(&text, text.empty() ? absl::StrCat(ConfName(best->conf), " would have kept ") : ", and kept ",
                    about, FormatBytes(from - need), " less reserved (", FormatBytes(recorded), " -> ",
                    FormatBytes(need), ")");
  } else if (text.empty()) {
    text = absl::StrCat("none of these settings would have kept less reserved than ", ConfName(answer.recorded_conf),
                        " (", FormatBytes(recorded), ")");
  }
  if (best->memory != answer.capacity && best->memory != 0 && answer.capacity != 0)
    absl::StrAppend(&text, best->failed == 0 ? "; it fits " : "; requests fail with ", FormatBytes(best->memory));
  return text;
}

void AddReplay(const ReplayAnswer& answer, Page* page) {
  page->Paragraph("", absl::StrCat(ReplaySentence(answer), "."), answer.is_exact() ? Tone::kHeading : Tone::kWarning);
  page->Gap();
  const uint64_t from = answer.compared().Of(answer.device).peak_reserved;
  std::vector<Page::Row> rows{
      {"settings", "peak reserved", "difference", "segments", "retries", "largest free", "outcome"}};
  rows.push_back(
      RowOf(absl::StrCat("recorded: ", ConfName(answer.recorded_conf)), answer.recorded, from, answer.device, false));
  rows.push_back(RowOf("  the same, replayed", answer.baseline, from, answer.device, false));
  if (answer.anew.has_value())
    rows.push_back(RowOf("  the same, begun anew", *answer.anew, from, answer.device, false));
  std::vector<const ReplayedRun*> ranked;
  for (const ReplayedRun& run : answer.what_ifs) ranked.push_back(&run);
  const auto rank = [&](const ReplayedRun* run) {
    return std::make_tuple(!run->error.empty(), run->death.has_value(), run->failed,
                           run->Of(answer.device).peak_reserved);
  };
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](const ReplayedRun* a, const ReplayedRun* b) { return rank(a) < rank(b); });
  for (const ReplayedRun* run : ranked) {
    const std::string size =
        run->memory == answer.baseline.memory ? "" : absl::StrCat(" on ", FormatBytes(run->memory));
    rows.push_back(RowOf(ConfName(run->conf) + size, *run, from, answer.device, true));
  }
  page->Table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft},
              rows);
  for (const ReplayedRun* run : ranked) {
    if (run->death.has_value()) page->Paragraph("  ", absl::StrCat(ConfName(run->conf), ": ", DeathText(*run), "."));
  }
  AddTrust(answer, page);
  for (const ReplayedRun* run : ranked) {
    if (!run->trace.empty()) page->Line(absl::StrCat("  ", ConfName(run->conf), ": ", run->trace), Tone::kAside);
  }
}

namespace {

void WriteDevices(const ReplayedRun& run, JsonWriter* json) {
  json->Key("devices");
  json->BeginArray();
  for (const auto& [device, need] : run.devices) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("device", device);
    json->Field("peak_reserved_bytes", need.peak_reserved);
    json->Field("peak_allocated_bytes", need.peak_allocated);
    json->Field("free_at_peak_bytes", need.free_at_peak);
    json->Field("largest_free_range_bytes", need.largest_free_at_peak);
    json->EndObject();
  }
  json->EndArray();
}

void WriteDeath(const ReplayedRun& run, JsonWriter* json) {
  json->Key("out_of_memory");
  if (!run.death.has_value()) return json->Null();
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("request", run.death->at);
  json->Field("device", run.death->device);
  json->Field("size_bytes", run.death->size);
  json->Field("of_torch", !run.death->outside);
  json->EndObject();
}

void WriteRun(const ReplayedRun& run, JsonWriter* json) {
  json->BeginObject();
  json->Field("settings", run.conf);
  json->Field("memory_bytes", run.memory);
  WriteJsonTextOrNull("error", run.error, !run.error.empty(), json);
  WriteDevices(run, json);
  json->Field("segments", run.segments.got);
  json->Field("segments_given_back", run.segments.given_back);
  json->Field("retries", run.retries);
  json->Field("failed_requests", run.failed);
  json->Field("served_requests", run.served);
  json->Field("requests_done", run.done);
  WriteDeath(run, json);
  WriteJsonTextOrNull("trace", run.trace, !run.trace.empty(), json);
  json->EndObject();
}

void WriteDifference(const ReplayAnswer& answer, JsonWriter* json) {
  json->Key("first_difference");
  if (!answer.difference.has_value()) return json->Null();
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("device", answer.difference->device);
  json->Field("index", answer.difference->index);
  json->Field("recorded_bytes", answer.difference->recorded);
  json->Field("replayed_bytes", answer.difference->replayed);
  json->EndObject();
}

}  // namespace

std::string ReplayJson(const ReplayAnswer& answer, const ReportInput& input) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  WriteMembers(HeadFields("replay", input), &json);
  json.Field("answer", ReplaySentence(answer));
  json.Field("exact", answer.is_exact());
  WriteDifference(answer, &json);
  json.Field("off_bytes", answer.off());
  json.Key("doubts");
  json.BeginArray();
  for (const std::string& doubt : answer.doubts) json.Value(doubt);
  json.EndArray();
  json.Field("torch", answer.torch);
  WriteJsonTextOrNull("torch_recorded", answer.torch_recorded, !answer.torch_recorded.empty(), &json);
  json.Field("device", answer.device);
  json.Field("requests", answer.facts.requests);
  json.Key("recorded");
  WriteRun(answer.recorded, &json);
  json.Key("replayed");
  WriteRun(answer.baseline, &json);
  json.Key("replayed_anew");
  if (answer.anew.has_value())
    WriteRun(*answer.anew, &json);
  else
    json.Null();
  json.Key("what_ifs");
  json.BeginArray();
  for (const ReplayedRun& run : answer.what_ifs) WriteRun(run, &json);
  json.EndArray();
  json.EndObject();
  return text + "\n";
}

}  // namespace gpumem::plan
