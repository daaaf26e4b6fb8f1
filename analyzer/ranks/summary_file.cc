// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ranks/summary_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file_output.h"
#include "base/json_writer.h"
#include "base/status_macros.h"
#include "compare/text_file.h"
#include "ranks/merge_summaries.h"
#include "trace/series.h"

namespace gpumem {
namespace {

using nlohmann::json;

constexpr int kVersion = 2;
constexpr int kVersionWithoutGroups = 1;
constexpr size_t kMaxStepEnds = 16;
constexpr int kMaxCollisions = 10'000;
constexpr size_t kMaxLineBytes = size_t{128} << 20;
constexpr size_t kMaxRows = 200'000;  // of any list in a line

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

// Reads members of an object; what is missing or of another type makes the whole one bad.
class Members {
 public:
  explicit Members(const json& object) : object_(object), ok_(object.is_object()) {}

  bool ok() const { return ok_; }

  void Read(const char* key, std::string* value) {
    if (const json* const found = Find(key); found != nullptr && Check(found->is_string())) *value = *found;
  }
  void Read(const char* key, bool* value) {
    if (const json* const found = Find(key); found != nullptr && Check(found->is_boolean())) *value = *found;
  }
  void Read(const char* key, uint64_t* value) {
    if (const json* const found = Find(key); found != nullptr && Check(found->is_number_unsigned())) *value = *found;
  }
  void Read(const char* key, uint32_t* value) {
    uint64_t number = 0;
    Read(key, &number);
    if (Check(number <= UINT32_MAX)) *value = static_cast<uint32_t>(number);
  }
  void Read(const char* key, int* value) {
    const json* const found = Find(key);
    if (found == nullptr || !Check(found->is_number_integer())) return;
    const int64_t number =
        found->is_number_unsigned() && found->get<uint64_t>() > INT32_MAX ? -2 : found->get<int64_t>();
    if (Check(number >= -1 && number <= INT32_MAX)) *value = static_cast<int>(number);
  }
  void Read(const char* key, std::vector<PeakGroup>* groups) {
    const json* const found = Find(key);
    if (found == nullptr || !Check(found->is_array() && found->size() <= kMaxRows)) return;
    for (const json& each : *found) {
      Members members(each);
      std::string category;
      PeakGroup group;
      members.Read("category", &category);
      members.Read("module", &group.module);
      members.Read("line", &group.line);
      members.Read("bytes", &group.bytes);
      members.Read("blocks", &group.blocks);
      if (!Check(members.ok())) return;
      for (size_t i = 0; i < kCategories; ++i) {
        if (CategoryName(static_cast<Category>(i)) == category) group.category = static_cast<Category>(i);
      }
      groups->push_back(std::move(group));
    }
  }
  // Absent in files of the version from before there were any.
  void Read(const char* key, std::vector<RankRole>* roles) {
    if (!object_.is_object() || !object_.contains(key)) return;
    const json* const found = Find(key);
    if (found == nullptr || !Check(found->is_array() && found->size() <= kMaxRows)) return;
    for (const json& each : *found) {
      Members members(each);
      RankRole role;
      members.Read("name", &role.name);
      members.Read("rank", &role.rank);
      members.Read("size", &role.size);
      if (!Check(members.ok())) return;
      roles->push_back(std::move(role));
    }
  }
  // Lists of so many unsigned numbers each.
  std::vector<std::vector<uint64_t>> Rows(const char* key, size_t columns) {
    std::vector<std::vector<uint64_t>> rows;
    const json* const found = Find(key);
    if (found == nullptr || !Check(found->is_array() && found->size() <= kMaxRows)) return rows;
    for (const json& row : *found) {
      if (!Check(row.is_array() && row.size() == columns)) return rows;
      rows.emplace_back();
      for (const json& number : row) {
        if (!Check(number.is_number_unsigned())) return rows;
        rows.back().push_back(number.get<uint64_t>());
      }
    }
    return rows;
  }

 private:
  const json* Find(const char* key) {
    if (!ok_) return nullptr;
    const auto found = object_.find(key);
    return Check(found != object_.end()) ? &*found : nullptr;
  }
  bool Check(bool is_good) { return ok_ = ok_ && is_good; }

