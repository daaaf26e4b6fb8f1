// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "answers/compare/load_run.h"
#include "answers/ranks/judge.h"
#include "answers/ranks/rank_causes.h"
#include "answers/ranks/rank_files.h"
#include "answers/ranks/ranks_report.h"
#include "answers/ranks/read_rank.h"
#include "answers/ranks/summary_file.h"
#include "base/parallel_work.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "render/draw.h"

namespace gpumem {
namespace {

constexpr size_t kMostCauses = 4;  // each opens a trace again
constexpr size_t kMostFiles = 1'000'000;
constexpr size_t kMostKept = 64;  // traces of which replays are kept: those of a thousand would fill the user's cache

// What a child process says of a trace: its summary, or the code and the words of an error.
std::string AnswerOfReader(const absl::StatusOr<RankSummary>& rank) {
  if (rank.ok()) return absl::StrCat("0", SummaryLine(*rank, {}));
  return absl::StrCat(std::string(1, static_cast<char>('0' + static_cast<int>(rank.status().code()))),
                      rank.status().message());
}

absl::StatusOr<RankSummary> ParseReaderAnswer(absl::string_view answer, const std::string& file) {
  if (answer.empty()) return absl::InternalError("a reader said nothing");
  if (answer.front() != '0') return absl::Status(static_cast<absl::StatusCode>(answer.front() - '0'), answer.substr(1));
  absl::StatusOr<RankSummary> rank = ParseSummary(answer.substr(1), nullptr);
  if (rank.ok()) rank->file = file;  // its name may be no text
  return rank;
}

class RanksCommand final : public Command {
 public:
  absl::string_view name() const override { return "ranks"; }
  CommandPlace place() const override { return {CommandGroup::kCompare, 2}; }
  absl::string_view summary() const override { return "which rank of a job is not like the others, and why"; }
  absl::string_view arguments() const override { return "[FLAGS] [DIR|FILE|PATTERN]..."; }
  absl::string_view help() const override {
    return R"(Compares the ranks of one job by their traces, step by step: who is missing, who holds more than the median rank
and why, who ran out of memory first, who stopped early. The first line names the ranks and the cause, found as by
gpumemshim diff between that rank and the median rank at the same step. Ranks within 2 % of the median are balanced.
Ranks that hold another part of the model (a pipeline's stages, experts) differ by design, and are reported as such.
A trace is read on each core. Exit code 4 where ranks are missing, damaged or of another job.

  gpumemshim run -o 'runs/%h.%n.r%r.%p.gmtrace' -- torchrun --nproc-per-node 8 train.py
  gpumemshim ranks runs/
  gpumemshim ranks runs/ --step 100
  gpumemshim ranks 'runs/node?.*.gmtrace' --by step --top 20
  gpumemshim ranks runs/ --write-summaries
  gpumemshim ranks runs/ --json | jq -r .headline
)";
  }
  size_t most_arguments() const override { return kMostFiles; }

