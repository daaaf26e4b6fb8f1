// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/replay_answer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "answers/report/trace_answer.h"
#include "base/format.h"

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

void AddTrust(const ReplayAnswer& answer, Document* document) {
  document->Gap();
  const ReplayedRun& baseline = answer.baseline;
  if (answer.is_exact()) {
    document->Paragraph(
        "  exact     ",
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
    document->Paragraph("  not exact ", text, Tone::kWarning);
    if (answer.difference.has_value()) {
      const SegmentDifference& first = *answer.difference;
      document->Paragraph("            ",
                          absl::StrCat("First difference: GPU ", first.device, ", change ",
                                       FormatCount(first.index + 1), " of its segments: recorded ",
                                       ChangeText(first.recorded), ", replayed ", ChangeText(first.replayed), "."));
    }
    for (const std::string& doubt : answer.doubts) document->Paragraph("            ", absl::StrCat(doubt, "."));
  }
  std::string how = absl::StrCat("PyTorch ", answer.torch, "'s own allocator on simulated CUDA, ",
                                 FormatCountOf(answer.facts.requests, "request", "requests"));
  if (!answer.torch_recorded.empty() && answer.torch_recorded != answer.torch)
    absl::StrAppend(&how, "; recorded with ", answer.torch_recorded,
                    ", whose allocator may differ (--torch names another Python)");
  document->Paragraph("  how       ", absl::StrCat(how, "."), Tone::kAside);
  if (std::any_of(answer.what_ifs.begin(), answer.what_ifs.end(), [](const ReplayedRun& run) { return run.is_async; }))
    document->Paragraph("  cudaMallocAsync ", "reserves in the driver's pool; that pool is simulated CUDA's, a model.",
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

void AddReplay(const ReplayAnswer& answer, Document* document) {
  document->Paragraph("", absl::StrCat(ReplaySentence(answer), "."),
                      answer.is_exact() ? Tone::kHeading : Tone::kWarning);
  document->Gap();
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
  document->Cells(
      {Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft}, rows);
  for (const ReplayedRun* run : ranked) {
    if (run->death.has_value())
      document->Paragraph("  ", absl::StrCat(ConfName(run->conf), ": ", DeathText(*run), "."));
  }
  AddTrust(answer, document);
  for (const ReplayedRun* run : ranked) {
    if (!run->trace.empty()) document->Line(absl::StrCat("  ", ConfName(run->conf), ": ", run->trace), Tone::kAside);
  }
}

namespace {

Datum NeedsDatum(const ReplayedRun& run) {
  constexpr char kFree[] = "at the peak of reserved, inside segments; and the largest range of it";
  std::vector<Datum> needs;
  for (const auto& [device, need] : run.devices) {
    needs.push_back(Datum::Object({{"device", device},
                                   {"peak_reserved_bytes", need.peak_reserved, "the most that segments were"},
                                   {"peak_allocated_bytes", need.peak_allocated, "the most that blocks were"},
                                   {"free_at_peak_bytes", need.free_at_peak, kFree},
                                   {"largest_free_range_bytes", need.largest_free_at_peak, kFree}},
                                  JsonLayout::kOneLine));
  }
  return Datum::List(std::move(needs));
}

Datum DeathDatum(const ReplayedRun& run) {
  if (!run.death.has_value()) return {};
  return Datum::Object({{"request", run.death->at, "from 0"},
                        {"device", run.death->device},
                        {"size_bytes", run.death->size, "that were asked for"},
                        {"of_torch", !run.death->outside, "false: other memory of the process"}},
                       JsonLayout::kOneLine);
}

const std::vector<AnswerColumn<ReplayedRun>>& RunColumns() {
  using Run = ReplayedRun;
  constexpr char kSegments[] =
      "how often segments came from CUDA, and were given back; pages of expandable ones that one request gets count "
      "once, and so does what is mapped at the beginning";
  constexpr char kFailed[] = "of the requests that failed when they were recorded: those that fail here, and do not";
  static const auto* const kColumns = new std::vector<AnswerColumn<Run>>{
      {"settings", "of a run: `PYTORCH_CUDA_ALLOC_CONF`; \"\" = PyTorch's defaults", &Run::conf},
      {"memory_bytes", "of the (simulated) GPU", &Run::memory},
      {"error", "why there is no answer, such as a setting that PyTorch refuses; null = there is one",
       [](const Run& run) { return Datum::TextOrNull(run.error); }},
      {"devices", "one object a GPU", NeedsDatum},
      {"segments", kSegments, [](const Run& run) { return run.segments.got; }},
      {"segments_given_back", kSegments, [](const Run& run) { return run.segments.given_back; }},
      {"retries", "requests for which CUDA had no memory at first", &Run::retries},
      {"failed_requests", kFailed, &Run::failed},
      {"served_requests", kFailed, &Run::served},
      {"requests_done", "how far the replay came", &Run::done},
      {"out_of_memory", "the request that ended it, or null", DeathDatum},
      {"trace", "of the replay, with `--keep`; else null",
       [](const Run& run) { return Datum::TextOrNull(run.trace); }}};
  return *kColumns;
}

Datum RunDatum(const ReplayedRun& run) { return ObjectOf(RunColumns(), run, JsonLayout::kLines); }

Datum DifferenceDatum(const ReplayAnswer& answer) {
  if (!answer.difference.has_value()) return {};
  constexpr char kChange[] = "negative: given back; 0: no further change";
  return Datum::Object({{"device", answer.difference->device},
                        {"index", answer.difference->index, "of the change of its segments, from 0"},
                        {"recorded_bytes", answer.difference->recorded, kChange},
                        {"replayed_bytes", answer.difference->replayed, kChange}},
                       JsonLayout::kOneLine);
}

}  // namespace

Document ReplayDocument(const ReplayAnswer& answer, const ReportInput& input) {
  Document document = HeadFields("replay", input);
  document.Field("answer", ReplaySentence(answer), "the sentence that the text begins with");
  document.Field("exact", answer.is_exact(),
                 "the recorded settings, replayed, gave every recorded segment in order, with nothing missing; and "
                 "where there are what-ifs, the history begins empty");
  document.Field("first_difference", DifferenceDatum(answer), "where they did not; null = no difference");
  document.Field("off_bytes", answer.off(), "how far the replayed peak of reserved is from the recorded one");
  document.Field("doubts", Datum::List(std::vector<Datum>(answer.doubts.begin(), answer.doubts.end())),
                 "sentences: why the answer may be off");
  document.Field("torch", answer.torch, "version of the PyTorch that replayed");
  document.Field("torch_recorded", Datum::TextOrNull(answer.torch_recorded),
                 "of the recorded program, null = not known");
  document.Field("device", answer.device, "the GPU that `answer` and `off_bytes` are about");
  document.Field("requests", answer.facts.requests,
                 "records that are replayed: blocks that come and go, requests that failed, `empty_cache()`, memory of "
                 "others");
  document.Field("recorded", RunDatum(answer.recorded), "what was recorded");
  document.Field("replayed", RunDatum(answer.baseline),
                 "the replay of the recorded settings, from where the history begins");
  document.Field("replayed_anew", answer.anew.has_value() ? RunDatum(*answer.anew) : Datum(),
                 "the same where what lived before is asked for anew, as in what-ifs; null where the history begins "
                 "empty, or nothing else was asked");
  document.Table("what_ifs", "the other settings, in the order in which they were asked for", RunColumns(),
                 answer.what_ifs, {});
  AddReplay(answer, &document);
  return document;
}

}  // namespace gpumem::plan
