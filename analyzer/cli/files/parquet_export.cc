// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/files/parquet_export.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "answers/ranks/rank_files.h"
#include "answers/ranks/read_rank.h"
#include "answers/ranks/summary_file.h"
#include "base/file_output.h"
#include "base/output_file.h"
#include "base/parallel_work.h"
#include "base/status_macros.h"
#include "cli/compare/rank_table.h"
#include "ledger/load/find_traces.h"
#include "ledger/load/load_trace.h"
#include "ledger/saved/index_file.h"
#include "query/cell_text.h"
#include "query/schema.h"
#include "query/session.h"
#include "query/table_writer.h"
#include "query/views.h"
#include "trace/object_table.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::vector<std::string>> TracesOf(const std::vector<std::string>& places) {
  if (!places.empty()) return RankFiles(places);
  GPUMEM_ASSIGN_OR_RETURN(const std::string newest, FindTrace(""));
  return std::vector<std::string>{newest};
}

constexpr size_t kMostProcesses = 8;  // each takes some hundred MB, whatever the number of cores

// What became of one trace.
struct Exported {
  absl::Status status;
  RankSummary summary;  // where status is OK
  std::vector<std::string> notes;
  bool is_partial = false;
};

// As a child process says it: code, whether it is of a part, the error's words or the summary, and the notes.
std::string AnswerOfExport(const Exported& exported) {
  const bool is_ok = exported.status.ok();
  std::vector<std::string> parts = {absl::StrCat(static_cast<int>(exported.status.code())),
                                    exported.is_partial ? "1" : "0",
                                    is_ok ? SummaryLine(exported.summary, {}) : std::string(exported.status.message())};
  parts.insert(parts.end(), exported.notes.begin(), exported.notes.end());
  return absl::StrJoin(parts, absl::string_view("\0", 1));
}

Exported ParseExported(const std::string& answer, const std::string& trace) {
  const std::vector<std::string> parts = absl::StrSplit(answer, '\0');
  Exported exported;
  int code = 0;
  if (parts.size() < 3 || !absl::SimpleAtoi(parts[0], &code)) {
    exported.status = absl::InternalError(absl::StrCat(trace, ": the process that read it said nothing"));
    return exported;
  }
  exported.is_partial = parts[1] == "1";
  exported.notes.assign(parts.begin() + 3, parts.end());
  if (code != 0) {
    exported.status = absl::Status(static_cast<absl::StatusCode>(code), parts[2]);
    return exported;
  }
  absl::StatusOr<RankSummary> summary = ParseSummary(parts[2], nullptr);
  exported.status = summary.status();
  if (summary.ok()) exported.summary = *std::move(summary);
  exported.summary.file = trace;  // its name may be no text
  return exported;
}

// Traces into the tables' folders, by a process a core.
class TableFiles {
 public:
  TableFiles(const std::vector<std::string>& traces, const std::string& folder, const ParquetOptions& options,
             Console* console)
      : traces_(traces), folder_(folder), options_(options), console_(console), ranks_(traces) {}

  absl::StatusOr<bool> Write() {
    GPUMEM_ASSIGN_OR_RETURN(symbols_, options_.symbols.Options());
    GPUMEM_ASSIGN_OR_RETURN(const DuckApi* const duck, LoadDuckDb());
    version_ = duck->library_version();
    std::vector<Exported> all(traces_.size());
    size_t done = 0;
    const std::vector<bool> answered = WorkInParallel(
        traces_.size(), options_.jobs == 0 ? std::min(UsableCores(), kMostProcesses) : options_.jobs,
        [&](size_t i) { return AnswerOfExport(Export(i)); },
        [&](size_t i, const std::string& answer) {
          all[i] = ParseExported(answer, traces_[i]);
          console_->Progress("exporting traces", ++done, traces_.size() + 1);
        });
    for (size_t i = 0; i < traces_.size(); ++i) {
      if (!answered[i]) {
        console_->Progress("exporting traces", done++, traces_.size() + 1);
        all[i] = Export(i);
      }
      GPUMEM_RETURN_IF_ERROR(Take(i, std::move(all[i])));
    }
    console_->ProgressDone();
    if (written_ == 0) return absl::NotFoundError("none of the traces can be read");
    GPUMEM_RETURN_IF_ERROR(MakeFolder("/ranks"));
    GPUMEM_RETURN_IF_ERROR(ranks_.Write(absl::StrCat(folder_, "/ranks/ranks.parquet")));
    if (traces_.size() == 1) return is_partial_;  // the other ranks were not asked for
    const std::vector<std::string> doubts = ranks_.Doubts();
    for (const std::string& doubt : doubts) console_->Complain(doubt);
    return is_partial_ || !doubts.empty();
  }

