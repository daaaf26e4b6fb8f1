// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/replayer.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/file_output.h"
#include "base/format.h"
#include "base/json_reader.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "planner/allocator/find_torch.h"
#include "planner/allocator/request_file.h"
#include "planner/allocator/segment_log.h"
#include "planner/launch/embedded.h"
#include "planner/launch/run_pool.h"

extern "C" {
extern const char gpumem_replay_driver_begin[], gpumem_replay_driver_end[];
}

namespace gpumem::plan {
namespace {

// replay_driver.py, which the program carries in itself: gpumemshim is one file to copy.

absl::string_view EmbeddedReplayDriver() {
  return {gpumem_replay_driver_begin, static_cast<size_t>(gpumem_replay_driver_end - gpumem_replay_driver_begin)};
}

namespace fs = std::filesystem;

constexpr double kWaitSeconds = 0.1;
constexpr size_t kMaxResultBytes = 16 << 20;
constexpr uint64_t kUnknownMemory = uint64_t{141} << 30;  // of a GPU that the trace does not describe

int Processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::string Value(const std::map<std::string, std::string>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

// What went wrong in a Python that failed: its last line that begins with the name of an error, or else the last one.
std::string ErrorIn(const std::string& output) {
  const std::vector<absl::string_view> lines = absl::StrSplit(output, '\n', absl::SkipWhitespace());
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const absl::string_view name = line->substr(0, line->find(':'));
    if (name.size() < line->size() && absl::EndsWith(name, "Error") && !absl::StrContains(name, ' '))
      return std::string(*line);
  }
  return lines.empty() ? "it said nothing" : std::string(lines.back());
}

DeviceNeed NeedOf(const DeviceAnalysis& device) {
  DeviceNeed need;
  need.peak_reserved = device.peak_reserved.bytes;
  need.peak_allocated = device.peak_allocated.bytes;
  need.free_at_peak = device.fragmentation.at_peak.free;
  need.largest_free_at_peak = device.fragmentation.at_peak.largest_free_range;
  return need;
}

// What replay_driver.py wrote at its end.
absl::Status TakeResult(const std::string& path, ReplayedRun* run) {
  const absl::StatusOr<std::string> text = ReadRegularFile(path, kMaxResultBytes);
  if (!text.ok()) return absl::UnavailableError("the replay left no result");
  return ParseReplayResult(*text, run);
}

}  // namespace

absl::Status ParseReplayResult(absl::string_view text, ReplayedRun* run) {
  GPUMEM_ASSIGN_OR_RETURN(const nlohmann::json result, ParseJson(text));
  JsonReader reader(result);
  std::string backend;
  reader.ReadIfThere("backend", &backend);
  run->is_async = backend == "cudaMallocAsync";
  reader.ReadIfThere("done", &run->done);
  reader.ReadIfThere("served", &run->served);
  reader.ReadIfThere("failed", &run->failed);
  if (reader.HasValue("fit")) reader.Read("fit", &run->fit.emplace());
  reader.ReadIfThere("notes", &run->notes);
  if (reader.HasValue("died")) {
    reader.Object("died", [&](JsonReader* died) {
      run->death.emplace();
      died->ReadIfThere("at", &run->death->at);
      died->ReadIfThere("size", &run->death->size);
      died->ReadIfThere("device", &run->death->device);
      died->ReadIfThere("outside", &run->death->outside);
    });
  }
  reader.EachMember("stats", [&](const std::string& device, JsonReader* stats) {
    int number = 0;
    if (!absl::SimpleAtoi(device, &number)) return stats->Fail("", "is of no device");
    DeviceNeed& need = run->devices[number];
    uint64_t retries = 0;
    stats->ReadIfThere("reserved_bytes.all.peak", &need.peak_reserved);
    stats->ReadIfThere("allocated_bytes.all.peak", &need.peak_allocated);
    stats->ReadIfThere("num_alloc_retries", &retries);
    run->retries += retries;
  });
  if (reader.ok()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the result of the replay is damaged: ", reader.problem()));
}

std::vector<std::string> SettingsToTry(const std::string& recorded) {
  std::vector<std::string> all;
  if (!recorded.empty()) all.emplace_back();
  for (const absl::string_view tried :
       {"expandable_segments:True", "max_split_size_mb:128", "max_split_size_mb:512", "roundup_power2_divisions:4",
        "garbage_collection_threshold:0.8", "backend:cudaMallocAsync"}) {
    const absl::string_view key = tried.substr(0, tried.find(':') + 1);
    std::vector<std::string> parts;
    // One that has a list of its own as value would be torn apart here, so nothing is added to it.
    if (!absl::StrContains(recorded, '[') && key != "backend:") {
      for (const absl::string_view part : absl::StrSplit(recorded, ',', absl::SkipWhitespace()))
        if (!absl::StartsWith(part, key) && !absl::StartsWith(part, "backend:")) parts.emplace_back(part);
    }
    parts.emplace_back(tried);
    std::string conf = absl::StrJoin(parts, ",");
    if (conf != recorded) all.push_back(std::move(conf));
  }
  return all;
}

Replayer::~Replayer() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

absl::Status Replayer::MakeFolder() {
  GPUMEM_ASSIGN_OR_RETURN(folder_, NewTemporaryFolder("replay"));
  return absl::OkStatus();
}

absl::Status Replayer::Load(const LoadRequest& asked) {
  GPUMEM_RETURN_IF_ERROR(MakeFolder());
  LoadRequest request = asked;
  request.resolves_stacks = false;
  absl::Status status;
  request.look = [&](const OpenTrace& open) {
    const std::map<std::string, std::string>& environment = open.analysis->process.environment;
    answer_.recorded_conf = Value(environment, "PYTORCH_CUDA_ALLOC_CONF");
    if (answer_.recorded_conf.empty()) answer_.recorded_conf = Value(environment, "PYTORCH_ALLOC_CONF");
    status = ReadHistory(open, folder_ + "/requests", answer_.recorded_conf, options_.until_failure_ns, &answer_.facts);
  };
  GPUMEM_ASSIGN_OR_RETURN(loaded_, LoadTrace(request));
  GPUMEM_RETURN_IF_ERROR(status);
  if (answer_.facts.allocs == 0) {
    return absl::NotFoundError(absl::StrCat(
        loaded_->analysis.path, " has no request to PyTorch's caching allocator, so there is nothing to replay",
        absl::StrContains(answer_.recorded_conf, "cudaMallocAsync")
            ? ": with backend:cudaMallocAsync PyTorch asks the driver's pool directly. Record it with the default "
              "backend."
            : ": it is no PyTorch program's, or PYTORCH_NO_CUDA_MEMORY_CACHING was set. gpumemshim info shows what it "
              "has."));
  }
  DescribeRecorded();
  GPUMEM_ASSIGN_OR_RETURN(const TorchPython torch,
                          FindTorch(options_.torch, loaded_->analysis.path, loaded_->analysis.process));
  python_ = torch.python;
  answer_.torch = torch.version;
  return absl::OkStatus();
}

void Replayer::DescribeRecorded() {
  const Analysis& analysis = loaded_->analysis;
  ReplayedRun& recorded = answer_.recorded;
  recorded.conf = answer_.recorded_conf;
  answer_.torch_recorded = Value(analysis.process.versions, "torch");
  answer_.device = options_.device;
  uint64_t most = 0;
  for (const DeviceAnalysis& device : analysis.devices) {
    recorded.devices[device.device] = NeedOf(device);
    if (options_.device < 0 && (answer_.device < 0 || device.peak_reserved.bytes > most)) {
      most = device.peak_reserved.bytes;
      answer_.device = device.device;
    }
    if (device.device == answer_.device) answer_.capacity = device.capacity;
  }
  recorded.segments = Count(answer_.facts.segments);
  recorded.failed = answer_.facts.failed;
  recorded.done = answer_.facts.requests;
  recorded.memory = answer_.capacity;
  for (const ServedRetries& retries : analysis.retries) recorded.retries += retries.count;
  for (const OomEvent& oom : analysis.ooms)
    recorded.retries += oom.final && oom.layer == trace::TORCH && oom.retries > 0;
}

// By index of a recorded stream the index of the one that takes its requests.
std::vector<uint64_t> Replayer::StreamsInstead(ProgramChange change) const {
  const std::vector<uint64_t>& streams = answer_.facts.streams;
  std::vector<uint64_t> instead(streams.size());
  std::iota(instead.begin(), instead.end(), 0);
  if (change != ProgramChange::kOneStream) return instead;
  const auto index_of = [&](uint64_t stream) {
    return static_cast<uint64_t>(std::find(streams.begin(), streams.end(), stream) - streams.begin());
  };
  for (const DeviceAnalysis& device : loaded_->analysis.devices) {
    for (const StreamChain& chain : device.fragmentation.chains) {
      for (const uint64_t stream : chain.streams) {
        if (const uint64_t index = index_of(stream); index < streams.size())
          instead[index] = std::min(index_of(chain.streams.front()), index);
      }
    }
  }
  return instead;
}

absl::Status Replayer::WriteFacts(const ReplaySetting& setting, const std::string& path) const {
  const HistoryFacts& facts = answer_.facts;
  nlohmann::json json = {{"streams", facts.streams}, {"blocks", facts.blocks}, {"devices", facts.devices}};
  json["probe"] = facts.ends_with_failure ? facts.failed : 0;
  json["stream_instead"] = StreamsInstead(setting.change);
  json["one_pool"] = setting.change == ProgramChange::kOnePool;
  json["largest_first"] = setting.change == ProgramChange::kLargestFirst;
  json["fractions"] = json["room"] = json["spans"] = nlohmann::json::object();
  for (const auto& [device, span] : facts.spans) json["spans"][absl::StrCat(device)] = {span.first, span.second};
  const uint64_t capacity = answer_.capacity != 0 ? answer_.capacity : kUnknownMemory;
  for (const auto& [device, limit] : facts.limits)
    json["fractions"][absl::StrCat(device)] = (static_cast<double>(limit) + 0.5) / static_cast<double>(capacity);
  for (const auto& [device, room] : facts.room)
    json["room"][absl::StrCat(device)] = static_cast<int64_t>(room) + static_cast<int64_t>(setting.memory - capacity);
  return WriteOutput(path, json.dump());
}

absl::StatusOr<RunRequest> Replayer::RequestOf(const ReplaySetting& setting, int number) const {
  RunRequest run;
  run.folder = absl::StrCat(folder_, "/", number);
  std::error_code error;
  if (!fs::create_directory(run.folder, error)) return FileError("make", run.folder);
  const std::string facts = run.folder + "/facts", driver = folder_ + "/replay_driver.py";
  GPUMEM_RETURN_IF_ERROR(WriteFacts(setting, facts));
  const std::string requests = folder_ + "/requests";
  run.command = {python_,  driver, setting.anew ? AnewFile(requests) : BeginningFile(requests),
                 requests, facts,  run.folder + "/result"};
  run.environment = {{"PYTORCH_CUDA_ALLOC_CONF", setting.conf},
                     {"PYTORCH_ALLOC_CONF", ""},
                     {"PYTORCH_NO_CUDA_MEMORY_CACHING", ""},
                     {"CUDA_VISIBLE_DEVICES", ""},
                     {"GPUMEMSHIM_PYTHON", "0"},
                     {"GPUMEMSHIM_NATIVE", "none"},
                     {"GPUMEMSHIM_SAMPLE_MS", "0"}};
  // Ranges of expandable segments are made one after the other, upwards.
  if (!setting.anew && answer_.facts.existing_is_expandable) run.environment.emplace_back("SIMCUDA_ADDRESSES", "wsl2");
  GPUMEM_ASSIGN_OR_RETURN(run.device, FindDevice("H100"));
  run.device.memory_mib = setting.memory >> 20;
  run.device.name = run.device.full_name = absl::StrCat("a GPU of ", FormatBytes(setting.memory));
  run.device_count = answer_.facts.devices;
  run.overcommit = false;
  run.workspaces = "none";  // of no library's operations, and of a context that leaves as much room as may be
  run.steps = "all";
  run.timeout_s = options_.timeout_s;
  return run;
}

ReplayedRun Replayer::Read(const ReplaySetting& setting, const RunOutcome& outcome, const std::string& folder,
                           int number, SegmentChanges* segments) {
  ReplayedRun run;
  run.conf = setting.conf;
  run.change = setting.change;
  run.memory = setting.memory;
  if (outcome.timed_out) run.error = absl::StrCat("not done after ", options_.timeout_s, " s");
  if (run.error.empty() && outcome.status != 0) run.error = ErrorIn(outcome.output);
  if (run.error.empty()) {
    if (const absl::Status status = TakeResult(folder + "/result", &run); !status.ok())
      run.error = std::string(status.message());
  }
  if (!run.error.empty() || outcome.traces.empty()) return run;
  LoadRequest request;
  request.place = outcome.traces.front();
  request.resolves_stacks = false;
  request.look = [&](const OpenTrace& open) {
    ReplayedSegments read = ReadSegments(open);
    *segments = std::move(read.changes);
    request.analyze.from_ns = read.begin_ns;
  };
  absl::StatusOr<std::unique_ptr<LoadedTrace>> loaded = LoadTrace(request);
  if (loaded.ok() && request.analyze.from_ns != 0) {  // peaks of the history alone
    request.look = nullptr;
    loaded = LoadTrace(request);
  }
  if (!loaded.ok()) {
    run.error = std::string(loaded.status().message());
    return run;
  }
  run.segments = Count(*segments);
  for (const DeviceAnalysis& device : (*loaded)->analysis.devices) {
    DeviceNeed& need = run.devices[device.device];
    need.free_at_peak = device.fragmentation.at_peak.free;
    need.largest_free_at_peak = device.fragmentation.at_peak.largest_free_range;
  }
  if (options_.keep.empty()) return run;
  std::error_code error;
  fs::create_directories(options_.keep, error);
  const fs::path kept = fs::path(options_.keep) / absl::StrCat("replay.", number, ".gmtrace");
  const absl::Status moved = MoveToOutput(request.place, kept.string(), {.hint = "Give another folder with --keep"});
  if (moved.ok())
    run.trace = kept.string();
  else
    run.notes.emplace_back(moved.message());
  return run;
}

// The first one is the baseline, and where the history does not begin empty the second one what it is anew.
absl::Status Replayer::RunAll(const std::vector<ReplaySetting>& settings, SegmentChanges* baseline) {
  GPUMEM_RETURN_IF_ERROR(WriteOutput(folder_ + "/replay_driver.py", EmbeddedReplayDriver()));
  RunPool pool(tools_, folder_, RunPool::Start::kFresh);
  std::vector<std::string> folders;
  std::vector<ReplayedRun> runs(settings.size());
  size_t next = 0, ended = 0;
  while (ended < settings.size()) {
    while (next < settings.size() && pool.running() < static_cast<size_t>(Processors())) {
      GPUMEM_ASSIGN_OR_RETURN(const RunRequest run, RequestOf(settings[next], static_cast<int>(next)));
      folders.push_back(run.folder);
      GPUMEM_RETURN_IF_ERROR(pool.Begin(static_cast<int>(next++), run));
    }
    console_->Working(absl::StrCat("replaying, setting ", ended + 1, " of ", settings.size()));
    GPUMEM_ASSIGN_OR_RETURN(const std::vector<EndedRun> done, pool.Wait(kWaitSeconds));
    for (const EndedRun& run : done) {
      const auto i = static_cast<size_t>(run.id);
      SegmentChanges segments;
      runs[i] = Read(settings[i], run.outcome, folders[i], run.id, &segments);
      if (i == 0) *baseline = std::move(segments);
      ++ended;
    }
  }
  console_->ProgressDone();
  answer_.baseline = std::move(runs.front());
  auto what_ifs = runs.begin() + 1;
  if (what_ifs != runs.end() && !answer_.facts.begins_empty()) answer_.anew = std::move(*what_ifs++);
  answer_.what_ifs.assign(std::make_move_iterator(what_ifs), std::make_move_iterator(runs.end()));
  return absl::OkStatus();
}

absl::StatusOr<ReplayAnswer> Replayer::Run(const std::vector<ReplaySetting>& settings) {
  const uint64_t recorded = answer_.capacity != 0 ? answer_.capacity : kUnknownMemory;
  std::vector<ReplaySetting> all = {{answer_.recorded_conf, recorded, /*anew=*/false}};
  if (!answer_.facts.begins_empty() && !settings.empty()) all.push_back({answer_.recorded_conf, recorded});
  for (ReplaySetting setting : settings) {
    if (setting.memory == 0) setting.memory = recorded;
    all.push_back(std::move(setting));
  }
  SegmentChanges baseline;
  GPUMEM_RETURN_IF_ERROR(RunAll(all, &baseline));
  Judge(baseline);
  return answer_;
}

const ReplayedRun* BestOf(const ReplayAnswer& answer) {
  const ReplayedRun* best = nullptr;
  for (const ReplayedRun& run : answer.what_ifs) {
    if (!run.error.empty() || run.death.has_value()) continue;
    if (best == nullptr || run.Of(answer.device).peak_reserved < best->Of(answer.device).peak_reserved) best = &run;
  }
  return best;
}

}  // namespace gpumem::plan
