// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RunFacts: what a run had in memory at one moment, named by names alone (category, module, line, stack), so that it
// can be held against another run's: ids and addresses mean nothing there. Plain values.
//
//   RunFacts facts = ReadRunFacts(*loaded, attribution, attribution.moments[0], "a.gmtrace");
//   for (const LiveGroup& group : facts.groups) group.module, group.bytes
//
// Pure function; never fails. What is not known is empty.

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_RUN_FACTS_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_RUN_FACTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ledger/attribution/attribution.h"
#include "ledger/leaks/leaks.h"
#include "ledger/load/input.h"
#include "trace/object_table.h"
#include "trace/stack_table.h"

namespace gpumem {

// A line of the program, and what it called that allocated.
struct CodePlace {
  std::string file, function;
  uint32_t line = 0;
  std::string through;  // "aten::linear"; "" = nothing to add

  friend auto operator<=>(const CodePlace&, const CodePlace&) = default;
};

// "train.py:42 Block.forward".
std::string PlaceText(const CodePlace& place);

// Live memory of one sort.
struct LiveGroup {
  Category category = Category::kUnknown;
  Part part = Part::kWhole;
  std::string module;  // "blocks.3.feed_forward", without what wrappers add; "" = none, or the model itself
  std::string module_class;
  std::string root_class;
  uint32_t root = 0;  // which model of the run: 1, 2, ...; 0 = none
  CodePlace place;
  std::string stack;  // its Python functions without lines, innermost first
  bool is_loss = false;
  bool of_torch = true;  // a block of PyTorch's allocator
  uint64_t bytes = 0, count = 0;
  uint64_t smallest = 0, largest = 0;  // of what was asked for, a block
};

struct ParameterFacts {
  std::vector<uint64_t> shape;
  std::string dtype;
  bool trainable = false;
};

struct GrowingLine {
  CodePlace place;
  uint64_t grown_bytes = 0, grown_blocks = 0;
  double bytes_per_iteration = 0;
};

// How a run ended, as far as its trace tells. kOutOfMemory: a request failed for good, and no step was completed after
// it; a program that goes on has handled it.
enum class RunEnding : uint8_t { kCompleted, kOutOfMemory, kKilled, kRunning, kUnknown };
absl::string_view RunEndingName(RunEnding ending);  // "out_of_memory"

struct RunFacts {
  std::string name;    // as the user named it: a file
  std::string moment;  // "peak", "step 10"
  std::string program;
  std::vector<std::string> command_line;
  std::map<std::string, std::string> versions, environment, settings;
  bool is_simulated = false;  // on simulated CUDA
  bool is_planned = false;    // by `gpumemshim plan`
  std::string device_name;
  int device = -1;
  uint64_t capacity = 0;  // 0 = not known

  RunEnding ending = RunEnding::kUnknown;
  uint64_t refused_bytes = 0;  // kOutOfMemory: the request that failed for good
  uint64_t needed_bytes = 0;   // kOutOfMemory: what was allocated then, and that request
  bool is_damaged = false;
  uint64_t lost_events = 0;

  bool has_moment = false;  // false: there is nothing to compare
  uint64_t time_ns = 0;     // since the first event
  uint64_t step = 0;        // 0 = in none
  Measure measure = Measure::kAllocated;
  MeasureValues values;  // at the moment
  CategoryBytes categories{};
  uint64_t peak_allocated = 0, peak_reserved = 0, peak_other = 0, peak_total = 0, context = 0;
  uint64_t code = 0;  // of `context`: loaded code
  // What the device shows for this process at its peak beyond all allocations: contexts, code, streams. 0 = not shown.
  uint64_t beyond = 0;
  uint64_t others = 0;  // most that other processes were seen to hold on the GPU; 0 = nobody looked, or none
  std::vector<std::pair<std::string, uint64_t>> beside;  // lines with other CUDA memory at its peak, largest first
  bool knows_host = true;  // of pinned and managed memory: a file of another recorder has none of it
  uint64_t peak_pinned = 0, peak_managed = 0;  // of the process: on no device
  std::string stranded;  // where free memory lay at the peak of reserved that nothing else could use; "" = hardly any
  PeakBound bound = PeakBound::kExact;  // of the peaks
  double unused_at_peak_reserved = 0;   // share of what was reserved then that no tensor used
  std::vector<LiveGroup> groups;        // largest first

  std::map<std::string, ParameterFacts> parameters;  // by name inside the model
  std::vector<std::string> optimizers;               // classes, each once
  std::vector<std::vector<uint64_t>> inputs;         // shapes of what the model was called with last
  uint64_t models = 0;                               // outermost modules that hold parameters
  uint64_t steps = 0;
  uint64_t backward_passes = 0;  // most of a complete step
  bool recomputes = false;       // torch.utils.checkpoint was called, at the moment or not
  bool judged_leaks = false;
  double growth_per_step = 0;  // bytes that growing lines keep, of the GPU where they are most
  std::vector<GrowingLine> growing;
};

struct RunNames {
  std::string run, moment;
};

// Whether a whole step began after this time of CLOCK_MONOTONIC.
bool HasStepAfter(uint64_t time_ns, const Attribution& attribution);

// How the run ended for facts->device, and what was lost of it.
void ReadRunEnding(const Analysis& analysis, const Attribution& attribution, RunFacts* facts);

// Whether any recorded stack is below torch.utils.checkpoint.
bool UsesCheckpointing(const StackTable& stacks);

// `attribution` of `input`'s trace, asked with steps; `moment` one of its moments. `leaks` may be null.
RunFacts ReadRunFacts(const ReportInput& input, const ObjectTable& objects, const Attribution& attribution,
                      const Moment& moment, const LeakFindings* leaks, const RunNames& names);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_RUN_FACTS_H_
