// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The fields of what is kept in files, for archive.h. A struct that gets another field does not compile here until it
// is listed, since each line takes its struct apart whole.

#ifndef GPUMEM_ANALYZER_LEDGER_SAVED_FIELDS_H_
#define GPUMEM_ANALYZER_LEDGER_SAVED_FIELDS_H_

#include <concepts>
#include <type_traits>

#include "ledger/attribution/attribution.h"
#include "ledger/leaks/leaks.h"
#include "ledger/saved/archive.h"
#include "ledger/saved/life_table.h"
#include "replay/analysis.h"
#include "trace/stack_table.h"

namespace gpumem {

// T, or T that cannot be changed.
template <typename V, typename T>
concept SameAs = std::same_as<std::remove_const_t<V>, T>;

#define GPUMEM_FIELDS(Type, ...)              \
  template <typename Archive, SameAs<Type> V> \
  void Fields(Archive& archive, V& value) {   \
    auto& [__VA_ARGS__] = value;              \
    archive(__VA_ARGS__);                     \
  }

// What definitions say.
GPUMEM_FIELDS(ModuleInfo, path, build_id, load_bias, start, end, time_ns, id)
GPUMEM_FIELDS(PythonCodeInfo, filename, name, line_table, first_line, python_minor)
GPUMEM_FIELDS(FrameInfo, pc, python_code, instruction, module, cut, nn_module, forward, node)
GPUMEM_FIELDS(ThreadInfo, tid, name)
GPUMEM_FIELDS(DeviceInfo, index, name, uuid, pci_bus_id, total_bytes, compute_major, compute_minor)
GPUMEM_FIELDS(TagInfo, stage, module, step)
GPUMEM_FIELDS(NnModuleInfo, class_name, python_module, root, name, other_names)
GPUMEM_FIELDS(SourceLine, file, function, line)
GPUMEM_FIELDS(CompiledPiece, sources, nn_module)
GPUMEM_FIELDS(ProcessGroupInfo, name, description, rank, size, used_by)
GPUMEM_FIELDS(OptimizerGroupInfo, learning_rate, weight_decay, first_learning_rate)
GPUMEM_FIELDS(OptimizerInfo, class_name, steps, groups)
GPUMEM_FIELDS(OwnerInfo, root, file, name, path, container, items, addresses, nodes)
GPUMEM_FIELDS(OwnerSnapshotInfo, time_ns, took_ns, cause, tensors, left_out, collector, owners)
GPUMEM_FIELDS(TensorInfo, role, name, of, root, shape, dtype, device, trainable, optimizer, group, elements,
              other_names, implementation)

// Memory at an instant.
GPUMEM_FIELDS(MeasureValues, allocated, reserved, other, total)
GPUMEM_FIELDS(StackUse, stack_id, layer, memory, bytes, count, oldest_ns, newest_ns, api, thread, communicator)
GPUMEM_FIELDS(LiveSet, device, measure, time_ns, event_index, bytes, values, block_count, stacks)
GPUMEM_FIELDS(TimelinePoint, time_ns, max)
GPUMEM_FIELDS(SeriesPeak, bytes, time_ns, event_index)
GPUMEM_FIELDS(LeakReport, at_end_torch, at_end_cuda, growth_from_ns, growth_to_ns, growth, freed_by_teardown,
              unknown_frees, refused_frees, refused_unknown_frees)
GPUMEM_FIELDS(FragmentationPoint, time_ns, reserved, allocated, pending, free, largest_free_range, free_ranges,
              rounding, requested_known, external_ratio, empty_cache)
GPUMEM_FIELDS(PinningBlock, segment_address, segment_bytes, segment_free, block_address, block_bytes, blocks_in_segment,
              returnable, stack_id, allocated_ns)
GPUMEM_FIELDS(PinGroup, stack_ids, blocks, block_bytes, segments, returnable, oldest_ns, pages)
GPUMEM_FIELDS(PoolFragmentation, pool, at_peak, at_end)
GPUMEM_FIELDS(CachePart, stream, pool, segments, reserved, free, pending, empty)
GPUMEM_FIELDS(AllocatorUses, record_streams, mem_pools)
GPUMEM_FIELDS(StreamChain, stack_id, is_taken, takes, streams)
GPUMEM_FIELDS(SizeRatchet, stack_id, segments, bytes, first, last)
GPUMEM_FIELDS(Fragmentation, at_peak, at_end, over_time, pools, pins_at_peak, pins_at_end, groups_at_peak,
              groups_at_end, caches_at_peak, chains, ratchets, uses)

// Failed requests.
GPUMEM_FIELDS(OomStep, kind, time_ns, bytes, count, api, device_stated, device_free)
GPUMEM_FIELDS(OomEvent, time_ns, event_index, device, layer, api, result, requested, stack_id, thread, values,
              device_total, retries, final, started_ns, ended_ns, cuda_requested, before, released, released_calls,
              steps, device_stated, torch_stated, device_free, torch_allocated, torch_reserved, pool_stated, pool_used,
              pool_reserved, limited, limit, described, fragmentation, whole_segments, whole_segment_bytes, pins,
              pin_groups, would_have_fit, fit_in_one_piece, fit_expandable, expandable_segments, live)
GPUMEM_FIELDS(ServedRetries, device, count, failed_calls, released, released_calls, time_ns, first_ns, last_ns, stacks)

// What devices and the sampler say.
GPUMEM_FIELDS(DriverUse, contexts, context_count, contexts_not_measured, modules, module_count, modules_not_measured,
              local, local_thread, graphs, rounding, small_bytes, small_requested, stream_ordered,
              stream_ordered_in_own_pools)
GPUMEM_FIELDS(OtherProcess, pid, name, bytes)
GPUMEM_FIELDS(DeviceReading, time_ns, took_ns, cause, own_process, total, used, free, driver_reserved, own,
              pool_reserved, other_count, others, known, driver, steady)
GPUMEM_FIELDS(Neighbour, pid, name, first_ns, last_ns, peak, last)
GPUMEM_FIELDS(CrossedLimit, time_ns, device, percent, bytes, used, total, own)
GPUMEM_FIELDS(CuptiBlock, device, bytes, from_ns, to_ns, is_static, in_measured_part)
GPUMEM_FIELDS(CuptiUse, static_bytes, static_in_measured_bytes, unseen_bytes, unseen_count)
GPUMEM_FIELDS(CuptiInfo, asked, state, library, version, error, began_ns, complete_until_ns, records, dropped_records,
              lost_records, unknown_records, only_cupti, compared)
GPUMEM_FIELDS(MemoryBreakdown, any, time_ns, values, driver, host_pinned, managed, imported, other, threads,
              has_reading, reading, same_state, pool_idle, process, unexplained, context_estimate, cupti, cupti_known)
GPUMEM_FIELDS(DeviceUse, samples, peak_used, peak_used_ns, peak_own, peak_own_ns, neighbours, readings)
GPUMEM_FIELDS(ResidualUse, contexts, context_bytes, peak_context_bytes, modules, module_bytes, peak_module_bytes)
GPUMEM_FIELDS(DeviceAnalysis, device, name, capacity, peak_allocated, peak_reserved, peak_total, peak_other, bound, end,
              residual, timeline, at_peak_allocated, at_peak_reserved, at_peak_total, plateaus, fragmentation, leaks,
              breakdown_at_peak, breakdown_at_end, use)
GPUMEM_FIELDS(SamplingInfo, samples, took_ns, source, source_error, peak_rss, system_total, least_system_available,
              crossed)

GPUMEM_FIELDS(SeenOwner, root, file, name, path, container, items, bytes, blocks)
GPUMEM_FIELDS(SeenOwners, cause, left_out, collector, bytes, blocks, owners, bytes_without, blocks_without)
GPUMEM_FIELDS(OwnersMoment, time_ns, seen)

// The trace and its process.
GPUMEM_FIELDS(EventCounts, torch, runtime, driver, by_kind)
GPUMEM_FIELDS(UnseenCalls, cause, object, function_count, functions)
GPUMEM_FIELDS(LossCounts, dropped_allocs, dropped_frees, dropped_definitions, unwritten_events, truncated_stacks,
              unread_python_frames, missing_packets, missing_events, damaged_bytes, cupti_dropped_records,
              cupti_lost_records, write_error, unseen)
GPUMEM_FIELDS(SeriesInfo, files, first_number, last_number, events_before, objects_not_in_snapshot, missing_files,
              goes_on_elsewhere)
GPUMEM_FIELDS(ProcessInfo::Ancestor, pid, start_ticks, name)
GPUMEM_FIELDS(ProcessInfo, program, executable, hostname, working_directory, writer_version, command_line, pid,
              parent_pid, start_ticks, pid_namespace, boot_id, ancestors, rank, world_size, versions, settings,
              environment, anchor_monotonic_ns, anchor_realtime_ns)
GPUMEM_FIELDS(TraceGap, packets, events_known, events, from_ns, to_ns)
GPUMEM_FIELDS(ExistingAtStart, time_ns, known, answered, result, blocks, segments, allocated_bytes, reserved_bytes,
              lost)
GPUMEM_FIELDS(Communicator, number, ranks, rank, stack_id)
GPUMEM_FIELDS(MarkEntry, time_ns, kind, tid, number, text)
GPUMEM_FIELDS(RecordedSpan, from_ns, to_ns)
GPUMEM_FIELDS(Analysis, path, file_bytes, process, complete, state, program_end_ns, recovered_events, end_unknown,
              damage, gaps, unsure_from_ns, origin_ns, end_ns, events, series, losses, cupti, notes, devices, ooms,
              owners, communicators, existing, marks, snapshot, retries, sampling, host_pinned_peak, host_pinned_end,
              managed_peak, managed_end, imported_peak, imported_end)

// Memory by category.
GPUMEM_FIELDS(AttributedUse, stack_id, layer, memory, category, evidence, part, name, module, stage, user_stage,
              recomputed, is_loss, bytes, tensor_bytes, count, smallest, largest)
GPUMEM_FIELDS(Moment, asked, found, event_index, time_ns, step, values, categories, tensor_bytes, counts, by_evidence,
              parts, uses)
GPUMEM_FIELDS(MomentQuery, kind, number, text)
GPUMEM_FIELDS(StepPoint, event_index, time_ns, values)
GPUMEM_FIELDS(Step, number, complete, backward_passes, trainer_step, epoch, start, peak, end)
GPUMEM_FIELDS(AttributedStep, step, at_peak, at_end)
GPUMEM_FIELDS(StageRow, is_named, part, user, count, time_ns, growth_bytes, start, peak, end, complete)
GPUMEM_FIELDS(AttributedStage, row, at_peak, at_end)
GPUMEM_FIELDS(ModuleRow, fqn, class_name, component, root, root_class)
GPUMEM_FIELDS(ModuleUse, module, stage, user_stage, allocated_bytes, count, recomputed_bytes, loss_bytes, peak_bytes,
              saved_bytes, saved_count, saved_peak_bytes, temporary_bytes, temporary_count)
GPUMEM_FIELDS(ParameterRow, tensor, bytes, gradient_bytes, state_bytes, module)
GPUMEM_FIELDS(Attribution, device, measure, moments, steps, stages, unlisted_stages, step_source, user_stages, names,
              modules, module_uses, module_peaks, inclusive_peaks, parameters, has_tensors, has_saved, unplaced)

// What grew.
GPUMEM_FIELDS(UserFrame, file, function, line, is_python)
GPUMEM_FIELDS(LeakPlace, site, file, line, frames, names)
GPUMEM_FIELDS(LeakRow, status, kind, place, candidate, code, stack, stacks, loop, grown_bytes, grown_blocks,
              bytes_per_iteration, since_iteration, since_ns, growths, confidence, is_replaced, owners, bytes)
GPUMEM_FIELDS(LeakLoop, are_steps, place, iterations, from_ns, to_ns)
GPUMEM_FIELDS(LeakDevice, device, rows, suppressed)
GPUMEM_FIELDS(LeakFindings, loops, devices, misses_events, has_lives)

// Every moment.
GPUMEM_FIELDS(SavedBlock, offset, size, checksum)
GPUMEM_FIELDS(LifeChunk, from, to, block, rest)
GPUMEM_FIELDS(MarkedEvent, event, time_ns, text)
GPUMEM_FIELDS(Life, kind, born, time_ns, end, end_ns, address, size, requested, stream, slot, thread, api, kept, saved)
GPUMEM_FIELDS(LifeSort, life, use)
GPUMEM_FIELDS(LifeTableData, is_exact, slot, events, end_event, times, totals, lives, sorts, marks, stacks, apis)

#undef GPUMEM_FIELDS

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_SAVED_FIELDS_H_
