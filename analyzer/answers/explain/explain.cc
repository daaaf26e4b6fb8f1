// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/explain/explain.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/format.h"

namespace gpumem {
namespace {

std::vector<Check> ChecksOf(CheckTopic topic, const ExplainSubject& subject) {
  switch (topic) {
    case CheckTopic::kOom:
      return OomChecks(subject);
    case CheckTopic::kLeak:
      return LeakChecks(subject);
    case CheckTopic::kFragmentation:
      return FragmentationChecks(subject);
    case CheckTopic::kPeak:
      return PeakChecks(subject);
  }
  return {};
}

// What the program died of, then what grows: a rate comes to more than any single saving in the end. Then what is known
// to save most; what is too little for a headline comes last.
int RankOf(const Check& check) {
  if (check.is_minor) return 4;
  if (check.topic == CheckTopic::kOom) return check.saving.basis == SavingBasis::kNone ? 0 : 1;
  return check.saving.per_iteration ? 2 : 3;
}

bool IsMoreUseful(const Check* a, const Check* b) {
  if (RankOf(*a) != RankOf(*b)) return RankOf(*a) < RankOf(*b);
  return a->saving.bytes > b->saving.bytes;
}

std::vector<const Check*> Found(const Explanation& explanation) {
  std::vector<const Check*> found;
  for (const Check& check : explanation.checks)
    if (check.outcome == CheckOutcome::kFound) found.push_back(&check);
  std::stable_sort(found.begin(), found.end(), IsMoreUseful);
  return found;
}

// What an action sets, "expandable_segments:True"; "" where it is not a setting.
absl::string_view SettingsOf(absl::string_view action) {
  return absl::ConsumePrefix(&action, "PYTORCH_CUDA_ALLOC_CONF=") ? action.substr(0, action.find(';'))
                                                                  : absl::string_view();
}

bool HasAllOf(absl::string_view settings, absl::string_view others) {
  const std::vector<absl::string_view> of = absl::StrSplit(settings, ',');
  const std::vector<absl::string_view> wanted = absl::StrSplit(others, ',');
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](absl::string_view each) { return std::find(of.begin(), of.end(), each) != of.end(); });
}

// Whether who follows one piece of advice has followed the other.
bool IsSameAdvice(const Check& a, const Check& b) {
  if (a.action.empty() || b.action.empty()) return false;
  if (a.action == b.action) return true;
  const absl::string_view first = SettingsOf(a.action), second = SettingsOf(b.action);
  return !first.empty() && !second.empty() && (HasAllOf(first, second) || HasAllOf(second, first));
}

// Checks that advise the same, as one piece of advice: the surest saving first, whose action is the one to show.
std::vector<std::vector<const Check*>> Advice(const std::vector<const Check*>& found) {
  std::vector<std::vector<const Check*>> advice;
  for (const Check* const check : found) {
    const auto same = std::find_if(advice.begin(), advice.end(), [&](const std::vector<const Check*>& each) {
      return IsSameAdvice(*each.front(), *check);
    });
    if (same == advice.end()) {
      advice.push_back({check});
      continue;
    }
    const auto is_surer = [](const Saving& a, const Saving& b) {
      return a.basis != SavingBasis::kNone && (a.basis < b.basis || (a.basis == b.basis && a.bytes > b.bytes));
    };
    const bool is_surest = is_surer(check->saving, same->front()->saving);
    same->insert(is_surest ? same->begin() : same->end(), check);
  }
  return advice;
}

// Why all of it may be wrong.
std::string DoubtOf(const Analysis& analysis) {
  if (!analysis.damage.empty()) return "Unsure, the trace is damaged: ";
  const uint64_t lost = analysis.losses.Total();
  if (lost == 0 && !analysis.complete && !analysis.snapshot) {
    if (analysis.state == Analysis::Process::kRunning) return "So far, as the program still runs: ";
    if (analysis.end_unknown) return "Unsure, the trace has no end: ";
  }
  return lost == 0 ? "" : absl::StrCat("Unsure, ", FormatCountOf(lost, "event is", "events are"), " missing: ");
}

std::string Headline(const Explanation& explanation) {
  const std::vector<const Check*> found = Found(explanation);
  const std::string of = absl::StrCat(" of ", FormatCountOf(explanation.checks.size(), "check", "checks"));
  const size_t unknown = explanation.Count(CheckOutcome::kUnknown);
  const std::string doubt = unknown == 0 ? "" : absl::StrCat("; ", unknown, " could not be answered");
  if (found.empty()) return absl::StrCat("none", of, " found anything to change", doubt);
  std::string text = absl::StrCat(found.size(), of, " found something");
  const auto useful = std::find_if(found.begin(), found.end(), [](const Check* check) {
    return check->saving.bytes != 0 && !check->action.empty() && !check->is_minor;
  });
  if (useful != found.end()) {
    absl::StrAppend(&text, "; most: ", (*useful)->evidence, " (", CheckTopicName((*useful)->topic), ", ",
                    SavingText((*useful)->saving), ")");
  }
  return absl::StrCat(text, doubt);
}

