// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/read_rank.h"

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "answers/compare/names.h"
#include "answers/compare/run_facts.h"
#include "answers/ranks/peak_groups.h"
#include "base/stable_hash.h"
#include "base/status_macros.h"
#include "ledger/load/attribute.h"
#include "ledger/load/input.h"
#include "ledger/load/moment.h"
#include "shared/event.h"
#include "trace/import_info.h"
#include "trace/object_table.h"

namespace gpumem {
namespace {

constexpr size_t kMaxParameters = 100'000;

std::string Variable(const ProcessInfo& process, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = process.environment.find(name);
    if (found != process.environment.end() && !found->second.empty()) return found->second;
  }
  return "";
}

// From the first variable that says one; shim/settings/process_facts.h has the same order. "none" is what torchrun
// passes where nobody gave it an id.
std::string JobId(const ProcessInfo& process) {
  for (const char* name : {"SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PBS_JOBID", "LSB_JOBID", "RAY_JOB_ID", "JOB_NAME"}) {
    std::string id = Variable(process, {name});
    if (!id.empty() && id != "none") return id;
  }
  return "";
}

absl::string_view FileNameOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

struct NamedRank {
  int rank = -1;
  size_t begin = 0, end = 0;  // where the name says it
};

// "rank0_memory_snapshot.pickle", "snapshot_rank_3.pkl", "run.r3.gmtrace", "worker2.1623143089861.pt.trace.json".
NamedRank RankInName(absl::string_view name_in_any_case) {
  const std::string name = absl::AsciiStrToLower(name_in_any_case);
  for (const absl::string_view lead : {"rank_", "rank-", "rank", ".r", "worker_", "worker"}) {
    for (size_t at = name.find(lead.data(), 0, lead.size()); at != std::string::npos;
         at = name.find(lead.data(), at + 1, lead.size())) {
      size_t end = at + lead.size();
      while (end < name.size() && absl::ascii_isdigit(static_cast<unsigned char>(name[end]))) ++end;
      const bool is_any_place = !absl::StartsWith(lead, "worker") || at == 0;  // "num_workers_4" is no rank
      NamedRank named{-1, at, end};
      if (is_any_place && absl::SimpleAtoi(name.substr(at + lead.size(), end - at - lead.size()), &named.rank))
        return named;
    }
  }
  return {};
}

// What is imported has its file's name, in which ranks and times differ: "rank3_memory_snapshot" is "memory_snapshot",
// and numbers are one: of processes, of times.
std::string ProgramOf(const ProcessInfo& process) {
  if (!ImportInfoOf(process.settings).any()) return process.program;
  std::string name = process.program;
  if (const NamedRank named = RankInName(name); named.rank >= 0) name.erase(named.begin, named.end - named.begin);
  std::string folded;
  for (const char c : name) {
    const bool is_digit = absl::ascii_isdigit(static_cast<unsigned char>(c));
    if (!is_digit || folded.empty() || folded.back() != '*') folded.push_back(is_digit ? '*' : c);
  }
  const size_t first = folded.find_first_not_of("_-."), last = folded.find_last_not_of("_-.");
  return first == std::string::npos ? "" : folded.substr(first, last - first + 1);
}

void ReadProcess(const Analysis& analysis, RankSummary* rank) {
  const ProcessInfo& process = analysis.process;
  rank->rank = process.rank;
  if (rank->rank < 0) rank->rank = RankOfName(rank->file);
  rank->rank_of_name = process.rank < 0 && rank->rank >= 0;
  int local = -1;
  if (absl::SimpleAtoi(Variable(process, {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"}), &local))
    rank->local_rank = local;
  rank->hostname = process.hostname;
  rank->job = {JobId(process), ProgramOf(process), process.world_size};
  rank->pid = process.pid;
  rank->start_ticks = process.start_ticks;
  for (const ProcessInfo::Ancestor& above : process.ancestors) rank->ancestors.push_back(above.pid);
  rank->start_realtime_ns = process.anchor_realtime_ns;
  rank->events = analysis.events.torch + analysis.events.runtime + analysis.events.driver;
  rank->lost_events = analysis.losses.Total();
  rank->events_before = analysis.series.events_before;
  rank->damage = analysis.damage;
}

// 0 where the trace does not say.
uint64_t Realtime(const Analysis& analysis, uint64_t time_ns) {
  const ProcessInfo& process = analysis.process;
  return process.anchor_realtime_ns == 0 ? 0 : process.anchor_realtime_ns + (time_ns - process.anchor_monotonic_ns);
}

void ReadDevices(const Analysis& analysis, int own, RankSummary* rank) {
  for (const DeviceAnalysis& device : analysis.devices) {
    const uint64_t context = device.residual.context_bytes + device.residual.module_bytes;
    if (device.device != own) {
      const uint64_t held = device.peak_total.bytes + context;
      if (held > 0) rank->other_devices[device.device] = held;
      continue;
    }
    rank->device = own;
    rank->measure = DefaultMeasure(device);
    rank->capacity = device.capacity;
    rank->peak_allocated = device.peak_allocated.bytes;
    rank->peak_reserved = device.peak_reserved.bytes;
    rank->peak_total = device.peak_total.bytes;
    rank->context = context;
    for (const TimelinePoint& point : device.timeline) {
      const uint64_t bytes = rank->measure == Measure::kAllocated ? point.max.allocated : point.max.total;
      rank->timeline.push_back({Realtime(analysis, point.time_ns), bytes});
    }
  }
}

void ReadParameters(const ObjectTable& objects, RankSummary* rank) {
  for (const auto& [id, tensor] : objects.tensors()) {
    if (tensor.role != TensorRole::kParameter || rank->parameters.size() == kMaxParameters) continue;
    const std::string name = WithoutWrappers(tensor.name);
    rank->parameters.push_back({StableHash(name), StableHash(FoldNumbers(name)), tensor.elements});
  }
  std::sort(rank->parameters.begin(), rank->parameters.end());
}

void ReadSteps(const Attribution& attribution, RankSummary* rank) {
  rank->steps = StepPeaks(rank->measure != Measure::kAllocated);
  for (const AttributedStep& each : attribution.steps) {
    const MeasureValues& peak = each.step.peak.values;
    rank->steps.Add({each.step.number, peak.allocated, peak.total}, each.step.complete);
    if (each.step.complete) rank->step_ends.push_back({each.step.number, each.step.end.time_ns});
  }
}

void ReadPeak(const Moment& moment, RankSummary* rank) {
  if (!moment.found) return;
  // Which memory is a parameter's was said before the files that are here.
  if (rank->events_before == 0) rank->categories = moment.categories;
  for (const AttributedUse& use : moment.uses) {
    const bool of_torch = use.layer == static_cast<uint8_t>(format::Layer::kTorch);
    if (use.category == Category::kCommunication && !of_torch) rank->communicator_bytes += use.bytes;
  }
}

void ReadOom(const Analysis& analysis, const Attribution& attribution, RankSummary* rank) {
  for (const OomEvent& oom : analysis.ooms) {
    if (!oom.final || oom.device != rank->device || rank->oom_realtime_ns != 0) continue;
    if (HasStepAfter(oom.time_ns, attribution)) continue;
    rank->oom_realtime_ns = Realtime(analysis, oom.time_ns);
    rank->refused_bytes = oom.requested;
    rank->allocated_at_oom = oom.values.allocated;
    for (const AttributedStep& each : attribution.steps) {
      if (each.step.start.time_ns <= oom.time_ns) rank->oom_step = each.step.number;
    }
  }
}

}  // namespace

int RankOfName(absl::string_view file) {
  const NamedRank named = RankInName(FileNameOf(file));
  return named.rank >= 0 || file.size() == FileNameOf(file).size()
             ? named.rank
             : RankInName(FileNameOf(file.substr(0, file.size() - FileNameOf(file).size() - 1))).rank;
}

absl::StatusOr<RankSummary> ReadRank(LoadedTrace* loaded) {
  AttributionRequest request;
  request.steps = true;
  request.moments.push_back(ParseMoment("peak", *loaded));
  GPUMEM_ASSIGN_OR_RETURN(const auto attribution, AttributeLoaded(std::move(request), "", loaded));
  loaded->input.attribution = nullptr;  // it ends here
  const Analysis& analysis = loaded->analysis;
  RankSummary rank;
  rank.file = loaded->file;
  ReadProcess(analysis, &rank);
  rank.roles = RolesOf(loaded->stacks.objects().process_groups());
  rank.last_realtime_ns = Realtime(analysis, analysis.end_ns);
  const DeviceAnalysis* const own = LargestDevice(analysis);
  if (own == nullptr) return rank;
  ReadDevices(analysis, own->device, &rank);
  ReadParameters(loaded->stacks.objects(), &rank);
  ReadSteps(*attribution, &rank);
  const Moment& peak = attribution->moments.front();
  ReadPeak(peak, &rank);
  ReadPeakGroups(
      ReadRunFacts(loaded->input, loaded->stacks.objects(), *attribution, peak, nullptr, {rank.file, "peak"}), &rank);
  ReadOom(analysis, *attribution, &rank);
  RunFacts end;
  end.device = rank.device;
  ReadRunEnding(analysis, *attribution, &end);
  rank.ending = end.ending;
  return rank;
}

}  // namespace gpumem
