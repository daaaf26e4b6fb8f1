// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/forecast.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ledger/stacks/stack_view.h"
#include "replay/state/batch_stream.h"
#include "replay/state/checkpoints.h"
#include "trace/reader.h"

namespace gpumem::plan {
namespace {

constexpr uint64_t kOneValue = 16;  // bytes: a complex number of doubles

// Operators whose result has as many elements as the data say.
bool IsShape(absl::string_view operation) {
  for (const absl::string_view part : {"nonzero", "unique", "masked_select", "repeat_interleave", "bincount", "nms",
                                       "histogram", "index_put", "argwhere", "where"}) {
    if (absl::StrContains(operation, part) && !absl::StrContains(operation, "is_nonzero")) return true;
  }
  return operation == "aten::index" || absl::StartsWith(operation, "aten::index_Tensor");
}

// "at::_ops::nonzero::call" as "aten::nonzero"; "" for other functions.
std::string OperationOf(absl::string_view function) {
  constexpr absl::string_view kPrefix = "at::_ops::";
  const size_t begin = function.find(kPrefix);
  if (begin == absl::string_view::npos) return "";
  const absl::string_view rest = function.substr(begin + kPrefix.size());
  return absl::StrCat("aten::", rest.substr(0, rest.find("::")));
}

}  // namespace

HostReadCounts CountHostReads(const OpenTrace& trace, uint64_t* last_alloc_ns) {
  HostReadCounts counts;
  const Checkpoint* const start = trace.checkpoints->Before(0);
  if (start == nullptr) return counts;
  trace.reader->Seek(start->place);
  BatchStream stream(trace.reader);
  while (stream.Advance()) {
    const EventBatch& batch = stream.current();
    for (size_t i = 0; i < batch.count(); ++i) {
      if (last_alloc_ns != nullptr && batch.kind(i) == trace::ALLOC) *last_alloc_ns = batch.time_ns(i);
      if (batch.kind(i) != trace::HOST_READ) continue;
      HostReadCount& count = counts[batch.stack(i)];
      ++count.count;
      count.bytes += batch.size(i);
      count.largest = std::max(count.largest, batch.size(i));
    }
  }
  return counts;
}

HostReadKind KindOfRead(const std::vector<ResolvedFrame>& frames, uint64_t largest, std::string* operation) {
  std::string innermost, telling;
  HostReadKind kind = largest <= kOneValue ? HostReadKind::kValue : HostReadKind::kCopy;
  for (const ResolvedFrame& frame : frames) {
    if (frame.python) break;
    const std::string name = OperationOf(frame.function);
    if (name.empty()) continue;
    if (innermost.empty()) innermost = name;
    const bool is_shape = IsShape(name), is_branch = name == "aten::is_nonzero" || name == "aten::equal";
    if (!is_shape && !is_branch) continue;
    kind = is_shape ? HostReadKind::kShape : HostReadKind::kBranch;
    telling = name;
    if (is_shape) break;
  }
  *operation = telling.empty() ? innermost : telling;
  return kind;
}

std::vector<HostRead> DescribeHostReads(const HostReadCounts& counts, const ReportInput& input) {
  std::map<std::tuple<HostReadKind, std::string, std::string>, HostRead> found;
  for (const auto& [stack, count] : counts) {
    const std::vector<ResolvedFrame> frames = input.stacks->Frames(stack);
    HostRead read;
    read.kind = KindOfRead(frames, count.largest, &read.operation);
    read.site = ViewStack(frames, "", input.analysis->process.working_directory).site;
    HostRead& kept = found.try_emplace({read.kind, read.operation, read.site}, read).first->second;
    kept.count += count.count;
    kept.bytes += count.bytes;
  }
  std::vector<HostRead> reads;
  for (const auto& [key, read] : found) reads.push_back(read);
  std::stable_sort(reads.begin(), reads.end(), [](const HostRead& a, const HostRead& b) {
    return std::make_tuple(a.kind, b.count) < std::make_tuple(b.kind, a.count);
  });
  return reads;
}

namespace {

// What the device shows for this process beyond what is recorded: context and loaded code.
uint64_t BeyondRecorded(const MemoryBreakdown& breakdown) {
  if (!breakdown.any || breakdown.process == kNotStated) return 0;
  return breakdown.process - std::min(breakdown.process, breakdown.values.total);
}

}  // namespace

RunPeaks PeaksOfDevice(const DeviceAnalysis& device) {
  RunPeaks peaks;
  peaks.device = device.device;
  peaks.allocated = device.peak_allocated.bytes;
  peaks.reserved = device.peak_reserved.bytes;
  peaks.is_exact = device.bound == PeakBound::kExact;
  const MemoryBreakdown& breakdown = device.breakdown_at_peak;
  peaks.process = std::max(breakdown.any ? breakdown.Explained() : 0, device.peak_total.bytes);
  if (breakdown.any && breakdown.process != kNotStated) peaks.process = std::max(peaks.process, breakdown.process);
  const uint64_t recorded = breakdown.any ? breakdown.values.total : device.peak_total.bytes;
  // A sample may see the peak before the first kernel's code is loaded, the one at the end does not. So the answer
  // does not depend on when the sampler came by.
  peaks.process = std::max(peaks.process, recorded + BeyondRecorded(device.breakdown_at_end));
  peaks.context = peaks.process - std::min(peaks.process, recorded);
  peaks.elsewhere = breakdown.any ? breakdown.values.other : device.peak_other.bytes;
  return peaks;
}

RunPeaks PeaksOf(const Analysis& analysis) {
  RunPeaks largest;
  for (const DeviceAnalysis& device : analysis.devices) {
    const RunPeaks peaks = PeaksOfDevice(device);
    if (largest.device < 0 || peaks.process > largest.process) largest = peaks;
  }
  return largest;
}

uint64_t Forecast::skew() const {
  uint64_t least = UINT64_MAX, most = 0;
  for (const PlannedProcess& process : processes) {
    least = std::min(least, process.peaks.process);
    most = std::max(most, process.peaks.process);
  }
  return most - std::min(least, most);
}

const VariedRun* Forecast::next_larger() const {
  const VariedRun* next = nullptr;
  for (const VariedRun& run : varied) {
    if (largest.empty() || run.with_zero || run.values.size() != largest.size()) continue;
    if (!std::equal(largest.begin(), largest.end() - 1, run.values.begin())) continue;
    if (run.values.back().second <= largest.back().second) continue;
    if (next == nullptr || run.values.back().second < next->values.back().second) next = &run;
  }
  return next;
}

uint64_t Forecast::managed() const {
  uint64_t bytes = 0;
  if (fullest() == nullptr) return 0;
  for (const size_t process : fullest()->processes) bytes += processes[process].managed;
  return bytes;
}

namespace {

struct Member {
  size_t process = 0;
  const DeviceHistory* history = nullptr;
};

uint64_t UseAt(const DeviceHistory& history, uint64_t time_ns) {
  if (time_ns < history.begin_ns || time_ns > history.end_ns) return 0;
  const auto after = std::upper_bound(history.uses.begin(), history.uses.end(), time_ns,
                                      [](uint64_t time, const auto& use) { return time < use.first; });
  return after == history.uses.begin() ? 0 : std::prev(after)->second;
}

// At every instant at which one of them changes.
SharedDevice Together(int device, std::vector<Member> members) {
  SharedDevice shared;
  shared.device = device;
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return a.history->peaks.process > b.history->peaks.process;
  });
  std::set<uint64_t> times;
  for (const Member& member : members) {
    shared.processes.push_back(member.process);
    times.insert(member.history->begin_ns);
    for (const auto& [time_ns, bytes] : member.history->uses) times.insert(time_ns);
  }
  for (const uint64_t time_ns : times) {
    uint64_t in_time = 0, at_once = 0;
    for (const Member& member : members) {
      in_time += UseAt(*member.history, time_ns);
      const bool lives = time_ns >= member.history->begin_ns && time_ns <= member.history->end_ns;
      if (lives) at_once += member.history->peaks.process;
    }
    shared.in_time = std::max(shared.in_time, in_time);
    shared.at_once = std::max(shared.at_once, at_once);
  }
  // Where the clock has a process's peak between two points.
  for (const Member& member : members) shared.in_time = std::max(shared.in_time, member.history->peaks.process);
  shared.at_once = std::max(shared.at_once, shared.in_time);
  return shared;
}

}  // namespace

std::vector<SharedDevice> SharedDevices(const std::vector<PlannedProcess>& processes) {
  std::map<int, std::vector<Member>> by_device;
  for (size_t i = 0; i < processes.size(); ++i) {
    for (const DeviceHistory& history : processes[i].devices) by_device[history.peaks.device].push_back({i, &history});
  }
  std::vector<SharedDevice> shared;
  for (const auto& [device, members] : by_device) shared.push_back(Together(device, members));
  std::stable_sort(shared.begin(), shared.end(),
                   [](const SharedDevice& a, const SharedDevice& b) { return a.in_time > b.in_time; });
  return shared;
}

std::vector<std::string> Forecast::last_lines() const {
  constexpr size_t kMost = 15;
  if (answered() && !IsCutShort(end)) return {};
  std::vector<std::string> lines = absl::StrSplit(output, '\n', absl::SkipEmpty());
  if (lines.size() > kMost) lines.erase(lines.begin(), lines.end() - kMost);
  return lines;
}

}  // namespace gpumem::plan