  const json& object_;
  bool ok_;
};

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

void ReadNew(Members* members, RankSummary* rank) {
  ForEachNewMember(rank, [&](const char* key, auto* value) { members->Read(key, value); });
  members->Read("peak_groups", &rank->peak_groups);
  members->Read("roles", &rank->roles);
  for (const auto& row : members->Rows("step_ends", 2)) rank->step_ends.push_back({row[0], row[1]});
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

bool ReadLists(Members* members, RankSummary* rank) {
  for (const auto& row : members->Rows("parameters", 3)) rank->parameters.push_back({row[0], row[1], row[2]});
  for (const auto& row : members->Rows("timeline", 2)) rank->timeline.push_back({row[0], row[1]});
  for (const auto& row : members->Rows("other_devices", 2))
    rank->other_devices[static_cast<int>(row[0] & 0xffff)] = row[1];
  for (const auto& row : members->Rows("ancestors", 1)) rank->ancestors.push_back(static_cast<uint32_t>(row[0]));
  const auto categories = members->Rows("categories", 1);
  for (size_t i = 0; i < kCategories && i < categories.size(); ++i) rank->categories[i] = categories[i][0];
  StepPeaks::Totals totals;
  members->Read("step_width", &totals.width);
  members->Read("complete_steps", &totals.complete);
  members->Read("last_begun_step", &totals.last_begun);
  members->Read("last_ended_step", &totals.last_ended);
  std::vector<StepPeak> peaks;
  for (const auto& row : members->Rows("steps", 3)) peaks.push_back({row[0], row[1], row[2]});
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
  const json parsed = json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  const auto bad = [] { return absl::DataLossError("no summary of a rank that this version knows"); };
  Members members(parsed);
  int version = 0;
  members.Read("gpumem_rank_summary", &version);
  if (!members.ok() || (version != kVersion && version != kVersionWithoutGroups)) return bad();
  RankSummary rank;
  FileStamp read;
  members.Read("trace_bytes", &read.bytes);
  members.Read("trace_changed_ns", &read.changed_ns);
  ForEachMember(&rank, [&](const char* key, auto* value) { members.Read(key, value); });
  bool of_total = false;
  std::string ended;
  members.Read("of_total", &of_total);
  members.Read("ended", &ended);
  rank.measure = of_total ? Measure::kTotal : Measure::kAllocated;
  rank.steps = StepPeaks(of_total);
  for (const RunEnding each :
       {RunEnding::kCompleted, RunEnding::kOutOfMemory, RunEnding::kKilled, RunEnding::kRunning}) {
    if (RunEndingName(each) == ended) rank.ending = each;
  }
  if (version == kVersion) ReadNew(&members, &rank);
  if (!ReadLists(&members, &rank) || !members.ok()) return bad();
  if (stamp != nullptr) *stamp = read;
  return rank;
}

absl::Status WriteSummary(const RankSummary& rank, const FileStamp& stamp) {
  return ReplaceFile(SummaryPathOf(rank.file), SummaryLine(rank, stamp), rank.file);
}

absl::StatusOr<std::string> AddToSummary(RankSummary rank, const std::string& path) {
  for (int number = 0; number < kMaxCollisions; ++number) {
    const std::string place = NumberedSummary(path, number);
    const absl::StatusOr<std::string> text = ReadTextFile(place);
    if (text.ok()) {
      const absl::StatusOr<RankSummary> earlier = ParseSummary(*text, nullptr);
      if (!earlier.ok() || !IsSameRecording(*earlier, rank)) continue;  // another process's
      rank = MergeSummaries(*earlier, std::move(rank));
    } else {
      const int descriptor = CreatePrivate(place);  // from here on it is ours
      if (descriptor < 0 && errno == EEXIST) continue;
      if (descriptor < 0) return FileError("write", place);
      close(descriptor);
    }
    rank.file = place;
    rank.summary_only = true;
    GPUMEM_RETURN_IF_ERROR(ReplaceFile(place, SummaryLine(rank, {})));
    return place;
  }
  return absl::AlreadyExistsError(absl::StrCat("cannot write ", path, ": ", kMaxCollisions, " of this name are there"));
}

std::optional<RankSummary> FreshSummary(const std::string& trace) {
  const absl::StatusOr<std::string> text = ReadTextFile(SummaryPathOf(trace));
  if (!text.ok()) return std::nullopt;
  FileStamp stamp;
  absl::StatusOr<RankSummary> rank = ParseSummary(*text, &stamp);
  if (!rank.ok() || stamp != StampOf(trace)) return std::nullopt;
  // Of a process that went on, or was killed since: its trace knows more.
  if (rank->ending == RunEnding::kRunning || rank->ending == RunEnding::kUnknown) return std::nullopt;
  rank->file = trace;  // it may have been moved together with its summary
  return *std::move(rank);
}

absl::StatusOr<std::vector<RankSummary>> ReadSummaries(const std::string& path) {
  // Line by line: those of ten thousand ranks are hundreds of MB.
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::vector<RankSummary> ranks;
  std::string piece(size_t{1} << 16, '\0'), line;
  size_t number = 1;
  const auto add = [&](absl::string_view end) -> absl::Status {
    absl::StrAppend(&line, end);
    absl::StatusOr<RankSummary> rank = line.empty() ? RankSummary() : ParseSummary(line, nullptr);
    if (!rank.ok()) return absl::DataLossError(absl::StrCat(path, ", line ", number, ": ", rank.status().message()));
    if (!line.empty()) ranks.push_back(*std::move(rank));
    line.clear();
    ++number;
    return absl::OkStatus();
  };
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    absl::string_view rest(piece.data(), static_cast<size_t>(file.gcount()));
    for (size_t end = rest.find('\n'); end != absl::string_view::npos; end = rest.find('\n')) {
      GPUMEM_RETURN_IF_ERROR(add(rest.substr(0, end)));
      rest.remove_prefix(end + 1);
    }
    absl::StrAppend(&line, rest);
    if (line.size() > kMaxLineBytes)
      return absl::ResourceExhaustedError(absl::StrCat(path, ", line ", number, " is larger than 128 MiB"));
  }
  GPUMEM_RETURN_IF_ERROR(add(""));
  return ranks;
}

}  // namespace gpumem
