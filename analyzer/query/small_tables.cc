// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/small_tables.h"

#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "ledger/load/input.h"
#include "ledger/stacks/names.h"
#include "query/row_texts.h"
#include "query/schema.h"
#include "query/table_writer.h"
#include "trace/object_table.h"
#include "trace/reader.h"

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

void WriteSample(int64_t time_ns, const trace::DeviceCounters& device, TableWriter* writer) {
  writer->Int(time_ns).Int(device.device());
  writer->IntOrNull(device.used_bytes(), device.has_used_bytes());
  writer->IntOrNull(device.free_bytes(), device.has_free_bytes());
  writer->IntOrNull(device.total_bytes(), device.has_total_bytes());
  writer->IntOrNull(device.driver_reserved_bytes(), device.has_driver_reserved_bytes());
  writer->IntOrNull(device.own_bytes(), device.has_own_bytes());
  writer->IntOrNull(device.torch_allocated_bytes(), device.has_torch_allocated_bytes());
  writer->IntOrNull(device.torch_reserved_bytes(), device.has_torch_reserved_bytes());
  writer->IntOrNull(device.pool_reserved_bytes(), device.has_pool_reserved_bytes());
  writer->IntOrNull(device.pool_used_bytes(), device.has_pool_used_bytes());
  writer->IntOrNull(device.other_count(), device.has_other_count()).EndRow();
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

absl::Status WriteCounters(const LoadedTrace& loaded, Database* database) {
  TableWriter counters(database, CountersTable()), samples(database, SamplesTable());
  GPUMEM_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(loaded.analysis.path));
  bool is_in_section = false;
  for (ItemType type = reader.Next(); type != ItemType::kEndOfStream; type = reader.Next()) {
    if (type == ItemType::kHeader && std::exchange(is_in_section, true)) break;  // the next process
    if (type != ItemType::kCounters) continue;
    const trace::Counters& read = reader.counters();
    const int64_t time_ns = static_cast<int64_t>(read.time_ns()) - static_cast<int64_t>(loaded.analysis.origin_ns);
    counters.Int(time_ns).IntOrNull(read.process_rss_bytes()).IntOrNull(read.process_cpu_ns());
    counters.UInt(read.shim_cpu_ns()).UInt(read.shim_ring_high_bytes()).IntOrNull(read.system_total_bytes());
    counters.IntOrNull(read.system_available_bytes()).UInt(read.took_ns()).TextOrNull(read.source()).EndRow();
    for (const trace::DeviceCounters& device : read.devices()) WriteSample(time_ns, device, &samples);
  }
  GPUMEM_RETURN_IF_ERROR(counters.Close());
  return samples.Close();
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
