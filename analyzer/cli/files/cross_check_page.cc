// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/files/cross_check_page.h"

#include "absl/strings/str_cat.h"
#include "answers/report/cupti_words.h"
#include "base/format.h"

namespace gpumem {
namespace {

CrossCheck Sum(const std::vector<CrossChecked>& processes) {
  CrossCheck sum;
  for (const CrossChecked& process : processes) sum.Add(process.check);
  return sum;
}

}  // namespace

void AddCrossCheck(const std::vector<CrossChecked>& processes, Page* page) {
  const CrossCheck sum = Sum(processes);
  for (const CrossChecked& process : processes) {
    page->Paragraph(absl::StrCat(process.evidence.program, " (", process.evidence.pid, ")  "),
                    absl::StrCat(CuptiSentence(ToInfo(process.evidence.cupti)), "."));
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
    json->Field("state", CuptiStateName(cupti.state()));
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
