// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/summary_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "answers/ranks/merge_summaries.h"
#include "base/file_output.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "trace/series.h"

namespace gpumem {
namespace {

using Kind = OutputPlace::Kind;

constexpr int kVersion = 2;
constexpr int kVersionWithoutGroups = 1;
constexpr size_t kMaxStepEnds = 16;
constexpr int kMaxCollisions = 10'000;
constexpr uint64_t kMaxNumber = uint64_t{1} << 62;  // of bytes, steps, nanoseconds: sums of two are numbers, too
constexpr size_t kMaxLineBytes = size_t{128} << 20;

void WriteRows(absl::string_view key, const std::vector<std::vector<uint64_t>>& rows, JsonWriter* writer) {
  writer->Key(key);
  writer->BeginArray();
  for (const std::vector<uint64_t>& row : rows) {
    writer->BeginArray();
    for (const uint64_t number : row) writer->Value(number);
    writer->EndArray();
  }
  writer->EndArray();
}

// One list of members for both directions, so that none is forgotten in one of them. `rank` is const for writing.
template <typename Rank, typename Each>
void ForEachMember(Rank* rank, const Each& each) {
  each("file", &rank->file);
  each("rank", &rank->rank);
  each("rank_of_name", &rank->rank_of_name);
  each("local_rank", &rank->local_rank);
  each("hostname", &rank->hostname);
  each("job_id", &rank->job.id);
  each("program", &rank->job.program);
  each("world_size", &rank->job.world_size);
  each("pid", &rank->pid);
  each("start_ticks", &rank->start_ticks);
  each("start_realtime_ns", &rank->start_realtime_ns);
  each("last_realtime_ns", &rank->last_realtime_ns);
  each("events", &rank->events);
  each("lost_events", &rank->lost_events);
  each("damage", &rank->damage);
  each("device", &rank->device);
  each("capacity", &rank->capacity);
  each("peak_allocated_bytes", &rank->peak_allocated);
  each("peak_reserved_bytes", &rank->peak_reserved);
  each("peak_total_bytes", &rank->peak_total);
  each("context_bytes", &rank->context);
  each("communicator_bytes", &rank->communicator_bytes);
  each("oom_realtime_ns", &rank->oom_realtime_ns);
  each("oom_step", &rank->oom_step);
  each("refused_bytes", &rank->refused_bytes);
  each("allocated_at_oom", &rank->allocated_at_oom);
}

// The same of what version 2 has more.
template <typename Rank, typename Each>
void ForEachNewMember(Rank* rank, const Each& each) {
  each("summary_only", &rank->summary_only);
  each("steps_missed", &rank->steps_missed);
  each("events_before", &rank->events_before);
  each("knows_peak_groups", &rank->knows_peak_groups);
  each("other_peak_bytes", &rank->other_peak_bytes);
}

// Lists of so many numbers each, the last one of which is not a hash; none where one of them is something else.
template <size_t kColumns>
std::vector<std::array<uint64_t, kColumns>> Rows(const char* key, JsonReader* reader) {
  std::vector<std::array<uint64_t, kColumns>> rows;
  reader->Read(key, &rows);
  const bool fit = std::all_of(rows.begin(), rows.end(), [](const auto& row) { return row.back() <= kMaxNumber; });
  if (!fit) reader->Fail(key, "has a number that cannot be");
  if (!reader->ok()) rows.clear();
  return rows;
}

void ReadFrom(JsonReader* reader, const char* key, uint64_t* value) {
  reader->Read(key, value);
  if (*value > kMaxNumber && absl::string_view(key) != "refused_bytes") reader->Fail(key, "cannot be so large");
}

// Where -1 stands for "not known".
void ReadFrom(JsonReader* reader, const char* key, int* value) {
  reader->Read(key, value);
  if (*value < -1) reader->Fail(key, "is below -1");
}
template <typename T>
void ReadFrom(JsonReader* reader, const char* key, T* value) {
  reader->Read(key, value);
}

void WriteNew(const RankSummary& rank, JsonWriter* writer) {
  ForEachNewMember(&rank, [&](const char* key, const auto* value) { writer->Field(key, *value); });
  writer->Key("peak_groups");
  writer->BeginArray();
  for (const PeakGroup& each : rank.peak_groups) {
    writer->BeginObject();
    writer->Field("category", CategoryName(each.category));
    writer->Field("module", each.module);
    writer->Field("line", each.line);
    writer->Field("bytes", each.bytes);
    writer->Field("blocks", each.blocks);
    writer->EndObject();
  }
  writer->EndArray();
  writer->Key("roles");
  writer->BeginArray();
  for (const RankRole& each : rank.roles) {
    writer->BeginObject();
    writer->Field("name", each.name);
    writer->Field("rank", each.rank);
    writer->Field("size", each.size);
    writer->EndObject();
  }
  writer->EndArray();
  std::vector<std::vector<uint64_t>> ends;
  const size_t left_out = rank.step_ends.size() - std::min(rank.step_ends.size(), kMaxStepEnds);
  for (size_t i = left_out; i < rank.step_ends.size(); ++i)
    ends.push_back({rank.step_ends[i].step, rank.step_ends[i].monotonic_ns});
  WriteRows("step_ends", ends, writer);
}

void ReadNew(JsonReader* reader, RankSummary* rank) {
  ForEachNewMember(rank, [&](const char* key, auto* value) { ReadFrom(reader, key, value); });
  reader->Each("peak_groups", [&](JsonReader* group) {
    std::string category;
    PeakGroup& read = rank->peak_groups.emplace_back();
    group->Read("category", &category);
    group->Read("module", &read.module);
    group->Read("line", &read.line);
    ReadFrom(group, "bytes", &read.bytes);
    ReadFrom(group, "blocks", &read.blocks);
    for (size_t i = 0; i < kCategories; ++i) {
      if (CategoryName(static_cast<Category>(i)) == category) read.category = static_cast<Category>(i);
    }
  });
  for (const auto& [step, time_ns] : Rows<2>("step_ends", reader)) rank->step_ends.push_back({step, time_ns});
  if (!reader->Has("roles")) return;  // there were none yet
  reader->Each("roles", [&](JsonReader* role) {
    RankRole& read = rank->roles.emplace_back();
    role->Read("name", &read.name);
    role->Read("rank", &read.rank);
    role->Read("size", &read.size);
  });
}

void WriteLists(const RankSummary& rank, JsonWriter* writer) {
  std::vector<std::vector<uint64_t>> steps, parameters, timeline, devices, ancestors, categories;
  for (const auto& [window, peak] : rank.steps.windows()) steps.push_back({peak.step, peak.allocated, peak.total});
  for (const HeldParameter& each : rank.parameters) parameters.push_back({each.name, each.folded, each.elements});
  for (const TimedBytes& each : rank.timeline) timeline.push_back({each.realtime_ns, each.bytes});
  for (const auto& [device, bytes] : rank.other_devices) devices.push_back({static_cast<uint64_t>(device), bytes});
  for (const uint32_t pid : rank.ancestors) ancestors.push_back({pid});
  for (const uint64_t bytes : rank.categories) categories.push_back({bytes});
  WriteRows("steps", steps, writer);
  WriteRows("parameters", parameters, writer);
  WriteRows("timeline", timeline, writer);
  WriteRows("other_devices", devices, writer);
  WriteRows("ancestors", ancestors, writer);
  WriteRows("categories", categories, writer);
}

bool ReadLists(JsonReader* reader, RankSummary* rank) {
  for (const auto& row : Rows<3>("parameters", reader)) rank->parameters.push_back({row[0], row[1], row[2]});
  for (const auto& row : Rows<2>("timeline", reader)) rank->timeline.push_back({row[0], row[1]});
  for (const auto& row : Rows<2>("other_devices", reader))
    rank->other_devices[static_cast<int>(row[0] & 0xffff)] = row[1];
  for (const auto& row : Rows<1>("ancestors", reader)) rank->ancestors.push_back(static_cast<uint32_t>(row[0]));
  const auto categories = Rows<1>("categories", reader);
  for (size_t i = 0; i < kCategories && i < categories.size(); ++i) rank->categories[i] = categories[i][0];
  StepPeaks::Totals totals;
  ReadFrom(reader, "step_width", &totals.width);
  ReadFrom(reader, "complete_steps", &totals.complete);
  ReadFrom(reader, "last_begun_step", &totals.last_begun);
  ReadFrom(reader, "last_ended_step", &totals.last_ended);
  std::vector<StepPeak> peaks;
  for (const auto& row : Rows<3>("steps", reader)) {
    if (std::max(row[0], row[1]) > kMaxNumber) return false;
    peaks.push_back({row[0], row[1], row[2]});
  }
  return rank->steps.Restore(totals, peaks);
}

// "run.gmtrace.summary", "run.1.gmtrace.summary", ...
std::string NumberedSummary(const std::string& path, int number) {
  if (number == 0) return path;
  absl::string_view stem = absl::StripSuffix(path, kSummarySuffix);
  const bool is_of_trace = absl::ConsumeSuffix(&stem, ".gmtrace");
  return absl::StrCat(stem, ".", number, is_of_trace ? ".gmtrace" : "", kSummarySuffix);
}

}  // namespace

FileStamp StampOf(const std::string& path) {
  FileStamp stamp;
  for (const SeriesFile& file : FindSeries(path).files) {
    struct stat status = {};
    if (stat(file.path.c_str(), &status) != 0) continue;
    stamp.bytes += static_cast<uint64_t>(status.st_size);
    stamp.changed_ns = std::max(stamp.changed_ns, static_cast<uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
                                                      static_cast<uint64_t>(status.st_mtim.tv_nsec));
  }
  return stamp;
}

std::string SummaryPathOf(const std::string& trace) {
  if (!absl::EndsWith(trace, ".gmtrace")) return absl::StrCat(trace, kSummarySuffix);
  const std::filesystem::path path(trace);
  const std::string name = absl::StrCat(SeriesStem(path.filename().string()), ".gmtrace", kSummarySuffix);
  return (path.parent_path() / name).string();
}

std::string SummaryLine(const RankSummary& rank, const FileStamp& stamp) {
  std::string line;
  JsonWriter writer(&line);
  writer.BeginObject(JsonLayout::kOneLine);
  writer.Field("gpumem_rank_summary", kVersion);
  writer.Field("trace_bytes", stamp.bytes);
  writer.Field("trace_changed_ns", stamp.changed_ns);
  ForEachMember(&rank, [&](const char* key, const auto* value) { writer.Field(key, *value); });
  writer.Field("of_total", rank.measure != Measure::kAllocated);
  writer.Field("ended", RunEndingName(rank.ending));
  writer.Field("step_width", rank.steps.width());
  writer.Field("complete_steps", rank.steps.complete());
  writer.Field("last_begun_step", rank.steps.last_begun());
  writer.Field("last_ended_step", rank.steps.last_ended());
  WriteLists(rank, &writer);
  WriteNew(rank, &writer);
  writer.EndObject();
  line += '\n';
  return line;
}

absl::StatusOr<RankSummary> ParseSummary(absl::string_view line, FileStamp* stamp) {
  const auto bad = [](absl::string_view why) {
    return absl::DataLossError(absl::StrCat("no summary of a rank that this version knows: ", why));
  };
  const absl::StatusOr<nlohmann::json> parsed = ParseJson(line);
  if (!parsed.ok()) return bad(parsed.status().message());
  JsonReader reader(*parsed);
  int version = 0;
  reader.Read("gpumem_rank_summary", &version);
  if (reader.ok() && version != kVersion && version != kVersionWithoutGroups)
    return bad(absl::StrCat("it is of version ", version));
  RankSummary rank;
  FileStamp read;
  reader.Read("trace_bytes", &read.bytes);
  reader.Read("trace_changed_ns", &read.changed_ns);
  ForEachMember(&rank, [&](const char* key, auto* value) { ReadFrom(&reader, key, value); });
  bool of_total = false;
  std::string ended;
  reader.Read("of_total", &of_total);
  reader.Read("ended", &ended);
  rank.measure = of_total ? Measure::kTotal : Measure::kAllocated;
  rank.steps = StepPeaks(of_total);
  for (const RunEnding each :
       {RunEnding::kCompleted, RunEnding::kOutOfMemory, RunEnding::kKilled, RunEnding::kRunning}) {
    if (RunEndingName(each) == ended) rank.ending = each;
  }
  if (version == kVersion) ReadNew(&reader, &rank);
  if (!ReadLists(&reader, &rank)) reader.Fail("steps", "cannot be so");
  if (!reader.ok()) return bad(reader.problem());
  if (stamp != nullptr) *stamp = read;
  return rank;
}

absl::Status WriteSummary(const RankSummary& rank, const FileStamp& stamp) {
  return WriteOutput(SummaryPathOf(rank.file), SummaryLine(rank, stamp), {.like = rank.file, .hint = ""});
}

absl::StatusOr<std::string> AddToSummary(RankSummary rank, const std::string& path) {
  for (int number = 0; number < kMaxCollisions; ++number) {
    const std::string place = NumberedSummary(path, number);
    const OutputPlace there = FindOutputPlace(place);
    if (there.kind == Kind::kDevice || there.kind == Kind::kDescriptor)  // no place to put another beside
      return absl::InvalidArgumentError(absl::StrCat("no summary in ", path, ": it ", there.why));
    const bool is_new = there.kind == Kind::kNothing;
    if (!is_new) {
      const absl::StatusOr<std::string> text = ReadRegularFile(place, kMaxLineBytes);
      const absl::StatusOr<RankSummary> earlier = ParseSummary(text.ok() ? *text : "", nullptr);
      if (!earlier.ok() || !IsSameRecording(*earlier, rank)) continue;  // another process's
      rank = MergeSummaries(*earlier, std::move(rank));
    }
    rank.file = place;
    rank.summary_only = true;
    const absl::Status written = WriteOutput(place, SummaryLine(rank, {}), {.keeps = is_new, .hint = ""});
    if (is_new && absl::IsAlreadyExists(written)) continue;  // another one was faster
    GPUMEM_RETURN_IF_ERROR(written);
    return place;
  }
  return absl::AlreadyExistsError(absl::StrCat("cannot write ", path, ": ", kMaxCollisions, " of this name are there"));
}

std::optional<RankSummary> FreshSummary(const std::string& trace) {
  const absl::StatusOr<std::string> text = ReadRegularFile(SummaryPathOf(trace), kMaxLineBytes);
  FileStamp stamp;
  absl::StatusOr<RankSummary> rank = ParseSummary(text.ok() ? *text : "", &stamp);
  if (!rank.ok() || stamp != StampOf(trace)) return std::nullopt;
  // Of a process that went on, or was killed since: its trace knows more.
  if (rank->ending == RunEnding::kRunning || rank->ending == RunEnding::kUnknown) return std::nullopt;
  rank->file = trace;  // it may have been moved together with its summary
  return *std::move(rank);
}

absl::StatusOr<KeptSummaries> ReadSummaries(const std::string& path) {
  const int file = OpenRegularFile(path);
  if (file < 0) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  const absl::Cleanup closer = [file] { close(file); };
  KeptSummaries kept;
  std::string piece(size_t{1} << 16, '\0'), line;
  size_t number = 1;
  const auto add = [&](absl::string_view end) {
    absl::StrAppend(&line, end);
    if (!line.empty()) {
      absl::StatusOr<RankSummary> rank = ParseSummary(line, nullptr);
      if (rank.ok()) {
        kept.ranks.push_back(*std::move(rank));
      } else {
        kept.bad.push_back({number, std::string(rank.status().message())});
      }
    }
    line.clear();
    ++number;
  };
  // Line by line: those of ten thousand ranks are hundreds of MB.
  for (ssize_t got = 0; (got = read(file, piece.data(), piece.size())) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("read", path);
    absl::string_view rest(piece.data(), static_cast<size_t>(got));
    for (size_t end = rest.find('\n'); end != absl::string_view::npos; end = rest.find('\n')) {
      add(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    absl::StrAppend(&line, rest);
    if (line.size() > kMaxLineBytes)
      return absl::ResourceExhaustedError(absl::StrCat(path, ", line ", number, " is larger than 128 MiB"));
  }
  add("");
  return kept;
}

}  // namespace gpumem
