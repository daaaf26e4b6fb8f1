// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/bisect/answer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "answers/compare/cause.h"
#include "base/format.h"

namespace gpumem::plan {
namespace {

constexpr size_t kMostNamed = 4;

const char* KindName(BisectKind kind) {
  switch (kind) {
    case BisectKind::kCommits:
      return "commits";
    case BisectKind::kVersions:
      return "versions";
    case BisectKind::kFiles:
      return "files";
    case BisectKind::kSettings:
      return "settings";
  }
  return "";
}

// "+94.0 MiB allocated at the peak (682.4 -> 776.4 MiB, +13.8 %)".
std::string ChangeText(const std::string& measure, uint64_t before, uint64_t after) {
  const double share =
      before == 0 ? 0 : 100 * (static_cast<double>(after) - static_cast<double>(before)) / static_cast<double>(before);
  const std::string of = measure == "process" ? "for the process" : measure;
  return absl::StrCat(SignedChange(static_cast<int64_t>(after) - static_cast<int64_t>(before)), " ", of,
                      " at the peak (", FormatBytes(before), " -> ", FormatBytes(after),
                      absl::StrFormat(", %+.1f %%)", share));
}

std::string Named(std::vector<std::string> names) {
  const size_t more = names.size() - std::min(names.size(), kMostNamed);
  names.resize(names.size() - more);
  return absl::StrCat(absl::StrJoin(names, ", "), more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

// "torch 2.4.0", "3f2c1ab", "b.yaml".
std::string NameOf(const BisectAnswer& answer, const BisectLook& look) {
  return answer.kind == BisectKind::kVersions ? absl::StrCat(answer.subject, " ", look.state.name) : look.state.name;
}

std::string AuthorOf(const HistoryState& state) {
  return state.subject.empty() ? "" : absl::StrCat(state.subject, " (", state.author, ", ", state.date, ")");
}

// What decides and nobody computed makes a number one of several.
void AddOther(const OtherValues& other, uint64_t before, uint64_t after, Document* document) {
  if (!other.tried || (other.before == before && other.after == after)) return;
  const auto text = [](const std::optional<uint64_t>& bytes) {
    return bytes.has_value() ? FormatBytes(*bytes) : "not known";
  };
  document->Paragraph(
      "  Not certain: ",
      absl::StrCat("with other values where nobody computed them: ", text(other.before), " -> ", text(other.after)),
      Tone::kWarning);
}

Datum OtherDatum(const OtherValues& other) {
  if (!other.tried) return {};
  return Datum::Object({{"before_bytes", Datum(other.before), "null: such a run did not end well"},
                        {"after_bytes", Datum(other.after)}});
}

void AddStep(const BisectAnswer& answer, const BisectStep& step, Document* document) {
  const BisectLook &before = answer.looks[step.before], &after = answer.looks[step.after];
  document->Line(absl::StrCat(NameOf(answer, after), ": ", ChangeText(answer.measure, *before.bytes, *after.bytes)),
                 Tone::kHeading);
  if (!after.state.subject.empty()) document->Paragraph("  ", AuthorOf(after.state));
  if (!step.failed.empty())
    document->Paragraph("  ",
                        absl::StrCat("or one of ", FormatCountOf(step.failed.size(), "state", "states"), " between ",
                                     before.state.name, " and it that cannot be run: ", Named(step.failed)),
                        Tone::kWarning);
  if (step.unlooked > 0)
    document->Paragraph(
        "  ",
        absl::StrCat("or one of ", step.unlooked, " between ", before.state.name, " and it that were not looked at"),
        Tone::kWarning);
  if (!step.cause.headline.empty()) document->Paragraph("  ", step.cause.headline);
  for (const std::string& doubt : step.cause.doubts) document->Paragraph("  ", doubt, Tone::kWarning);
  AddOther(step.other, *before.bytes, *after.bytes, document);
}

std::string MissingText(const BisectAnswer& answer) {
  const auto runs = [](const BisectLook& look) { return look.bytes.has_value(); };
  if (std::none_of(answer.looks.begin(), answer.looks.end(), runs)) return "Not known: nothing of it runs.";
  if (std::count_if(answer.looks.begin(), answer.looks.end(), runs) == 1) return "Not known: only one of it runs.";
  if (answer.above.has_value()) {
    const auto first = std::find_if(answer.looks.begin(), answer.looks.end(), runs);
    const bool is_above = *first->bytes > *answer.above;
    return absl::StrCat(is_above ? "The first is above " : "None is above ", FormatBytes(*answer.above),
                        is_above ? " already." : ".");
  }
  return "No step: what was looked at needs the same.";
}

void AddHistory(const BisectAnswer& answer, Document* document) {
  if (answer.steps.empty()) {
    document->Line(MissingText(answer), Tone::kHeading);
  } else {
    AddStep(answer, answer.steps.front(), document);
  }
  if (answer.steps.size() > 1) {
    std::vector<std::string> others;
    for (size_t i = 1; i < answer.steps.size(); ++i) {
      const BisectStep& step = answer.steps[i];
      others.push_back(absl::StrCat(answer.looks[step.after].state.name, " ", SignedChange(step.change)));
    }
    document->Paragraph("  Other steps: ", Named(std::move(others)));
  }
  document->Gap();
  std::vector<AnswerColumn<BisectLook>> columns = {
      {"",
       answer.kind == BisectKind::kCommits    ? "commit"
       : answer.kind == BisectKind::kVersions ? "version"
                                              : "file",
       Unit::kText, "", [](const BisectLook& look) { return look.state.name; }},
      {"", answer.measure, Unit::kBytesOrDash, "",
       [](const BisectLook& look) { return Datum::If(look.bytes.has_value(), look.bytes.value_or(0)); },
       [](const BisectLook& look) { return look.bytes.has_value() ? FormatBytesAligned(*look.bytes) : "-"; }}};
  if (answer.kind == BisectKind::kCommits) {
    columns.emplace_back("", "date", Unit::kText, "", [](const BisectLook& look) { return look.state.date; });
  }
  columns.emplace_back(
      "", answer.kind == BisectKind::kCommits ? "subject" : "result", Unit::kText, "", [](const BisectLook& look) {
        return look.bytes.has_value() ? look.state.subject : absl::StrCat("cannot be run: ", look.reason);
      });
  document->Table("", "", std::move(columns), answer.looks, {});
  document->Gap();
  const size_t unlooked = answer.states - answer.looks.size();
  document->Line(absl::StrCat("  ", answer.looks.size(), " of ", answer.states, " ", KindName(answer.kind),
                              " were looked at, in ", FormatCountOf(answer.runs, "new run", "new runs")),
                 Tone::kAside);
  if (unlooked > 0 && !answer.above.has_value())
    document->Line("  Steps that cancel each other between two of them were not seen: --looks N looks at more",
                   Tone::kAside);
}

// "eval_every 0 -> 2".
std::string SettingText(const SettingsChange& change) {
  if (!change.good.has_value()) return absl::StrCat(change.name, " (new) ", *change.bad);
  return absl::StrCat(change.name, " ", *change.good, " -> ", change.bad.value_or("(gone)"));
}

void AddSettings(const BisectAnswer& answer, Document* document) {
  const BisectSettings& settings = answer.settings;
  if (!settings.good.has_value() || !settings.bad.has_value()) {
    document->Line("Not known: an end cannot be run.", Tone::kHeading);
    if (!settings.good.has_value())
      document->Paragraph(absl::StrCat("  ", answer.good, ": "), settings.good_reason, Tone::kWarning);
    if (!settings.bad.has_value())
      document->Paragraph(absl::StrCat("  ", answer.bad, ": "), settings.bad_reason, Tone::kWarning);
    return;
  }
  if (settings.found.empty())
    return document->Line(absl::StrCat("No difference: both need ", FormatBytes(*settings.good), " at the peak."),
                          Tone::kHeading);
  std::vector<std::string> names;
  for (const size_t index : settings.found) names.push_back(SettingText(settings.changes[index]));
  document->Line(absl::StrCat(absl::StrJoin(names, " and "), names.size() > 1 ? ", together: " : ": ",
                              ChangeText(answer.measure, *settings.good, *settings.with_found)),
                 Tone::kHeading);
  if (!settings.cause.headline.empty()) document->Paragraph("  ", settings.cause.headline);
  for (const std::string& doubt : settings.cause.doubts) document->Paragraph("  ", doubt, Tone::kWarning);
  AddOther(settings.other, *settings.good, *settings.with_found, document);
  for (size_t i = 0; i < settings.alone.size() && settings.found.size() > 1; ++i) {
    const std::optional<uint64_t>& alone = settings.alone[i];
    document->Paragraph("  Alone: ", absl::StrCat(settings.changes[settings.found[i]].name, " ",
                                                  alone.has_value() ? SignedChange(static_cast<int64_t>(*alone) -
                                                                                   static_cast<int64_t>(*settings.good))
                                                                    : "cannot be run"));
  }
  const size_t others = settings.changes.size() - settings.found.size();
  if (others > 0) {
    const int64_t rest = static_cast<int64_t>(*settings.bad) - static_cast<int64_t>(*settings.with_found);
    document->Paragraph(
        "  ",
        absl::StrCat("The other ", FormatCountOf(others, "setting that differs adds ", "settings that differ add "),
                     SignedChange(rest)));
  }
}

Datum CauseDatum(const StepCause& cause) {
  std::vector<Datum> doubts(cause.doubts.begin(), cause.doubts.end());
  return Datum::Object({{"headline", Datum::TextOrNull(cause.headline)},
                        {"kind", Datum::TextOrNull(cause.kind)},
                        {"doubts", Datum::List(std::move(doubts))}});
}

void AddStepFields(const BisectAnswer& answer, Document* document) {
  std::vector<Datum> steps;
  for (const BisectStep& step : answer.steps) {
    const BisectLook &before = answer.looks[step.before], &after = answer.looks[step.after];
    std::vector<Datum> failed(step.failed.begin(), step.failed.end());
    steps.push_back(Datum::Object(
        {{"before", before.state.name, "names of the two states beside it"},
         {"after", after.state.name},
         {"subject", Datum::TextOrNull(after.state.subject), "of a commit, as author and date"},
         {"author", Datum::TextOrNull(after.state.author)},
         {"date", Datum::TextOrNull(after.state.date)},
         {"before_bytes", *before.bytes, "the measured peak"},
         {"after_bytes", *after.bytes},
         {"change_bytes", step.change},
         {"not_running", Datum::List(std::move(failed)), "states between them, any of which may be it"},
         {"not_looked_at", step.unlooked, "how many between them were not looked at"},
         {"other_values", OtherDatum(step.other),
          "the two where values that nobody computed are others; null: there are none; of the first step"},
         {"cause", CauseDatum(step.cause), "what `gpumemshim diff` of the two says; of the first step"}}));
  }
  document->Field("steps", Datum::List(std::move(steps)),
                  "those that count, largest change first; with --above the one that crosses it");
  std::vector<AnswerColumn<BisectLook>> columns = {
      {"index", "in the history, from 0", [](const BisectLook& look) { return look.index; }},
      {"name", "", [](const BisectLook& look) { return look.state.name; }},
      {"bytes", "its peak; null: it cannot be run", [](const BisectLook& look) { return Datum(look.bytes); }},
      {"reason", "why not", [](const BisectLook& look) { return Datum::TextOrNull(look.reason); }},
      {"trace", "file within `directory`", [](const BisectLook& look) { return Datum::TextOrNull(look.trace); }}};
  document->Table("looks", "one object for each state that was looked at, in order", std::move(columns), answer.looks,
                  {.is_shown = false});
}

void AddSettingFields(const BisectSettings& settings, Document* document) {
  std::vector<Datum> found;
  for (size_t i = 0; i < settings.found.size(); ++i) {
    const SettingsChange& change = settings.changes[settings.found[i]];
    found.push_back(Datum::Object({{"name", change.name},
                                   {"good", Datum(change.good), "as it is written; null: the side lacks it"},
                                   {"bad", Datum(change.bad)},
                                   {"alone_bytes", i < settings.alone.size() ? Datum(settings.alone[i]) : Datum(),
                                    "the peak of the good one with this alone; null: not known"}}));
  }
  document->Field("settings", Datum::List(std::move(found)),
                  "the smallest set that makes nine tenths of the difference");
  document->Field("differing", settings.changes.size(), "how many settings differ");
  document->Field("good_bytes", Datum(settings.good),
                  "peaks: of the good one, the bad one, the good one with those settings");
  document->Field("bad_bytes", Datum(settings.bad), "");
  document->Field("with_settings_bytes", Datum(settings.with_found), "");
  document->Field("other_values", OtherDatum(settings.other),
                  "both where values that nobody computed are others; null: there are none");
  document->Field("cause", CauseDatum(settings.cause),
                  "what `gpumemshim diff` of the good one without and with them says");
}

}  // namespace

Document BisectDocument(const BisectAnswer& answer) {
  Document document;
  document.Field("kind", KindName(answer.kind), "`commits`, `versions`, `files` or `settings`");
  document.Field("package", Datum::TextOrNull(answer.subject), "of `versions`");
  document.Field("good", answer.good, "the ends, as they were given");
  document.Field("bad", answer.bad, "");
  document.Field("measure", answer.measure, "which peak: `allocated`, `reserved` or `process`");
  std::vector<Datum> command(answer.command.begin(), answer.command.end());
  document.Field("command", Datum::List(std::move(command), JsonLayout::kOneLine), "secrets masked");
  document.Field("device", answer.device, "");
  document.Field("above_bytes", Datum(answer.above), "of --above");
  document.Field("found", answer.found(), "whether the question has an answer");
  if (answer.kind == BisectKind::kSettings) {
    AddSettingFields(answer.settings, &document);
    AddSettings(answer, &document);
  } else {
    document.Field("states", answer.states, "of the history, ends included");
    AddStepFields(answer, &document);
    AddHistory(answer, &document);
  }
  document.Field("runs", answer.runs, "that were made now; the others were kept from an earlier time");
  document.Field("directory", answer.directory, "where the traces are");
  std::vector<Datum> notes(answer.notes.begin(), answer.notes.end());
  document.Field("notes", Datum::List(std::move(notes)), "what the numbers rest on");
  for (const std::string& note : answer.notes) document.Paragraph("  Note: ", note, Tone::kAside);
  return document;
}

}  // namespace gpumem::plan
