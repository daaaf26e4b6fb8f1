// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/small_tables.h"

#include <map>

#include "absl/strings/str_join.h"
#include "ledger/load/input.h"
#include "ledger/stacks/names.h"
#include "query/row_texts.h"
#include "query/schema.h"
#include "query/table_writer.h"
#include "trace/object_table.h"

namespace gpumem {
namespace {

struct ModuleSums {
  uint64_t allocated = 0, count = 0, saved = 0, temporary = 0, parameters = 0, gradients = 0, states = 0;
};

std::map<uint32_t, ModuleSums> SumsOf(const Attribution& attribution) {
  std::map<uint32_t, ModuleSums> sums;
  for (const ModuleUse& use : attribution.module_uses) {
    ModuleSums& sum = sums[use.module];
    sum.allocated += use.allocated_bytes;
    sum.count += use.count;
    sum.saved += use.saved_bytes;
    sum.temporary += use.temporary_bytes;
  }
  for (const ParameterRow& parameter : attribution.parameters) {
    ModuleSums& sum = sums[parameter.module];
    sum.parameters += parameter.bytes;
    sum.gradients += parameter.gradient_bytes;
    sum.states += parameter.state_bytes;
  }
  return sums;
}

}  // namespace

absl::Status WriteModules(const Attribution& attribution, Database* database) {
  TableWriter writer(database, ModulesTable());
  std::map<uint32_t, ModuleSums> sums = SumsOf(attribution);
  for (uint32_t row = 1; row < attribution.modules.size(); ++row) {
    const ModuleRow& module = attribution.modules[row];
    const ModuleSums& sum = sums[row];
    writer.Text(ModuleText(module));
    module.root != 0 ? writer.Text(module.fqn) : writer.Null();
    writer.TextOrNull(module.class_name).TextOrNull(module.root_class).TextOrNull(module.component);
    writer.UInt(row < attribution.module_peaks.size() ? attribution.module_peaks[row] : 0);
    writer.UInt(row < attribution.inclusive_peaks.size() ? attribution.inclusive_peaks[row] : 0);
    writer.UInt(sum.parameters).UInt(sum.gradients).UInt(sum.states).UInt(sum.allocated).UInt(sum.count);
    writer.UInt(sum.saved).UInt(sum.temporary).EndRow();
  }
  return writer.Close();
}

absl::Status WriteSteps(const Attribution& attribution, const ReportInput& input, Database* database) {
  TableWriter writer(database, StepsTable());
  for (const auto& [step, at_peak, at_end] : attribution.steps) {
    writer.UInt(step.number).Bool(step.complete).Int(attribution.device);
    writer.UInt(input.Since(step.start.time_ns)).UInt(input.Since(step.peak.time_ns));
    writer.UInt(input.Since(step.end.time_ns));
    writer.UInt(step.start.event_index).UInt(step.peak.event_index).UInt(step.end.event_index);
    writer.UInt(step.start.values.allocated).UInt(step.peak.values.allocated).UInt(step.peak.values.reserved);
    writer.UInt(step.peak.values.total).UInt(step.end.values.allocated).Int(step.GrowthBytes());
    writer.UInt(step.backward_passes).IntOrNull(step.trainer_step).IntOrNull(step.epoch);
    writer.EndRow();
  }
  return writer.Close();
}

absl::Status WriteOwners(const ReportInput& input, Database* database) {
  constexpr absl::string_view kCauses[] = {"", "run_end", "out_of_memory", "asked"};
  TableWriter writer(database, OwnersTable());
  for (const OwnersMoment& moment : input.analysis->owners) {
    for (const SeenOwner& owner : moment.seen.owners) {
      writer.UInt(input.Since(moment.time_ns)).TextOrNull(kCauses[static_cast<size_t>(moment.seen.cause)]);
      writer.TextOrNull(OwnerRootName(owner.root)).TextOrNull(owner.path).TextOrNull(owner.file);
      writer.TextOrNull(owner.name).TextOrNull(owner.container).UInt(owner.items).UInt(owner.bytes);
      writer.UInt(owner.blocks).EndRow();
    }
  }
  return writer.Close();
}

absl::Status WriteLosses(const Analysis& analysis, Database* database) {
  TableWriter writer(database, LossesTable());
  const LossCounts& losses = analysis.losses;
  const auto write = [&](const char* what, uint64_t count, bool loses_events) {
    writer.Text(what).UInt(count).Bool(loses_events).EndRow();
  };
  write("dropped_allocs", losses.dropped_allocs, true);
  write("dropped_frees", losses.dropped_frees, true);
  write("unwritten_events", losses.unwritten_events, true);
  write("missing_events", losses.missing_events, true);
  write("missing_packets", losses.missing_packets, true);
  write("damaged_bytes", losses.damaged_bytes, true);
  write("dropped_definitions", losses.dropped_definitions, false);
  write("truncated_stacks", losses.truncated_stacks, false);
  write("unread_python_frames", losses.unread_python_frames, false);
  write("cupti_dropped_records", losses.cupti_dropped_records, false);
  write("cupti_lost_records", losses.cupti_lost_records, false);
  write("events_before_first_file", analysis.series.events_before, true);
  return writer.Close();
}

absl::Status WriteProcess(const LoadedTrace& loaded, uint64_t end_event, Database* database) {
  const Analysis& analysis = loaded.analysis;
  const ProcessInfo& process = analysis.process;
  TableWriter writer(database, ProcessesTable());
  writer.Text(analysis.path).TextOrNull(process.program).TextOrNull(absl::StrJoin(process.command_line, " "));
  writer.UInt(process.pid).TextOrNull(process.hostname);
  process.rank < 0 ? writer.Null() : writer.Int(process.rank);
  process.world_size < 0 ? writer.Null() : writer.Int(process.world_size);
  writer.TextOrNull(RolesText(RolesOf(loaded.stacks.objects().process_groups())));
  writer.IntOrNull(loaded.input.StartRealtime());
  writer.UInt(loaded.input.Since(analysis.end_ns));
  writer.IntOrNull(loaded.input.Since(analysis.program_end_ns), analysis.program_end_ns != 0);
  writer.UInt(analysis.events.torch + analysis.events.runtime + analysis.events.driver);
  const DeviceAnalysis* const device = LargestDevice(analysis);
  device == nullptr ? writer.Null() : writer.UInt(LiveAtPeak(*device, DefaultMeasure(*device)).event_index);
  writer.UInt(end_event).Bool(analysis.complete);
  writer.TextOrNull(analysis.damage).UInt(analysis.losses.Total());
  if (device == nullptr) {
    for (int i = 0; i < 7; ++i) writer.Null();
  } else {
    writer.Int(device->device).TextOrNull(device->name).IntOrNull(device->capacity);
    writer.UInt(device->peak_allocated.bytes).UInt(device->peak_reserved.bytes).UInt(device->peak_total.bytes);
    writer.TextOrNull(PeakBoundName(device->bound));
  }
  const auto torch = process.versions.find("torch");
  writer.TextOrNull(torch == process.versions.end() ? "" : torch->second).EndRow();
  return writer.Close();
}

}  // namespace gpumem