  void AddFlags(Flags* flags) override {
    flags->Add("--json", &trace_.json, "exact numbers for machines (docs/json.md)");
    flags->Add("--device", &trace_.device, "only this GPU of each rank (the one with its largest peak)")
        .Value("N")
        .AtLeastZero();
    step_option_ =
        flags->Add("--step", &step_, "compare in this step (the common one with the highest peak)").Value("N");
    flags->Add("--by", &by_, "rank, or also the peaks of all ranks by step").Value("WHAT").OneOf({"rank", "step"});
    top_option_ = flags->Add("--top,--limit", &top_, "longest list, and most causes that are looked for; 0 = all (10)")
                      .Value("K");
    flags->Add("--write-summaries", &writes_summaries_,
               "write TRACE.summary beside each trace; later calls read those");
    flags->Add("--summarize", &summarizes_,
               "write the summaries alone, also of running processes: what the recorder calls");
    flags
        ->Add("--to", &to_,
              "with --summarize of one trace: the summary to write, together with what it has of the process")
        .Value("FILE");
    flags->Add("--jobs", &jobs_, "traces that are read at once; 0 = one a core (0)").Value("N");
    trace_.symbols.AddFlags(flags);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const std::vector<std::string> files, RankFiles(arguments));
    if (summarizes_) return Summarize(files, console);
    if (!to_.empty()) return absl::InvalidArgumentError("--to goes with --summarize");
    std::vector<RankSummary> ranks;
    std::vector<OtherTrace> unreadable;
    GPUMEM_RETURN_IF_ERROR(ReadAll(files, console, &ranks, &unreadable));
    if (ranks.empty()) return kExitCannotRead;
    Job job = SortIntoJob(std::move(ranks));
    job.others.insert(job.others.begin(), unreadable.begin(), unreadable.end());
    RanksQuery query;
    if (step_option_.given()) query.step = step_;
    RanksVerdict verdict = JudgeRanks(job, query);
    FindRankCauses(
        job, top_option_.given() ? top_ : kMostCauses,
        [&](const RankSummary& rank, const std::string& moment) { return Facts(rank, moment, console); }, &verdict);
    console->ProgressDone();
    const Document answer = RanksAnswer({job, verdict}, {top_, by_ == "step"});
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    return IsWhole(job) ? kExitFine : kExitDamaged;
  }

 private:
  absl::StatusOr<std::unique_ptr<LoadedTrace>> Load(const std::string& file, bool keeps_answers, Console* console) {
    GPUMEM_ASSIGN_OR_RETURN(LoadRequest request, trace_.Request({file}, console));
    request.progress = nullptr;  // the files are what is counted
    request.keeps_answers = keeps_answers;
    return LoadTrace(request);
  }

  absl::Status SummarizeOne(const std::string& file, Console* console) {
    const FileStamp stamp = StampOf(file);  // before it is read: it may grow
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, Load(file, /*keeps_answers=*/false, console));
    GPUMEM_ASSIGN_OR_RETURN(RankSummary rank, ReadRank(loaded.get()));
    return to_.empty() ? WriteSummary(rank, stamp) : AddToSummary(std::move(rank), to_).status();
  }

  absl::StatusOr<int> Summarize(const std::vector<std::string>& files, Console* console) {
    if (!to_.empty() && files.size() != 1)
      return absl::InvalidArgumentError(absl::StrCat("--to takes one trace, not ", files.size()));
    for (const std::string& file : files) {
      absl::Status status;
      // The oldest file of a series may go while it is read.
      for (int attempt = 0; attempt < 3 && (attempt == 0 || !status.ok()); ++attempt)
        status = SummarizeOne(file, console);
      GPUMEM_RETURN_IF_ERROR(status);
    }
    return kExitFine;
  }

  // What is kept of the file: a file of summaries, or a trace with one beside it. Nothing: it is to be read itself.
  std::optional<absl::StatusOr<KeptSummaries>> ReadKept(const std::string& file) const {
    if (absl::EndsWith(file, kSummarySuffix)) return ReadSummaries(file);
    if (trace_.device >= 0) return std::nullopt;
    std::optional<RankSummary> known = FreshSummary(file);
    if (!known) return std::nullopt;
    return KeptSummaries{{*std::move(known)}, {}};
  }

