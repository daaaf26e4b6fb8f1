// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/schema.h"

namespace gpumem {
namespace {

constexpr ColumnType kBool = ColumnType::kBoolean, kInt = ColumnType::kInteger, kBig = ColumnType::kBigInt,
                     kUBig = ColumnType::kUBigInt, kText = ColumnType::kText, kEnum = ColumnType::kEnum;

}  // namespace

const TableSchema& EventsTable() {
  static const TableSchema table{
      "events",
      "a row an event of the trace, in order: allocations, frees, failed requests, marks",
      {{"event", kBig, "", "number of the event, from 0"},
       {"time_ns", kBig, "ns", "since the trace's first event"},
       {"kind", kEnum, "", "alloc, free, alloc_failed, map, mark, step, ... (the trace format's EventKind)"},
       {"layer", kEnum, "", "torch, runtime or driver; NULL: the program's own words"},
       {"memory", kEnum, "", "device, stream_ordered, managed, host_pinned, ..."},
       {"device", kInt, "", "number of the GPU; NULL: none"},
       {"address", kUBig, "", "address; of an array its handle"},
       {"size", kBig, "bytes", "as the layer counts it (PyTorch: rounded up)"},
       {"requested", kBig, "bytes", "that were asked for; NULL: not known"},
       {"stream", kUBig, "", "handle of the CUDA stream"},
       {"handle", kUBig, "", "physical handle, pool, number of a step, ..."},
       {"thread", kInt, "", "the kernel's id of the thread"},
       {"stack", kBig, "", "key of stacks and frames; NULL: none (frees have none)"},
       {"api", kEnum, "", "function that was called; NULL: not known"},
       {"result", kInt, "", "what a failed call returned; 0: success"},
       {"duration_ns", kBig, "ns", "of the call itself"},
       {"text", kText, "", "of a mark or stage, or the name that the program gave"},
       {"step", kBig, "", "training step in which it happened; NULL: outside of all"},
       {"module", kEnum, "", "module of the model whose call allocated; NULL: none, or a free"},
       {"stage", kEnum, "", "forward, backward, optimizer_step, ... by the stack; NULL: no stack"},
       {"allocated", kBig, "bytes", "PyTorch's blocks in use on the device after the event; NULL: no device"},
       {"reserved", kBig, "bytes", "PyTorch's segments on the device after the event"},
       {"other", kBig, "bytes", "device memory outside of PyTorch's allocator after the event"},
       {"total", kBig, "bytes", "reserved and other"},
       {"allocated_max", kBig, "bytes", "highest allocated of the device so far"},
       {"reserved_max", kBig, "bytes", "highest reserved of the device so far"}}};
  return table;
}

const TableSchema& BlocksTable() {
  static const TableSchema table{
      "blocks",
      "a row a piece of memory: PyTorch's blocks, and device memory outside of PyTorch's allocator",
      {{"born_event", kBig, "", "number of the event that allocated it"},
       {"died_event", kBig, "", "number of the event that freed it; NULL: none did"},
       {"born_ns", kBig, "ns", "when it was allocated, since the first event; NULL: before recording began"},
       {"died_ns", kBig, "ns", "when it was freed; NULL: never"},
       {"kept", kBool, "", "alive at the end of the program's own code (exit handlers may free it later)"},
       {"device", kInt, "", "number of the GPU"},
       {"layer", kEnum, "", "torch, runtime or driver"},
       {"memory", kEnum, "", "device, stream_ordered, physical, ..."},
       {"address", kUBig, "", "address, or handle"},
       {"size", kBig, "bytes", "as the layer counts it (PyTorch: rounded up)"},
       {"requested", kBig, "bytes", "that were asked for; NULL: not known"},
       {"tensor_bytes", kBig, "bytes", "of the tensors in it, where they are known"},
       {"stack", kBig, "", "key of stacks and frames; NULL: none"},
       {"line", kEnum, "", "line of the program's own code that allocated"},
       {"thread", kInt, "", "the kernel's id of the thread that allocated"},
       {"api", kEnum, "", "function that allocated; NULL: not known"},
       {"category", kEnum, "", "parameter, gradient, optimizer_state, activation, ... (docs/attribution.md)"},
       {"evidence", kEnum, "", "how the category is known: address, autograd, stack, rule, measured; none"},
       {"part", kEnum, "",
        "of parameters trainable or frozen; of gradients per_sample, where there is one for each sample; else NULL"},
       {"module", kEnum, "", "module of the model: of a parameter the one that holds it; NULL: none"},
       {"module_class", kEnum, "", "its class"},
       {"component", kEnum, "", "attention, mlp, norm, embedding, ...; NULL: no module"},
       {"stage", kEnum, "", "forward, backward, optimizer_step, ... by the stack"},
       {"user_stage", kEnum, "", "stages that the program named, outermost first; NULL: none"},
       {"recomputed", kBool, "", "made by a forward pass that ran again (checkpointing)"},
       {"saved", kBool, "", "autograd kept it for the backward pass"},
       {"name", kText, "", "that the program gave it; NULL: none"},
       {"step", kBig, "", "training step in which it was allocated; NULL: outside of all"},
       {"stream", kUBig, "", "PyTorch's id of the stream it was asked for on; 0: the default one, or not known"},
       {"pool", kText, "",
        "id of its pool, as PyTorch's snapshot has it at the end; (0, 0): the common one; NULL: not known"},
       {"state", kText, "",
        "at the end: allocated, freed, or pending_free: freed, and in use by another stream (only snapshots tell)"}}};
  return table;
}

const TableSchema& SegmentsTable() {
  static const TableSchema table{
      "segments",
      "a row a piece of CUDA memory that PyTorch's allocator reserved",
      {{"born_event", kBig, "", "number of the event that allocated it"},
       {"died_event", kBig, "", "number of the event that freed it; NULL: none did"},
       {"born_ns", kBig, "ns", "when it was reserved, since the first event; NULL: before recording began"},
       {"died_ns", kBig, "ns", "when it was given back; NULL: never"},
       {"device", kInt, "", "number of the GPU"},
       {"layer", kEnum, "", "runtime or driver"},
       {"memory", kEnum, "", "device; physical: a page of an expandable segment"},
       {"address", kUBig, "", "address; of physical memory its handle"},
       {"size", kBig, "bytes", "of the segment"},
       {"stack", kBig, "", "key of stacks and frames; NULL: none"},
       {"line", kEnum, "", "line of the program's own code that made PyTorch reserve it"},
       {"thread", kInt, "", "the kernel's id of the thread"},
       {"api", kEnum, "", "function that allocated"},
       {"step", kBig, "", "training step in which it was reserved; NULL: outside of all"},
       {"stream", kUBig, "",
        "PyTorch's id of the stream whose it is; NULL: not known (only snapshots tell, at the end)"},
       {"pool", kText, "", "id of its pool; (0, 0): the common one; NULL: not known"},
       {"blocks", kText, "", "what blocks it is for: small (up to 1 MiB) or large; NULL: not known"}}};
  return table;
}

const TableSchema& StacksTable() {
  static const TableSchema table{
      "stacks",
      "a row a call stack that allocated",
      {{"stack", kBig, "", "its key in this trace"},
       {"hash", kUBig, "", "the same in every run of the program"},
       {"line", kText, "", "line of the program's own code that allocated"},
       {"through", kText, "", "operator or library call through which it did; NULL: nothing to add"},
       {"callers", kText, "", "lines of the program further out, innermost first"},
       {"depth", kInt, "", "number of frames"},
       {"stage", kText, "", "forward, backward, ... by the stack"},
       {"module", kText, "", "module of the model whose call it is; NULL: none"}}};
  return table;
}

const TableSchema& FramesTable() {
  static const TableSchema table{"frames",
                                 "a row a frame of a stack",
                                 {{"stack", kBig, "", "key of stacks"},
                                  {"depth", kInt, "", "0: the innermost frame"},
                                  {"function", kText, "", "without template arguments and parameters"},
                                  {"file", kText, "", "source file; NULL: not known"},
                                  {"line", kInt, "", "line in it; NULL: not known"},
                                  {"library", kText, "", "shared library of a native frame; NULL: Python"},
                                  {"python", kBool, "", "a Python frame"},
                                  {"inlined", kBool, "", "an inlined function"}}};
  return table;
}

const TableSchema& StepsTable() {
  static const TableSchema table{
      "steps",
      "a row a training step, of the GPU with the largest peak",
      {{"step", kBig, "", "number of the step, from 1"},
       {"complete", kBool, "", "false: the trace, or the training, ended in it"},
       {"device", kInt, "", "number of the GPU"},
       {"begin_ns", kBig, "ns", "when it began, since the first event"},
       {"peak_ns", kBig, "ns", "its highest moment"},
       {"end_ns", kBig, "ns", "when it ended"},
       {"begin_event", kBig, "", "the event after which it begins"},
       {"peak_event", kBig, "", "the event after which memory was highest"},
       {"end_event", kBig, "", "its last event"},
       {"begin_allocated", kBig, "bytes", "PyTorch's blocks in use at its beginning"},
       {"peak_allocated", kBig, "bytes", "at its highest moment"},
       {"peak_reserved", kBig, "bytes", "PyTorch's segments at that moment"},
       {"peak_total", kBig, "bytes", "all device memory of the process at that moment"},
       {"end_allocated", kBig, "bytes", "at its end"},
       {"growth", kBig, "bytes", "end_allocated beyond begin_allocated; negative: it shrank"},
       {"backward_passes", kBig, "", "runs of backward passes in it"},
       {"trainer_step", kBig, "", "as the trainer counts; NULL: it does not"},
       {"epoch", kBig, "", "as the trainer counts; NULL: it does not"}}};
  return table;
}

const TableSchema& ModulesTable() {
  static const TableSchema table{"modules",
                                 "a row a module of the model, of the GPU with the largest peak",
                                 {{"module", kText, "", "its name, as in blocks"},
                                  {"fqn", kText, "", "its name inside the model; NULL: not known"},
                                  {"class", kText, "", "class of the module"},
                                  {"root_class", kText, "", "class of the outermost module; NULL: not known"},
                                  {"component", kText, "", "attention, mlp, norm, embedding, ..."},
                                  {"peak_bytes", kBig, "bytes", "most that blocks of its own calls held at once"},
                                  {"inclusive_peak_bytes", kBig, "bytes", "the same with all modules that it calls"},
                                  {"parameter_bytes", kBig, "bytes", "of its parameters"},
                                  {"gradient_bytes", kBig, "bytes", "of their gradients"},
                                  {"state_bytes", kBig, "bytes", "of the optimizer's state for them"},
                                  {"allocated_bytes", kBig, "bytes", "allocated by its calls in all, freed or not"},
                                  {"allocations", kBig, "", "number of these"},
                                  {"saved_bytes", kBig, "bytes", "of these, kept by autograd"},
                                  {"temporary_bytes", kBig, "bytes", "of these, temporary"}}};
  return table;
}

const TableSchema& CountersTable() {
  static const TableSchema table{
      "counters",
      "a row a sample of the process and the machine",
      {{"time_ns", kBig, "ns", "since the first event"},
       {"process_rss", kBig, "bytes", "RAM of the process; NULL: not stated"},
       {"process_cpu_ns", kBig, "ns", "CPU time of the process so far; NULL: not stated"},
       {"recorder_cpu_ns", kBig, "ns", "CPU time of the recorder's writer so far"},
       {"ring_high_bytes", kBig, "bytes", "most that waited in the ring buffer"},
       {"system_total", kBig, "bytes", "RAM of the machine; NULL: not stated"},
       {"system_available", kBig, "bytes", "RAM that is free for programs; NULL: not stated"},
       {"took_ns", kBig, "ns", "how long the sample took"},
       {"source", kText, "", "what answered, \"NVML 13.580.65\"; NULL: nothing"}}};
  return table;
}

const TableSchema& SamplesTable() {
  static const TableSchema table{
      "samples",
      "a row a sample of a GPU: what the device itself reports",
      {{"time_ns", kBig, "ns", "since the first event"},
       {"device", kInt, "", "number of the GPU"},
       {"used", kBig, "bytes", "by all processes; NULL: not reported"},
       {"free", kBig, "bytes", "free on the device; NULL: not reported"},
       {"total", kBig, "bytes", "of the hardware; NULL: not reported"},
       {"driver_reserved", kBig, "bytes", "by driver and firmware; NULL: not reported"},
       {"own", kBig, "bytes", "by this process, as nvidia-smi shows; NULL: not reported"},
       {"torch_allocated", kBig, "bytes", "PyTorch's own total; NULL: not reported"},
       {"torch_reserved", kBig, "bytes", "PyTorch's own total; NULL: not reported"},
       {"pool_reserved", kBig, "bytes", "default pool of stream-ordered memory; NULL: not used"},
       {"pool_used", kBig, "bytes", "of that, in use; NULL: not used"},
       {"other_processes", kInt, "", "number of other processes on the GPU; NULL: not reported"}}};
  return table;
}

const TableSchema& OwnersTable() {
  static const TableSchema table{
      "owners",
      "a row an owner of GPU memory that was seen, for each look at who keeps it",
      {{"time_ns", kBig, "ns", "when the recorder looked, since the first event"},
       {"cause", kText, "", "run_end, out_of_memory or asked"},
       {"root", kText, "",
        "where the way to the tensors begins: global, class, function, variable, cycle, native; variable without a "
        "file: C code, or what a function worked with"},
       {"path", kText, "", "the way: history[*].grad_fn; NULL: none"},
       {"file", kText, "", "of the module or function; NULL: not known"},
       {"name", kText, "", "of the module, class or function; of a cycle the class of the nearest object"},
       {"container", kText, "", "class of the outermost container of many; NULL: none"},
       {"items", kBig, "", "elements of it"},
       {"bytes", kBig, "bytes", "of PyTorch's blocks that it kept"},
       {"blocks", kBig, "", "how many those were"}}};
  return table;
}

const TableSchema& LossesTable() {
  static const TableSchema table{
      "losses",
      "a row a sort of loss: what is missing from the trace. All counts 0: nothing is",
      {{"what", kText, "",
        "dropped_allocs, dropped_frees, unwritten_events, missing_events, ..., cupti_dropped_records, "
        "cupti_lost_records"},
       {"count", kBig, "", "how many; of damaged_bytes: bytes"},
       {"loses_events", kBool, "", "events that happened are missing, so sums may be wrong"}}};
  return table;
}

const TableSchema& ProcessesTable() {
  static const TableSchema table{
      "processes",
      "a row a trace",
      {{"path", kText, "", "file of the trace"},
       {"program", kText, "", "script or program"},
       {"command_line", kText, "", "arguments, secrets masked"},
       {"pid", kBig, "", "process id"},
       {"hostname", kText, "", "machine"},
       {"process_rank", kInt, "", "rank of the process, as in the column rank of all tables; NULL: not known"},
       {"world_size", kInt, "", "number of ranks; NULL: not known"},
       {"role", kText, "", "in the job's layout, by its process groups: pp 1/4, tp 0/2; NULL: not known"},
       {"start_unix_ns", kBig, "ns", "the first event on the wall clock, since 1970; NULL: not known"},
       {"duration_ns", kBig, "ns", "from the first event to the last"},
       {"program_end_ns", kBig, "ns", "end of the program's own code, since the first event; NULL: not known"},
       {"events", kBig, "", "calls of allocators and CUDA in it, as gpumemshim info counts them"},
       {"peak_event", kBig, "", "the event after which memory of that GPU was highest; NULL: none"},
       {"end_event", kBig, "", "the last event of the program's own code"},
       {"complete", kBool, "", "false: the process was killed, or still runs"},
       {"damage", kText, "", "what is wrong with the file and where; NULL: nothing"},
       {"lost_events", kBig, "", "events that happened and are not in the trace, as far as is known"},
       {"device", kInt, "", "number of the GPU with the largest peak; NULL: none"},
       {"device_name", kText, "", "its name"},
       {"device_total", kBig, "bytes", "its memory; NULL: not known"},
       {"peak_allocated", kBig, "bytes", "highest allocated of that GPU"},
       {"peak_reserved", kBig, "bytes", "highest reserved of that GPU"},
       {"peak_total", kBig, "bytes", "highest total of that GPU"},
       {"peak_bound", kText, "",
        "exact; at_least, about: events are missing, and the peaks were that high at least, or about"},
       {"torch_version", kText, "", "version of PyTorch; NULL: not known"}}};
  return table;
}

bool IsOfEvents(const TableSchema& table) {
  return &table == &EventsTable() || &table == &CountersTable() || &table == &SamplesTable();
}

std::vector<const TableSchema*> AllTables() {
  return {&EventsTable(),  &BlocksTable(),   &SegmentsTable(), &StacksTable(), &FramesTable(), &StepsTable(),
          &ModulesTable(), &CountersTable(), &SamplesTable(),  &OwnersTable(), &LossesTable(), &ProcessesTable()};
}

const char* TypeName(ColumnType type) {
  switch (type) {
    case ColumnType::kBoolean:
      return "BOOLEAN";
    case ColumnType::kInteger:
      return "INTEGER";
    case ColumnType::kBigInt:
      return "BIGINT";
    case ColumnType::kUBigInt:
      return "UBIGINT";
    case ColumnType::kText:
    case ColumnType::kEnum:
      break;
  }
  return "VARCHAR";
}

}  // namespace gpumem
