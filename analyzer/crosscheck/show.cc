// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "crosscheck/show.h"

#include "absl/strings/str_cat.h"
#include "base/format.h"

namespace gpumem {
namespace {

CrossCheck Sum(const std::vector<CrossChecked>& processes) {
  CrossCheck sum;
  for (const CrossChecked& process : processes) sum.Add(process.check);
  return sum;
}

absl::string_view StateName(trace::CuptiState state) {
  switch (state) {
    case trace::CUPTI_RECORDING:
      return "recording";
    case trace::CUPTI_NO_LIBRARY:
      return "no_library";
    case trace::CUPTI_OTHER_SUBSCRIBER:
      return "other_subscriber";
    case trace::CUPTI_FAILED:
      return "failed";
    case trace::CUPTI_ENDED:
      return "ended";
    default:
      return "not_asked";
  }
}

std::string Losses(const trace::Cupti& cupti) {
  std::string text;
  if (cupti.dropped_records() != 0)
    absl::StrAppend(&text, "; CUPTI dropped ", FormatCountOf(cupti.dropped_records(), "record", "records"));
  if (cupti.lost_records() != 0)
    absl::StrAppend(&text, "; the recorder had no room for ", FormatCount(cupti.lost_records()));
  if (cupti.unknown_records() != 0)
    absl::StrAppend(&text, "; ", FormatCountOf(cupti.unknown_records(), "record was", "records were"),
                    " of kinds that another tool asked for");
  return text;
}

}  // namespace

std::string CuptiSentence(const CrossEvidence& evidence) {
  const trace::Cupti& cupti = evidence.cupti;
  const std::string which = absl::StrCat(" (CUPTI ", cupti.version(), ", ", cupti.library(), ")");
  switch (cupti.state()) {
    case trace::CUPTI_NO_LIBRARY:
      return cupti.version() == 0 ? "no libcupti was found: install CUDA's extras/CUPTI or the nvidia-cuda-cupti wheel "
                                    "of the same version"
                                  : absl::StrCat("CUPTI is older than that of CUDA 11.8", which);
    case trace::CUPTI_OTHER_SUBSCRIBER:
      return cupti.began_ns() == 0
                 ? absl::StrCat("another tool had subscribed to CUPTI before, and goes first", which)
                 : absl::StrCat("CUPTI recorded until another tool subscribed to CUPTI, and left it to that", which,
                                Losses(cupti));
    case trace::CUPTI_FAILED:
      return absl::StrCat("CUPTI refused: CUptiResult ", cupti.error(), which);
    case trace::CUPTI_RECORDING:
      return absl::StrCat("CUPTI recorded, without an end: the process was killed, or ended at once", which,
                          Losses(cupti));
    case trace::CUPTI_ENDED:
      return absl::StrCat("CUPTI recorded to the end", which, Losses(cupti));
    default:
      return "CUPTI was not asked, or had not answered when the process ended";
  }
}

void AddCrossCheck(const std::vector<CrossChecked>& processes, Page* page) {
  const CrossCheck sum = Sum(processes);
  for (const CrossChecked& process : processes) {
    page->Paragraph(absl::StrCat(process.evidence.program, " (", process.evidence.pid, ")  "),
                    absl::StrCat(CuptiSentence(process.evidence), "."));
    if (!process.evidence.damage.empty()) page->Paragraph("  ", process.evidence.damage, Tone::kWarning);
  }
  page->Gap();
  std::vector<Page::Row> rows = {{"seen by", "calls", "allocated", "API", "why"}};
  for (const CrossRow& row : sum.rows) {
    std::string why(GapCauseText(row.cause));
    if (row.other_size != 0) why = absl::StrCat("sizes differ in ", FormatCount(row.other_size));
    rows.push_back({std::string(SeenByName(row.seen_by)), FormatCount(row.calls),
                    row.bytes == 0 ? "" : FormatBytes(row.bytes), row.api, std::move(why)});
  }
  page->Table({Align::kLeft, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft}, rows);
  page->Gap();
  page->Line(absl::StrCat(FormatCount(sum.both), " seen by both, ", FormatCount(sum.only_us), " only by the recorder, ",
                          FormatCount(sum.only_cupti), " only by CUPTI."));
  const uint64_t unexplained = sum.unexplained();
  if (!sum.compared) {
    page->Line("Nothing was compared: CUPTI recorded in no process.", Tone::kAlarm);
  } else if (unexplained != 0) {
    page->Line(absl::StrCat(FormatCountOf(unexplained, "call is", "calls are"), " not explained."), Tone::kAlarm);
  } else {
    page->Line("Every difference has a known cause.", Tone::kGood);
  }
}

void WriteJsonCrossCheck(const std::vector<CrossChecked>& processes, JsonWriter* json) {
  const CrossCheck sum = Sum(processes);
  json->Key("cross_check");
  json->BeginObject();
  json->Field("compared", sum.compared);
  json->Field("both", sum.both);
  json->Field("only_us", sum.only_us);
  json->Field("only_cupti", sum.only_cupti);
  json->Field("unexplained", sum.unexplained());
  json->Key("rows");
  json->BeginArray();
  for (const CrossRow& row : sum.rows) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("seen_by", SeenByName(row.seen_by));
    json->Field("api", row.api);
    json->Field("calls", row.calls);
    json->Field("bytes", row.bytes);
    json->Field("other_size", row.other_size);
    json->Field("cause", GapCauseName(row.cause));
    json->EndObject();
  }
  json->EndArray();
  json->Key("processes");
  json->BeginArray();
  for (const CrossChecked& process : processes) {
    const trace::Cupti& cupti = process.evidence.cupti;
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("pid", process.evidence.pid);
    json->Field("program", process.evidence.program);
    json->Field("state", StateName(cupti.state()));
    json->Field("library", cupti.library());
    json->Field("version", cupti.version());
    json->Field("error", cupti.error());
    json->Field("records", process.evidence.records.size());
    json->Field("dropped_records", cupti.dropped_records());
    json->Field("lost_records", cupti.lost_records());
    json->Field("unknown_records", cupti.unknown_records());
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

}  // namespace gpumem