  absl::StatusOr<RankSummary> ReadTrace(const std::string& file, bool keeps_answers, Console* console) {
    // The recorder leaves the last summary, which would hold up the end of its program, to the first who reads the
    // trace.
    std::error_code error;
    const bool renews = std::filesystem::is_regular_file(std::filesystem::symlink_status(SummaryPathOf(file), error));
    const FileStamp stamp = writes_summaries_ || renews ? StampOf(file) : FileStamp{};
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, Load(file, keeps_answers, console));
    GPUMEM_ASSIGN_OR_RETURN(RankSummary rank, ReadRank(loaded.get()));
    // Of a process that goes on, the trace does too.
    if ((writes_summaries_ || renews) && trace_.device < 0 && rank.ending != RunEnding::kRunning) {
      const absl::Status written = WriteSummary(rank, stamp);
      if (writes_summaries_) GPUMEM_RETURN_IF_ERROR(written);
    }
    return rank;
  }

  // By one process a core, since readers are not thread-safe.
  std::vector<absl::StatusOr<RankSummary>> ReadTraces(const std::vector<std::string>& files, Console* console) {
    std::vector<absl::StatusOr<RankSummary>> ranks(files.size(), absl::UnknownError(""));
    const auto read = [&](size_t i) { return ReadTrace(files[i], files.size() <= kMostKept, console); };
    size_t done = 0;
    const std::vector<bool> answered = WorkInParallel(
        files.size(), jobs_ == 0 ? UsableCores() : jobs_, [&](size_t i) { return AnswerOfReader(read(i)); },
        [&](size_t i, const std::string& answer) {
          ranks[i] = ParseReaderAnswer(answer, files[i]);
          console->Progress("reading ranks", ++done, files.size() + 1);
        });
    for (size_t i = 0; i < files.size(); ++i) {
      if (answered[i]) continue;
      console->Progress("reading ranks", done++, files.size() + 1);
      ranks[i] = read(i);
    }
    console->ProgressDone();
    return ranks;
  }

  // What cannot be read is complained about and listed.
  absl::Status ReadAll(const std::vector<std::string>& files, Console* console, std::vector<RankSummary>* ranks,
                       std::vector<OtherTrace>* unreadable) {
    std::vector<std::string> traces;
    const auto leave_out = [&](const std::string& file, const std::string& complaint, const std::string& why) {
      console->Complain(complaint);
      unreadable->push_back({OtherTrace::Why::kUnreadable, file, RankOfName(file), why});
    };
    const auto complain = [&](const std::string& file, const absl::Status& status) {
      leave_out(file, std::string(status.message()), std::string(status.message()));
    };
    for (const std::string& file : files) {
      auto kept = ReadKept(file);
      if (!kept) {
        traces.push_back(file);
      } else if (kept->ok()) {
        for (const KeptSummaries::BadLine& bad : (*kept)->bad) {
          const std::string line = absl::StrCat("line ", bad.number);
          leave_out(file, absl::StrCat(file, ", ", line, ", is left out: ", bad.problem),
                    absl::StrCat(line, ": ", bad.problem));
        }
        std::move((*kept)->ranks.begin(), (*kept)->ranks.end(), std::back_inserter(*ranks));
      } else {
        complain(file, kept->status());
      }
    }
    std::vector<absl::StatusOr<RankSummary>> read = ReadTraces(traces, console);
    for (size_t i = 0; i < traces.size(); ++i) {
      if (absl::IsInvalidArgument(read[i].status())) return read[i].status();  // a flag that makes no sense
      if (read[i].ok()) {
        ranks->push_back(*std::move(read[i]));
      } else {
        complain(traces[i], read[i].status());
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<RunFacts> Facts(const RankSummary& rank, const std::string& moment, Console* console) {
    console->Working(absl::StrCat("comparing rank ", rank.rank));
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, Load(rank.file, /*keeps_answers=*/true, console));
    GPUMEM_ASSIGN_OR_RETURN(auto facts, LoadRunFacts({{moment}, ""}, loaded.get()));
    return std::move(facts.front());
  }

  static bool IsWhole(const Job& job) {
    const bool is_damaged =
        std::any_of(job.ranks.begin(), job.ranks.end(), [](const RankSummary& rank) { return !rank.damage.empty(); });
    const bool lacks =
        std::any_of(job.others.begin(), job.others.end(), [](const OtherTrace& other) { return other.matters(); });
    return job.missing.empty() && !is_damaged && !lacks;
  }

  TraceOptions trace_;
  bool writes_summaries_ = false, summarizes_ = false;
  std::string to_;
  size_t step_ = 0, jobs_ = 0;
  std::string by_ = "rank";
  size_t top_ = 10;
  Flag step_option_, top_option_;
};

}  // namespace

std::unique_ptr<Command> MakeRanksCommand() { return std::make_unique<RanksCommand>(); }

}  // namespace gpumem
