// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/run_facts.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "answers/compare/names.h"
#include "answers/report/leak_words.h"
#include "answers/report/reserve_causes.h"
#include "answers/report/stack_rows.h"
#include "ledger/stacks/stack_view.h"
#include "shared/event.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

// What a stack says, without its lines.
struct StackFacts {
  CodePlace place;
  std::string signature;
};

constexpr size_t kMaxFrames = 60;  // of a signature: what lies further out seldom tells stacks apart

StackFacts ReadStack(uint64_t stack_id, const ReportInput& input) {
  StackFacts facts;
  const std::vector<ResolvedFrame> frames = input.stacks->Frames(stack_id);
  const std::string& folder = input.analysis->process.working_directory;
  const StackView view = ViewStack(frames, "", folder);
  facts.place = ParsePlace(view.site);
  facts.place.through = WithoutLines(view.through);
  std::vector<std::string> words{facts.place.through};
  for (const ResolvedFrame& frame : frames) {
    if (!frame.python) continue;
    if (words.size() < kMaxFrames) words.push_back(frame.short_function);
  }
  facts.signature = absl::StrJoin(words, " <- ");
  return facts;
}

// One number for each model, in the order in which they appear.
class Roots {
 public:
  uint32_t NumberOf(uint32_t root) {
    if (root == 0) return 0;
    return numbers_.try_emplace(root, static_cast<uint32_t>(numbers_.size() + 1)).first->second;
  }

 private:
  std::map<uint32_t, uint32_t> numbers_;
};

LiveGroup MakeGroup(const AttributedUse& use, const Attribution& attribution, const StackFacts& stack, Roots* roots) {
  LiveGroup group;
  group.category = use.category;
  group.part = use.part;
  const ModuleRow& row = attribution.modules[use.module];
  if (use.module != 0 && row.root != 0) group.module = WithoutWrappers(row.fqn);
  if (use.module != 0) group.module_class = row.class_name;
  group.root_class = row.root_class;
  group.root = roots->NumberOf(row.root);
  group.place = stack.place;
  group.stack = stack.signature;
  group.is_loss = use.is_loss;
  group.of_torch = use.layer == static_cast<uint8_t>(format::Layer::kTorch);
  group.bytes = use.bytes;
  group.count = use.count;
  group.smallest = use.smallest;
  group.largest = use.largest;
  return group;
}

// Groups that names cannot tell apart become one.
std::vector<LiveGroup> MergeGroups(const std::vector<LiveGroup>& groups) {
  using Key = std::tuple<Category, Part, std::string, uint32_t, CodePlace, std::string, bool>;
  std::map<Key, LiveGroup> merged;
  for (const LiveGroup& group : groups) {
    const auto [it, is_new] = merged.try_emplace(
        Key{group.category, group.part, group.module, group.root, group.place, group.stack, group.is_loss}, group);
    if (is_new) continue;
    LiveGroup& sum = it->second;
    sum.bytes += group.bytes;
    sum.count += group.count;
    sum.smallest = std::min(sum.smallest, group.smallest);
    sum.largest = std::max(sum.largest, group.largest);
  }
  std::vector<LiveGroup> result;
  for (auto& [key, group] : merged) result.push_back(std::move(group));
  std::stable_sort(result.begin(), result.end(),
                   [](const LiveGroup& a, const LiveGroup& b) { return a.bytes > b.bytes; });
  return result;
}

void ReadObjects(const ObjectTable& objects, RunFacts* facts) {
  std::set<uint32_t> roots;
  std::set<std::string> optimizers;
  for (const auto& [id, tensor] : objects.tensors()) {
    if (tensor.role == TensorRole::kInput && !tensor.shape.empty()) facts->inputs.push_back(tensor.shape);
    if (tensor.role != TensorRole::kParameter) continue;
    roots.insert(tensor.root);
    facts->parameters.try_emplace(WithoutWrappers(tensor.name),
                                  ParameterFacts{tensor.shape, tensor.dtype, tensor.trainable});
    const std::string& optimizer = objects.optimizer_class(tensor.optimizer);
    if (!optimizer.empty()) optimizers.insert(optimizer);
  }
  facts->models = roots.size();
  facts->optimizers.assign(optimizers.begin(), optimizers.end());
  std::sort(facts->inputs.begin(), facts->inputs.end());
}

void ReadLeaks(const LeakFindings* leaks, int device, RunFacts* facts) {
  if (leaks == nullptr) return;
  facts->judged_leaks = !leaks->loops.empty();
  for (const LeakDevice& each : leaks->devices) {
    double growth = 0;
    for (const LeakRow& row : each.rows) {
      if (row.status != LeakStatus::kGrowing) continue;
      growth += row.bytes_per_iteration;
      if (each.device == device)
        facts->growing.push_back(
            {ParsePlace(LeakSite(row)), row.grown_bytes, row.grown_blocks, row.bytes_per_iteration});
    }
    facts->growth_per_step = std::max(facts->growth_per_step, growth);
  }
}

void ReadSteps(const Attribution& attribution, RunFacts* facts) {
  facts->steps = attribution.steps.size();
  for (const AttributedStep& each : attribution.steps) {
    if (each.step.complete) facts->backward_passes = std::max(facts->backward_passes, each.step.backward_passes);
  }
}

void ReadProcess(const Analysis& analysis, RunFacts* facts) {
  facts->program = analysis.process.program;
  facts->command_line = analysis.process.command_line;
  facts->versions = analysis.process.versions;
  facts->environment = analysis.process.environment;
  facts->settings = analysis.process.settings;
  const auto simulated = facts->versions.find("simulated");
  facts->is_simulated = simulated != facts->versions.end();
  facts->is_planned = facts->is_simulated && absl::StrContains(simulated->second, "planned");
  // What an import says of itself is not a setting of the program.
  std::erase_if(facts->settings, [](const auto& each) { return absl::StartsWith(each.first, kImportPrefix); });
}

}  // namespace

