// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/compare/rank_table.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "answers/ranks/model_parts.h"
#include "answers/ranks/ranks_report.h"
#include "answers/ranks/read_rank.h"
#include "base/status_macros.h"
#include "query/database.h"
#include "query/table_writer.h"

namespace gpumem {
namespace {

constexpr ColumnType kBool = ColumnType::kBoolean, kInt = ColumnType::kInteger, kBig = ColumnType::kBigInt,
                     kText = ColumnType::kText;
constexpr size_t kFactsOfRanks = 22;  // columns that a row without a rank's summary leaves NULL

TableWriter& KnownInt(int value, TableWriter* writer) { return value < 0 ? writer->Null() : writer->Int(value); }

}  // namespace

const TableSchema& RanksTable() {
  static const TableSchema table{
      "ranks",
      "a row a rank of the job, present or not, and a row a trace that is not a rank of it",
      {{"trace", kInt, "", "number of the trace in all tables; NULL: the rank has none"},
       {"rank", kInt, "", "by the launcher, else by the file's name; NULL: not known"},
       {"state", kText, "",
        "present, damaged, missing; unreadable, other_job, earlier_attempt, same_process, child, no_rank"},
       {"reason", kText, "", "what is damaged, different or not readable; NULL: nothing"},
       {"path", kText, "", "file of the trace; NULL: missing"},
       {"job_id", kText, "", "of the launcher; NULL: none"},
       {"program", kText, "", "script or program"},
       {"world_size", kInt, "", "number of ranks; NULL: not known"},
       {"rank_of_name", kBool, "", "the trace does not say its rank, its file's name does"},
       {"local_rank", kInt, "", "NULL: not known"},
       {"hostname", kText, "", "machine"},
       {"pid", kBig, "", "process id"},
       {"device", kInt, "", "number of the GPU with the largest peak; NULL: no GPU memory"},
       {"model_part", kInt, "",
        "from 0; ranks of one number hold the same part of the model, by its parameters' names"},
       {"measure", kText, "", "by which ranks are compared: allocated, or total where PyTorch allocated nothing"},
       {"peak_allocated", kBig, "bytes", "highest allocated of the GPU"},
       {"peak_reserved", kBig, "bytes", "highest reserved"},
       {"peak_total", kBig, "bytes", "highest total, without the context"},
       {"context", kBig, "bytes", "of the CUDA context"},
       {"communicator_bytes", kBig, "bytes", "of NCCL outside PyTorch, at the peak"},
       {"step_width", kBig, "", "steps that are compared as one: 1, or a power of two in runs of more than 512 steps"},
       {"steps", kBig, "", "steps that were completed"},
       {"last_step", kBig, "", "the last of them; 0: none"},
       {"ended", kText, "", "completed, out_of_memory, killed, running, unknown"},
       {"last_event_unix_ns", kBig, "ns", "the last event, since 1970; NULL: not known"},
       {"events", kBig, "", "calls of allocators and CUDA"},
       {"lost_events", kBig, "", "events that happened and are not in the trace"},
       {"oom_unix_ns", kBig, "ns", "the request that failed for good, since 1970; NULL: none did"},
       {"oom_step", kBig, "", "the step of it; NULL: before the first"},
       {"summary_only", kBool, "", "it kept a summary and no trace: of the other tables only steps has rows of it"}}};
  return table;
}

RankTable::RankTable(const std::vector<std::string>& traces) {
  for (size_t i = 0; i < traces.size(); ++i) numbers_.emplace(traces[i], i);
}

void RankTable::AddUnreadable(const std::string& trace, absl::string_view why) {
  unreadable_.push_back({OtherTrace::Why::kUnreadable, trace, RankOfName(trace), std::string(why)});
}

absl::Status RankTable::Write(const std::string& path) {
  job_ = SortIntoJob(std::exchange(summaries_, {}));
  job_.others.insert(job_.others.begin(), unreadable_.begin(), unreadable_.end());
  GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Database> database, Database::Open("", {}));
  GPUMEM_RETURN_IF_ERROR(WriteRows(database.get()));
  return database->Execute(absl::StrCat("COPY (SELECT * FROM ranks ORDER BY rank NULLS LAST, trace NULLS LAST) TO ",
                                        SqlQuoted(path), " (FORMAT PARQUET, COMPRESSION ZSTD)"));
}

std::vector<std::string> RankTable::Doubts() const { return RanksDoubts({job_, {}}); }

absl::Status RankTable::WriteRows(Database* database) const {
  TableWriter writer(database, RanksTable());
  const std::vector<size_t> parts = PartsOfModel(job_.ranks);
  for (size_t i = 0; i < job_.ranks.size(); ++i) WriteRank(job_.ranks[i], parts[i], &writer);
  for (const int rank : job_.missing) {
    writer.Null().Int(rank).Text("missing").Null().Null();
    writer.TextOrNull(job_.key.id).TextOrNull(job_.key.program);
    KnownInt(job_.expected, &writer);
    for (size_t i = 0; i < kFactsOfRanks; ++i) writer.Null();
    writer.EndRow();
  }
  for (const OtherTrace& other : job_.others) WriteOther(other, &writer);
  return writer.Close();
}

void RankTable::WriteRank(const RankSummary& rank, size_t part, TableWriter* writer) const {
  const auto number = numbers_.find(rank.file);
  writer->IntOrNull(number == numbers_.end() ? 0 : number->second, number != numbers_.end()).Int(rank.rank);
  writer->Text(rank.damage.empty() ? "present" : "damaged").TextOrNull(rank.damage).Text(rank.file);
  writer->TextOrNull(rank.job.id).TextOrNull(rank.job.program);
  KnownInt(rank.job.world_size, writer).Bool(rank.rank_of_name);
  KnownInt(rank.local_rank, writer).TextOrNull(rank.hostname).UInt(rank.pid);
  KnownInt(rank.device, writer).UInt(part).Text(rank.measure == Measure::kAllocated ? "allocated" : "total");
  writer->UInt(rank.peak_allocated).UInt(rank.peak_reserved).UInt(rank.peak_total).UInt(rank.context);
  writer->UInt(rank.communicator_bytes).UInt(rank.steps.width()).UInt(rank.steps.complete());
  writer->UInt(rank.steps.last_ended()).Text(RunEndingName(rank.ending)).IntOrNull(rank.last_realtime_ns);
  writer->UInt(rank.events).UInt(rank.lost_events).IntOrNull(rank.oom_realtime_ns).IntOrNull(rank.oom_step);
  writer->Bool(rank.summary_only).EndRow();
}

void RankTable::WriteOther(const OtherTrace& other, TableWriter* writer) const {
  const auto number = numbers_.find(other.file);
  writer->IntOrNull(number == numbers_.end() ? 0 : number->second, number != numbers_.end());
  KnownInt(other.rank, writer).Text(OtherTraceName(other.why)).TextOrNull(other.text).Text(other.file);
  for (size_t i = 0; i < kFactsOfRanks + 3; ++i) writer->Null();
  writer->EndRow();
}

}  // namespace gpumem