std::vector<AnswerColumn<Check>> CheckColumns() {
  constexpr char kWhich[] = "`peak.optimizer_state`; `oom`, `leak`, `fragmentation`, `peak`";
  constexpr char kWords[] = "what was checked, what was found, what to do (may be empty)";
  constexpr char kSaving[] = "how much; true: bytes a step";
  return {
      {"id", kWhich, &Check::id},
      {"topic", kWhich, [](const Check& check) { return CheckTopicName(check.topic); }},
      {"question", kWords, &Check::question},
      {"outcome", "`found`, `clear`, `unknown`", [](const Check& check) { return CheckOutcomeName(check.outcome); }},
      {"evidence", kWords, &Check::evidence},
      {"action", kWords, &Check::action},
      {"saving_basis", "`none`, `exact`, `replayed`, `at_most`, `arithmetic`, `estimate`, `unknown`",
       [](const Check& check) { return SavingBasisName(check.saving.basis); }},
      {"saving_bytes", kSaving, [](const Check& check) { return check.saving.bytes; }},
      {"saving_per_iteration", kSaving, [](const Check& check) { return check.saving.per_iteration; }},
  };
}

void AddFields(const Explanation& explanation, Document* answer) {
  constexpr char kCount[] = "how many checks";
  answer->Field("device", Datum::If(explanation.device >= 0, explanation.device), "null = no GPU memory");
  answer->Field("verdict", VerdictName(explanation.kind),
                "of the whole trace: `nothing`, `fits`, `unknown`, `fragmented`, `nearly_full`, `growing`, "
                "`out_of_memory`");
  answer->Field("verdict_text", explanation.verdict, "what went wrong, or why nothing has to be done");
  answer->Field("headline", explanation.headline, "one sentence: how many checks found something, and the most useful");
  answer->Field("found", explanation.Count(CheckOutcome::kFound), kCount);
  answer->Field("clear", explanation.Count(CheckOutcome::kClear), kCount);
  answer->Field("unknown", explanation.Count(CheckOutcome::kUnknown), kCount);
  answer->Table("checks", "every one, in the order of its list ([the lists](commands/explain.md#the-lists))",
                CheckColumns(), explanation.checks, {});
}

// Checks of one advice, the surest saving first.
void AddAdvice(const std::vector<const Check*>& checks, Document* answer) {
  answer->Gap();
  for (const Check* const check : checks) {
    answer->Line(absl::StrCat("  ", check->question), Tone::kHeading);
    answer->Paragraph("    found   ", check->evidence);
  }
  const Check& surest = *checks.front();
  if (!surest.action.empty()) answer->Paragraph("    do      ", surest.action);
  if (const std::string saving = SavingText(surest.saving); !saving.empty())
    answer->Paragraph("            ", saving, Tone::kAside);
}

void AddChecks(const char* title, CheckOutcome outcome, const Explanation& explanation, Document* answer) {
  if (explanation.Count(outcome) == 0) return;
  answer->Heading(title);
  for (const Check& check : explanation.checks) {
    if (check.outcome != outcome) continue;
    answer->Paragraph(
        "  ", absl::StrCat(check.question, " ", check.evidence, check.action.empty() ? "" : "; ", check.action));
  }
}

}  // namespace

size_t Explanation::Count(CheckOutcome outcome) const {
  return static_cast<size_t>(
      std::count_if(checks.begin(), checks.end(), [&](const Check& check) { return check.outcome == outcome; }));
}

Explanation Explain(const ExplainSubject& subject, const std::vector<CheckTopic>& topics) {
  Explanation explanation;
  explanation.device = subject.device == nullptr ? -1 : subject.device->device;
  for (const CheckTopic topic : kCheckTopics) {
    if (!topics.empty() && std::find(topics.begin(), topics.end(), topic) == topics.end()) continue;
    std::vector<Check> checks = ChecksOf(topic, subject);
    std::move(checks.begin(), checks.end(), std::back_inserter(explanation.checks));
  }
  explanation.headline = absl::StrCat(DoubtOf(*subject.input->analysis), Headline(explanation));
  const Verdict verdict = MakeVerdict(*subject.input);
  explanation.kind = verdict.kind;
  explanation.verdict = verdict.problem.empty() ? verdict.action : verdict.problem;
  return explanation;
}

Document ExplanationAnswer(const Explanation& explanation, bool full) {
  const std::vector<std::vector<const Check*>> advice = Advice(Found(explanation));
  Document answer;
  AddFields(explanation, &answer);
  answer.Gap();
  answer.Paragraph("", explanation.headline, Tone::kHeading);
  if (!explanation.verdict.empty()) answer.Paragraph("Verdict  ", explanation.verdict);
  for (const std::vector<const Check*>& checks : advice) AddAdvice(checks, &answer);
  if (advice.size() > 1) {
    answer.Gap();
    answer.Line("Savings do not add up where they name the same memory.", Tone::kAside);
  }
  AddChecks("Not known", CheckOutcome::kUnknown, explanation, &answer);
  const size_t clear = explanation.Count(CheckOutcome::kClear);
  if (full) {
    AddChecks("Nothing found", CheckOutcome::kClear, explanation, &answer);
  } else if (clear != 0) {
    answer.Gap();
    answer.Line(absl::StrCat(FormatCountOf(clear, "check", "checks"), " found nothing: --full shows them"),
                Tone::kAside);
  }
  return answer;
}

}  // namespace gpumem