absl::string_view RunEndingName(RunEnding ending) {
  switch (ending) {
    case RunEnding::kCompleted:
      return "completed";
    case RunEnding::kOutOfMemory:
      return "out_of_memory";
    case RunEnding::kKilled:
      return "killed";
    case RunEnding::kRunning:
      return "running";
    case RunEnding::kUnknown:
      break;
  }
  return "unknown";
}

bool HasStepAfter(uint64_t time_ns, const Attribution& attribution) {
  return std::any_of(attribution.steps.begin(), attribution.steps.end(), [&](const AttributedStep& each) {
    return each.step.complete && each.step.start.time_ns > time_ns;
  });
}

void ReadRunEnding(const Analysis& analysis, const Attribution& attribution, RunFacts* facts) {
  facts->is_damaged = !analysis.damage.empty();
  facts->lost_events = analysis.losses.Total();
  facts->ending = analysis.complete ? RunEnding::kCompleted : RunEnding::kUnknown;
  if (!analysis.complete && analysis.state == Analysis::Process::kRunning) facts->ending = RunEnding::kRunning;
  // What a damaged trace does not show may be its end.
  if (!analysis.complete && !facts->is_damaged && analysis.state == Analysis::Process::kEnded)
    facts->ending = RunEnding::kKilled;
  for (const OomEvent& oom : analysis.ooms) {
    if (!oom.final || (oom.device != facts->device && oom.device >= 0)) continue;
    if (HasStepAfter(oom.time_ns, attribution)) continue;
    facts->ending = RunEnding::kOutOfMemory;
    facts->refused_bytes = oom.requested;
    facts->needed_bytes = std::max(facts->needed_bytes, oom.values.allocated + oom.requested);
  }
}

std::string PlaceText(const CodePlace& place) {
  if (place.line == 0) return place.function;
  return absl::StrCat(place.file, ":", place.line, place.function.empty() ? "" : " ", place.function);
}

bool UsesCheckpointing(const StackTable& stacks) {
  return std::any_of(stacks.frames().begin(), stacks.frames().end(), [&](const auto& each) {
    const PythonCodeInfo* const code = stacks.python_code(each.second.python_code);
    return code != nullptr && absl::EndsWith(code->filename, "torch/utils/checkpoint.py") &&
           absl::StrContains(code->name, "checkpoint");
  });
}

RunFacts ReadRunFacts(const ReportInput& input, const ObjectTable& objects, const Attribution& attribution,
                      const Moment& moment, const LeakFindings* leaks, const RunNames& names) {
  RunFacts facts;
  facts.name = names.run;
  facts.moment = names.moment;
  ReadProcess(*input.analysis, &facts);
  facts.knows_host = ImportInfoOf(input.analysis->process.settings).recorder.empty();
  facts.peak_pinned = input.analysis->host_pinned_peak;
  facts.peak_managed = input.analysis->managed_peak;
  for (const DeviceAnalysis& device : input.analysis->devices) {
    if (device.device != attribution.device) continue;
    facts.device = device.device;
    facts.device_name = device.name;
    facts.capacity = device.capacity;
    facts.measure = DefaultMeasure(device);
    facts.peak_allocated = device.peak_allocated.bytes;
    facts.peak_reserved = device.peak_reserved.bytes;
    facts.peak_other = device.peak_other.bytes;
    facts.peak_total = device.peak_total.bytes;
    for (const StackGroup& line : GroupStacks(device.breakdown_at_peak.other, input, /*by_stack=*/false))
      facts.beside.emplace_back(line.view.site, line.use.bytes);
    facts.stranded = StrandedText(device, input);
    facts.bound = device.bound;
    const MeasureValues& full = device.at_peak_reserved.values;
    if (full.reserved > 0)
      facts.unused_at_peak_reserved =
          1 - static_cast<double>(std::min(full.allocated, full.reserved)) / static_cast<double>(full.reserved);
    facts.code = device.residual.module_bytes;
    const MemoryBreakdown& then = device.breakdown_at_peak;
    if (then.any && then.process != kNotStated && then.process > then.values.total)
      facts.beyond = then.process - then.values.total;
    for (const Neighbour& each : device.use.neighbours) facts.others += each.peak;
    facts.context = device.residual.context_bytes + device.residual.module_bytes +
                    std::max(device.breakdown_at_peak.driver.local, device.breakdown_at_end.driver.local);
  }
  ReadRunEnding(*input.analysis, attribution, &facts);
  ReadObjects(objects, &facts);
  ReadSteps(attribution, &facts);
  ReadLeaks(leaks, attribution.device, &facts);
  facts.has_moment = moment.found;
  if (!moment.found) return facts;
  facts.time_ns = input.Since(moment.time_ns);
  facts.step = moment.step;
  facts.values = moment.values;
  facts.categories = moment.categories;
  absl::flat_hash_map<uint64_t, StackFacts> stacks;
  Roots roots;
  std::vector<LiveGroup> groups;
  for (const AttributedUse& use : moment.uses) {
    const auto [stack, is_new] = stacks.try_emplace(use.stack_id);
    if (is_new) stack->second = ReadStack(use.stack_id, input);
    groups.push_back(MakeGroup(use, attribution, stack->second, &roots));
  }
  facts.groups = MergeGroups(groups);
  return facts;
}

}  // namespace gpumem
