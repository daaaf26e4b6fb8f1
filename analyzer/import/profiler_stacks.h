// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ProfilerStacks: which operators, modules and Python functions lay around a memory event of a profile: the spans of
// its own thread that contain its time. Spans of a thread nest; one that outlasts what it began in is asynchronous, and
// nothing is inside it. An event between two spans that touch is in neither, but in what contains both.
//
//   nn.Module: Net_0 ──────────────────────────────
//     aten::linear ────────────   aten::relu ──────
//       aten::addmm ──────
//                 [memory]        stack: addmm, linear, Net_0
//
// What an autograd node runs has, in place of the callers of autograd's thread, the mark of a forward pass and the
// stack of the forward operator to which the profile links it, as in a recording.
//
// Time: that of sorting the spans. Not thread-safe; the events and the writer must outlive it. Errors are the writer's,
// and DataLoss where stacks take more memory than may be.
//
//   ProfilerStacks stacks(&events, &memory, &writer);
//   GPUMEM_RETURN_IF_ERROR(stacks.Look());    // what there is, for the trace's header
//   GPUMEM_RETURN_IF_ERROR(stacks.Join());    // fills ProfilerMemoryEvent::stack

#ifndef GPUMEM_ANALYZER_IMPORT_PROFILER_STACKS_H_
#define GPUMEM_ANALYZER_IMPORT_PROFILER_STACKS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "import/import.h"
#include "import/profiler_events.h"
#include "import/profiler_frames.h"
#include "trace/write/trace_writer.h"

namespace gpumem {

class ProfilerStacks {
 public:
  ProfilerStacks(ProfilerEvents* events, ImportMemory* memory, TraceWriter* writer)
      : events_(*events), memory_(*memory), writer_(*writer), frames_(&writer->definitions()) {}

  // First. Sorts the spans; the order of the memory events stays.
  absl::Status Look();
  // Then, when the trace has begun.
  absl::Status Join();

  bool has_any() const { return has_any_; }
  bool has_python() const { return has_python_; }        // any stack has a function of Python
  bool has_functions() const { return has_functions_; }  // one whose line is where it begins

 private:
  struct Open {
    const ProfilerSpan* span = nullptr;
    uint64_t end_ns = 0, stack = 0;
    uint32_t module = 0;   // NnModule.id of the innermost call
    uint32_t modules = 0;  // the "Module Hierarchy" that the stack has, a name
    bool is_made = false;
  };
  // On which stack a node of autograd was made.
  struct Forward {
    uint64_t stack = 0;
    uint32_t node = 0;  // its name
  };
  // A moment of a thread whose stack is wanted.
  struct Point {
    uint32_t thread = 0;
    uint64_t time_ns = 0;
    uint64_t index = 0;
  };

  void SortSpans();
  std::vector<Point> PointsOfMemory() const;
  // take(point, how many of open_ it lies in), in the order of times, for each point.
  template <typename Take>
  absl::Status Sweep(std::vector<Point>* points, Take take);
  void Push(const ProfilerSpan& span);
  size_t Around(uint64_t time_ns);
  const ProfilerSpan* BeginningAt(uint64_t time_ns, size_t* depth) const;
  uint64_t StackOf(size_t depth);
  void Make(size_t i);
  uint64_t CallersElsewhere(const ProfilerSpan& span);
  uint64_t CallStack(uint32_t name);
  uint64_t WithModules(uint64_t caller, const ProfilerSpan& span, Open* open);
  uint64_t With(uint64_t caller, uint32_t frame);
  uint64_t Cut();  // the stack of callers that nobody recorded
  absl::Status JoinLinks();
  absl::Status Spend();

  ProfilerEvents& events_;
  ImportMemory& memory_;
  TraceWriter& writer_;
  ProfilerFrames frames_;
  std::vector<Open> open_;
  uint64_t touched_ns_ = 0;  // when two spans touched last, and how many lay around both
  size_t touched_depth_ = 0;
  std::vector<std::pair<uint32_t, const ProfilerSpan*>> by_python_id_;
  absl::flat_hash_map<uint32_t, uint64_t> call_stacks_;                  // by name
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, Forward> forward_;  // by thread and begin of a span
  uint64_t spent_for_definitions_ = 0;
  bool has_any_ = false, has_python_ = false, has_functions_ = false;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_PROFILER_STACKS_H_
