// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "attach/child.h"
#include "attach/preload.h"
#include "base/format.h"
#include "base/secrets.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "ledger/saved/index_file.h"
#include "planner/bisect/answer.h"
#include "planner/bisect/history.h"
#include "planner/bisect/looks.h"
#include "planner/bisect/search.h"
#include "planner/bisect/settings.h"
#include "planner/cli/plan_flags.h"
#include "planner/launch/program.h"
#include "planner/sweep/spec.h"
#include "render/draw.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

constexpr double kLeastShare = 0.005;  // of a step that is reported
constexpr size_t kMostAlone = 4;

class BisectCommand final : public Command {
 public:
  absl::string_view name() const override { return "bisect"; }
  CommandPlace place() const override { return {CommandGroup::kPredict, 5}; }
  absl::string_view summary() const override { return "which commit, version or setting made it need more"; }
  bool takes_traces() const override { return false; }
  bool takes_marked_command_line() const override { return true; }
  absl::string_view arguments() const override { return "--good A --bad B [FLAGS] -- COMMAND [ARGUMENT...]"; }
  absl::string_view help() const override {
    return R"(Finds what changed a program's peak: runs it on a simulated GPU (as gpumemshim plan does), or on this machine's
GPU with --run, for as few states between A and B as it takes, and says why the two beside the step differ. A and B
are git revisions, versions of an installed package (--package), two YAML or JSON files, or two command lines: of
settings it finds the smallest set that makes the difference. Your repository and environment are only read. Run
the same command again to resume.

  gpumemshim bisect --good v1.2 --bad main -- python train.py
  gpumemshim bisect --package transformers --good 4.45 --bad 5.2 -- python finetune.py
  gpumemshim bisect --good small.yaml --bad large.yaml -- python train.py --config small.yaml
  gpumemshim bisect --good 'python train.py --lr 1' --bad 'python train.py --lr 2 --batch 16'
  gpumemshim bisect --above 24GiB --good HEAD~40 --bad HEAD -- python train.py
  gpumemshim bisect --files a.yaml b.yaml c.yaml -- python train.py --config '{}'

Exit code 0: what it was is found; 3: the ends cannot be run; 7: not known, nothing differs.
)";
  }

  void AddFlags(Flags* flags) override {
    flags->Add("--good", &good_, "the one end: a revision, a version, a file, or a command line").Value("A");
    flags->Add("--bad", &bad_, "the other end (HEAD for commits)").Value("B");
    flags->Add("--package", &package_, "look at the versions of this package").Value("NAME");
    flags->Add("--wheelhouse", &wheelhouse_, "take them from this folder of wheels, and not from the index")
        .Value("DIR");
    flags->Add("--files", &files_, "look at these files, in this order").Value("FILE...");
    flags->Add("--above", &above_, "find the first above this peak: a size, or +N% of the one end").Value("SIZE");
    flags->Add("--by", &measure_, "which peak: allocated (the default), reserved or process")
        .Value("WHAT")
        .OneOf({"allocated", "reserved", "process"});
    flags->Add("--looks", &looks_, "at most so many, where the ends of a stretch need the same (12 and more)")
        .Value("N");
    flags->Add("--link", &link_, "of what git does not track, link only what this pattern fits")
        .Value("PATTERN")
        .Repeats();
    flags->Add("--no-link", &no_link_, "do not link what this pattern fits").Value("PATTERN").Repeats();
    flags->Add("--run", &on_gpu_, "run on this machine's GPU, and not on a simulated one");
    flags->Add("--results-dir", &results_dir_, "where measurements and traces are kept (the cache)").Value("DIR");
    flags->Add("--json", &json_, "exact numbers for machines (docs/commands/bisect.md)");
    plan_.AddFlags(flags);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    const auto mark = std::find(arguments.begin(), arguments.end(), "--");
    std::vector<std::string> command(mark == arguments.end() ? mark : mark + 1, arguments.end());
    if (mark != arguments.begin())
      return absl::InvalidArgumentError(
          absl::StrCat("\"", arguments.front(), "\" is not a flag. The command stands behind --"));
    GPUMEM_ASSIGN_OR_RETURN(answer_.kind, KindOf(&command));
    RunRequest base;
    base.command = command;
    base.on_gpu = on_gpu_;
    if (const absl::Status status = plan_.Fill(&base); !status.ok())
      return absl::InvalidArgumentError(status.message());
    SimulationTools tools;
    if (on_gpu_) {
      GPUMEM_ASSIGN_OR_RETURN(tools.recorder, FindShimLibrary());
    } else {
      GPUMEM_ASSIGN_OR_RETURN(tools, FindSimulation());
    }
    const SignalGuard guard;
    const absl::StatusOr<int> code = Bisect(base, tools, console);
    console->ProgressDone();
    if (SignalGuard::Noted() == 0) return code;
    console->Complain("interrupted. Run the same command to go on where it stopped.");
    return EndLike(SignalGuard::Noted());
  }

 private:
  absl::StatusOr<BisectKind> KindOf(std::vector<std::string>* command) {
    if (!files_.empty()) {
      if (command->empty())
        return absl::InvalidArgumentError("no command. Give one behind --, with {} where the file goes.");
      if (files_.size() < 2) return absl::InvalidArgumentError("--files takes two files or more, in order");
      good_ = files_.front();
      bad_ = files_.back();
      return BisectKind::kFiles;
    }
    if (good_.empty() || (bad_.empty() && (!package_.empty() || command->empty())))
      return absl::InvalidArgumentError(
          "--good and --bad name the two ends, as in: gpumemshim bisect --good v1.2 --bad main -- python train.py");
    if (command->empty()) {
      GPUMEM_ASSIGN_OR_RETURN(good_command_, SplitWords(good_));
      GPUMEM_ASSIGN_OR_RETURN(bad_command_, SplitWords(bad_));
      if (good_command_.size() < 2 || bad_command_.size() < 2)
        return absl::InvalidArgumentError("no command. Give one behind --, or two command lines as --good and --bad.");
      *command = good_command_;
      return BisectKind::kSettings;
    }
    if (!package_.empty()) return BisectKind::kVersions;
    std::error_code error;
    if (fs::is_regular_file(good_, error) && fs::is_regular_file(bad_, error)) return BisectKind::kSettings;
    if (bad_.empty()) bad_ = "HEAD";
    return BisectKind::kCommits;
  }

  // One folder a question.
  std::string FolderFor(const std::vector<std::string>& command) const {
    if (!results_dir_.empty()) return results_dir_;
    std::error_code error;
    const std::string place = answer_.kind == BisectKind::kVersions ? package_ : fs::current_path(error).string();
    const std::string cache =
        CacheFolder().empty() ? (fs::temp_directory_path(error) / "gpumemshim").string() : CacheFolder();
    const std::string name = FileNameOf(
        {{"of", fs::path(place).filename().string()}, {"", absl::StrCat(place, "\n", absl::StrJoin(command, " "))}});
    return absl::StrCat(cache, "/bisect/", name.substr(name.size() - std::min<size_t>(name.size(), 60)));
  }

  absl::StatusOr<int> Bisect(const RunRequest& base, const SimulationTools& tools, Console* console) {
    const std::string folder = FolderFor(base.command);
    GPUMEM_RETURN_IF_ERROR(MakeIndexFolder(fs::absolute(folder).lexically_normal().string()));
    GPUMEM_ASSIGN_OR_RETURN(SweepJournal journal, SweepJournal::Open(folder));
    const bool forks = answer_.kind == BisectKind::kSettings || answer_.kind == BisectKind::kFiles;
    // Of commits the tree says it.
    const std::string script = answer_.kind == BisectKind::kCommits ? "" : ScriptState(base.command);
    Looks looks(base, tools, measure_, forks ? RunPool::Start::kForked : RunPool::Start::kFresh,
                absl::StrCat(GPUMEM_VERSION, ", script ", script), &journal, console);
    answer_.subject = package_;
    answer_.good = good_;
    answer_.bad = bad_;
    answer_.measure = measure_;
    answer_.command = WithoutSecrets(base.command);
    answer_.device = base.on_gpu ? "the machine's GPU" : base.device.full_name;
    answer_.directory = journal.directory();
    GPUMEM_RETURN_IF_ERROR(answer_.kind == BisectKind::kSettings ? FindSettings(base, journal, &looks)
                                                                 : FindStep(base, journal, &looks, console));
    answer_.runs = looks.runs();
    const Document document = BisectDocument(answer_);
    console->ProgressDone();
    console->Print(json_ ? ToJson(document) : ToText(document, console->out_style()));
    if (answer_.found()) return kExitFine;
    return NoneRuns() ? kExitCannotRead : kExitNotKnown;
  }

  bool NoneRuns() const {
    if (answer_.kind == BisectKind::kSettings)
      return !answer_.settings.good.has_value() || !answer_.settings.bad.has_value();
    return std::count_if(answer_.looks.begin(), answer_.looks.end(),
                         [](const BisectLook& look) { return look.bytes.has_value(); }) < 2;
  }

  absl::StatusOr<std::unique_ptr<History>> OpenHistory(const RunRequest& base, const SweepJournal& journal) const {
    if (answer_.kind == BisectKind::kFiles) return OpenFiles(files_, base.command);
    if (answer_.kind == BisectKind::kVersions)
      return OpenVersions({package_, good_, bad_, wheelhouse_, base.command}, journal.directory());
    return OpenCommits({good_, bad_, link_, no_link_, base.command}, journal.working_folder());
  }

  // --above, once the first end's bytes are known.
  absl::StatusOr<uint64_t> LimitOf(uint64_t first) const {
    absl::string_view text = above_;
    if (absl::ConsumePrefix(&text, "+")) {
      double percent = 0;
      if (absl::ConsumeSuffix(&text, "%") && absl::SimpleAtod(text, &percent) && percent >= 0)
        return first + static_cast<uint64_t>(static_cast<double>(first) * percent / 100);
    } else if (const std::optional<uint64_t> bytes = ParseBytes(text); bytes.has_value()) {
      return *bytes;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("--above ", above_, " is neither a size, as 24GiB, nor a share of the one end, as +10%"));
  }

  absl::Status FindStep(const RunRequest& base, const SweepJournal& journal, Looks* looks, Console* console) {
    console->Working("listing what there is");
    GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<History> history, OpenHistory(base, journal));
    const std::vector<HistoryState>& states = history->states();
    std::map<size_t, SweepRow> rows;
    const auto look = [&](size_t index) -> absl::StatusOr<std::optional<uint64_t>> {
      const std::string name = absl::StrCat(states[index].name, " (", rows.size() + 1, ")");
      GPUMEM_ASSIGN_OR_RETURN(rows[index], looks->Take(states[index].identity, name,
                                                       [&](RunRequest* run) { return history->Prepare(index, run); }));
      return looks->BytesOf(rows[index]);
    };
    HistorySearch search(states.size(), look);
    if (above_.empty()) {
      GPUMEM_RETURN_IF_ERROR(search.FindSteps({static_cast<size_t>(looks_), kLeastShare}));
    } else {
      GPUMEM_ASSIGN_OR_RETURN(const std::optional<uint64_t> first, look(0));
      if (!first.has_value() && absl::StartsWith(above_, "+"))
        return absl::FailedPreconditionError(
            absl::StrCat(states.front().name, " cannot be run, so nothing is known above it: ", rows[0].reason));
      GPUMEM_ASSIGN_OR_RETURN(answer_.above, LimitOf(first.value_or(0)));
      GPUMEM_RETURN_IF_ERROR(search.FindFirstAbove(*answer_.above));
    }
    answer_.states = states.size();
    std::map<size_t, size_t> place;  // of a state among the looks
    for (const auto& [index, bytes] : search.looks()) {
      place[index] = answer_.looks.size();
      answer_.looks.push_back({index, states[index], bytes, bytes.has_value() ? "" : rows[index].reason,
                               rows[index].trace, rows[index].unknown_reads});
    }
    TakeSteps(search, states, place);
    if (!answer_.steps.empty()) {
      BisectStep& step = answer_.steps.front();
      console->Working("comparing the two beside the step");
      const BisectLook &before = answer_.looks[step.before], &after = answer_.looks[step.after];
      step.cause = CauseBetween(absl::StrCat(journal.directory(), "/", before.trace),
                                absl::StrCat(journal.directory(), "/", after.trace));
      step.other.tried = before.unknown_reads + after.unknown_reads > 0;
      for (const auto& [side, bytes] : {std::pair{&before, &step.other.before}, {&after, &step.other.after}}) {
        const size_t index = side->index;
        if (!step.other.tried) break;
        GPUMEM_ASSIGN_OR_RETURN(*bytes, looks->WithOtherValues(states[index].identity, [&](RunRequest* run) {
          return history->Prepare(index, run);
        }));
      }
    }
    answer_.notes = history->notes();
    return absl::OkStatus();
  }

  void TakeSteps(const HistorySearch& search, const std::vector<HistoryState>& states,
                 const std::map<size_t, size_t>& place) {
    std::vector<HistoryStep> steps = search.steps();
    if (!above_.empty())
      steps = search.crossing().has_value() ? std::vector<HistoryStep>{*search.crossing()} : std::vector<HistoryStep>{};
    for (const HistoryStep& found : steps) {
      const double larger = static_cast<double>(std::max(search.bytes(found.before), search.bytes(found.after)));
      if (above_.empty() && static_cast<double>(std::abs(found.change)) < kLeastShare * larger &&
          !answer_.steps.empty())
        continue;
      BisectStep step{place.at(found.before), place.at(found.after), found.change, {}, found.unlooked, {}, {}};
      for (size_t index = found.before + 1; index < found.after; ++index) {
        if (search.looks().count(index) != 0) step.failed.push_back(states[index].name);
      }
      answer_.steps.push_back(std::move(step));
    }
  }

  absl::Status FindSettings(const RunRequest& base, const SweepJournal& journal, Looks* looks) {
    const bool of_lines = !good_command_.empty();
    GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Settings> settings,
                            of_lines
                                ? OpenCommandLines(good_command_, bad_command_)
                                : OpenConfigFiles(good_, bad_, base.command, journal.working_folder() + "/settings"));
    BisectSettings& found = answer_.settings;
    found.changes = settings->changes();
    if (found.changes.empty()) return absl::InvalidArgumentError(absl::StrCat(good_, " and ", bad_, " say the same"));
    std::map<SmallestSet::Set, SweepRow> rows;
    const auto identity_of = [&](const SmallestSet::Set& set) {
      std::string identity = of_lines ? "" : absl::StrCat(good_, " ", bad_);
      for (size_t i = 0; i < set.size(); ++i) {
        const SettingsChange& change = found.changes[i];
        absl::StrAppend(&identity, "\n", change.name, "=", (set[i] ? change.bad : change.good).value_or("(gone)"));
      }
      return identity;
    };
    const auto prepare = [&](const SmallestSet::Set& set, RunRequest* run) -> absl::Status {
      GPUMEM_ASSIGN_OR_RETURN(run->command, settings->CommandOf(set));
      return absl::OkStatus();
    };
    const auto look = [&](const SmallestSet::Set& set) -> absl::StatusOr<std::optional<uint64_t>> {
      const std::string name = absl::StrCat("mix ", rows.size() + 1);
      GPUMEM_ASSIGN_OR_RETURN(rows[set],
                              looks->Take(identity_of(set), name, [&](RunRequest* run) { return prepare(set, run); }));
      return looks->BytesOf(rows[set]);
    };
    SmallestSet search(found.changes.size(), look);
    GPUMEM_ASSIGN_OR_RETURN(const std::optional<SmallestSet::Set> smallest, search.Find());
    const SmallestSet::Set none(found.changes.size(), false), all(found.changes.size(), true);
    found.good = search.BytesOf(none);
    found.bad = search.BytesOf(all);
    found.good_reason = rows[none].reason;
    found.bad_reason = rows[all].reason;
    if (!smallest.has_value()) return absl::OkStatus();
    GPUMEM_ASSIGN_OR_RETURN(found.with_found, search.LookAt(*smallest));
    for (size_t i = 0; i < smallest->size(); ++i) {
      if ((*smallest)[i]) found.found.push_back(i);
    }
    for (size_t i = 0; i < found.found.size() && found.found.size() <= kMostAlone; ++i) {
      SmallestSet::Set one = none;
      one[found.found[i]] = true;
      GPUMEM_ASSIGN_OR_RETURN(const std::optional<uint64_t> bytes, search.LookAt(one));
      found.alone.push_back(bytes);
    }
    found.other.tried = rows[none].unknown_reads + rows[*smallest].unknown_reads > 0;
    for (const auto& [set, bytes] : {std::pair{&none, &found.other.before}, {&*smallest, &found.other.after}}) {
      if (!found.other.tried) break;
      GPUMEM_ASSIGN_OR_RETURN(*bytes, looks->WithOtherValues(identity_of(*set), [&, set = set](RunRequest* run) {
        return prepare(*set, run);
      }));
    }
    found.cause = CauseBetween(absl::StrCat(journal.directory(), "/", rows[none].trace),
                               absl::StrCat(journal.directory(), "/", rows[*smallest].trace));
    return absl::OkStatus();
  }

  PlanFlags plan_;
  BisectAnswer answer_;
  std::string good_, bad_, package_, wheelhouse_, above_, measure_ = "allocated", results_dir_;
  std::vector<std::string> files_, link_, no_link_, good_command_, bad_command_;
  int64_t looks_ = 0;
  bool on_gpu_ = false, json_ = false;
};

}  // namespace
}  // namespace gpumem::plan

std::unique_ptr<gpumem::Command> gpumem::MakeBisectCommand() { return std::make_unique<plan::BisectCommand>(); }