 private:
  // Of this run alone: a job's indexes would fill the user's cache.
  std::string IndexFolder(size_t number) const { return absl::StrCat(folder_, "/.index.", number); }

  Exported Export(size_t number) const {
    Exported exported;
    exported.status = absl::EndsWith(traces_[number], kSummarySuffix) ? AddSummary(number, &exported.summary)
                                                                      : AddTrace(number, &exported);
    std::error_code ignored;
    fs::remove_all(IndexFolder(number), ignored);
    return exported;
  }

  absl::Status Take(size_t number, Exported exported) {
    for (const std::string& note : exported.notes) console_->Complain(note);
    is_partial_ |= exported.is_partial || !exported.status.ok();
    if (exported.status.ok()) {
      ranks_.Add(std::move(exported.summary));
      ++written_;
      return absl::OkStatus();
    }
    if (traces_.size() == 1 || absl::IsInternal(exported.status)) return exported.status;
    console_->Complain(absl::StrCat(traces_[number], " is left out: ", exported.status.message()));
    ranks_.AddUnreadable(traces_[number], exported.status.message());
    return absl::OkStatus();
  }

  absl::Status MakeFolder(const std::string& name) const {
    std::error_code error;
    fs::create_directories(absl::StrCat(folder_, name), error);
    if (!error) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("cannot make ", folder_, name, ": ", error.message()));
  }

  absl::Status AddTrace(size_t number, Exported* exported) const {
    GPUMEM_ASSIGN_OR_RETURN(exported->summary, SummaryOf(traces_[number]));
    SessionRequest request;
    request.traces = {traces_[number]};
    GPUMEM_ASSIGN_OR_RETURN(const IndexFile known, IndexFileOf(traces_[number], "", version_));
    if (!known.exists()) request.index_folder = IndexFolder(number);
    request.symbols = symbols_;
    request.is_unsafe = true;  // no statement is anybody else's
    if (traces_.size() == 1)
      request.progress = [this](const std::string& what, uint64_t done, uint64_t all) {
        console_->Progress(what, done, all);
      };
    GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<SqlSession> session, SqlSession::Open(request));
    exported->notes = session->notes();
    exported->is_partial = session->is_partial();
    return WriteTables(number, session.get());
  }

  // Of a rank that kept no trace: its steps.
  absl::Status AddSummary(size_t number, RankSummary* read) const {
    GPUMEM_ASSIGN_OR_RETURN(KeptSummaries kept, ReadSummaries(traces_[number]));
    if (!kept.bad.empty()) return absl::DataLossError(kept.bad.front().problem);
    if (kept.ranks.size() != 1)
      return absl::FailedPreconditionError("a file of the summaries of many ranks has no events. Name their traces");
    RankSummary& summary = *read = std::move(kept.ranks.front());
    summary.file = traces_[number];
    GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Database> database, Database::Open("", {}));
    TableWriter steps(database.get(), StepsTable());
    for (const auto& [window, peak] : summary.steps.windows()) {
      for (const TableColumn& column : StepsTable().columns) {
        const absl::string_view name = column.name;
        if (name == "step") {
          steps.UInt(peak.step);
        } else if (name == "complete") {
          steps.Bool(true);
        } else if (name == "device") {
          steps.Int(summary.device);
        } else if (name == "peak_allocated" || name == "peak_total") {
          steps.UInt(name == "peak_total" ? peak.total : peak.allocated);
        } else {
          steps.Null();
        }
      }
      steps.EndRow();
    }
    GPUMEM_RETURN_IF_ERROR(steps.Close());
    const std::string tags = TagColumns({"", "", summary.rank, summary.hostname, RolesText(summary.roles)});
    GPUMEM_RETURN_IF_ERROR(database->Execute("ALTER TABLE steps RENAME TO of_summary"));
    GPUMEM_RETURN_IF_ERROR(
        database->Execute(absl::StrCat("CREATE VIEW steps AS SELECT *, ", tags, " FROM of_summary")));
    const auto copy = [&](const std::string& statement) { return database->Execute(statement); };
    return WriteTable(StepsTable(), number, summary.rank, copy);
  }

  absl::StatusOr<RankSummary> SummaryOf(const std::string& trace) const {
    if (std::optional<RankSummary> known = FreshSummary(trace)) return *std::move(known);
    LoadRequest load;
    load.place = trace;
    load.symbols = symbols_;
    load.resolves_stacks = false;
    load.keeps_answers = false;
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(load));
    GPUMEM_ASSIGN_OR_RETURN(RankSummary summary, ReadRank(loaded.get()));
    summary.file = trace;
    return summary;
  }

  // Columns with the types that docs/sql.md says: a list of texts is text, the number of the trace that of the export.
  static std::string Select(const TableSchema& table, size_t number, bool by_rank) {
    std::string sql = "SELECT ";
    for (const TableColumn& column : table.columns)
      absl::StrAppend(&sql, "\"", column.name, "\"::", TypeName(column.type), " AS \"", column.name, "\", ");
    absl::StrAppend(&sql, number, "::INTEGER AS trace, ", by_rank ? "" : "rank, ", "_rank, _host, _role FROM ");
    return absl::StrCat(sql, table.name);
  }

  absl::Status WriteTables(size_t number, SqlSession* session) const {
    GPUMEM_ASSIGN_OR_RETURN(Rows rank_rows, session->Run("SELECT coalesce(process_rank, -1) FROM processes"));
    const int rank = rank_rows.Next() ? static_cast<int>(CellAt(rank_rows, 0, 0).number) : -1;
    const auto copy = [&](const std::string& statement) -> absl::Status {
      GPUMEM_ASSIGN_OR_RETURN(Rows rows, session->Run(statement));
      while (rows.Next()) {
      }
      return rows.status();
    };
    for (const TableSchema* const table : AllTables()) GPUMEM_RETURN_IF_ERROR(WriteTable(*table, number, rank, copy));
    return absl::OkStatus();
  }

  // pyarrow finds no type for a partition that is only ever null, so an unknown rank is -1.
  absl::Status WriteTable(const TableSchema& table, size_t number, int rank,
                          const std::function<absl::Status(const std::string&)>& copy) const {
    const std::string place = absl::StrCat("/", table.name, options_.by_rank ? absl::StrCat("/rank=", rank) : "");
    GPUMEM_RETURN_IF_ERROR(MakeFolder(place));
    const std::string to = absl::StrFormat("%s%s/trace-%05d.parquet", folder_, place, number);
    const absl::Status status = copy(absl::StrCat("COPY (", Select(table, number, options_.by_rank), ") TO ",
                                                  SqlQuoted(to), " (FORMAT PARQUET, COMPRESSION ZSTD)"));
    return status.ok() ? status : absl::InternalError(status.message());  // a full disk
  }

  const std::vector<std::string>& traces_;
  const std::string folder_;
  const ParquetOptions& options_;
  Console* console_;
  SymbolizerOptions symbols_;
  std::string version_;  // of DuckDB
  RankTable ranks_;
  size_t written_ = 0;
  bool is_partial_ = false;
};

}  // namespace

absl::StatusOr<bool> ExportParquet(const std::vector<std::string>& places, const std::string& folder,
                                   const ParquetOptions& options, Console* console) {
  const OutputPlace place = FindOutputPlace(folder);
  if (place.kind != OutputPlace::Kind::kNothing)
    return absl::InvalidArgumentError(absl::StrCat(folder, " exists. Name a new folder with -o"));
  GPUMEM_ASSIGN_OR_RETURN(const std::vector<std::string> traces, TracesOf(places));
  const std::string to(absl::StripSuffix(place.path, "/"));
  HalfWritten half(HalfWritten::NameFor(to));
  GPUMEM_RETURN_IF_ERROR(half.MakeFolder());
  TableFiles files(traces, half.path(), options, console);
  GPUMEM_ASSIGN_OR_RETURN(const bool is_partial, files.Write());
  GPUMEM_RETURN_IF_ERROR(half.Become(to));
  return is_partial;
}

}  // namespace gpumem
