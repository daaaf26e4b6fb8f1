// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Exporter: a trace as a file for another tool, event by event. RunExport replays the trace once and hands each event
// to it with the state behind it; memory is bounded by what is alive and by the stacks.
//
//   const std::unique_ptr<Exporter> exporter = MakeChromeExporter(context, sink);
//   GPUMEM_RETURN_IF_ERROR(RunExport(request, loaded.get(), exporter.get()));
//
// Not thread-safe. What a format cannot hold is left out and said in its document, docs/commands/export.md.

#ifndef GPUMEM_ANALYZER_EXPORT_EXPORTER_H_
#define GPUMEM_ANALYZER_EXPORT_EXPORTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/json_writer.h"
#include "base/text_sink.h"
#include "ledger/load/attribute.h"
#include "ledger/load/load_trace.h"
#include "ledger/stacks/stack_view.h"
#include "replay/state/live_state.h"
#include "trace/event_batch.h"

namespace gpumem {

struct ExportedEvent {
  const EventRow& row;
  uint64_t index = 0;      // number of the event in its trace
  uint64_t since_ns = 0;   // since the trace's first event
  uint32_t slot = 0;       // of its device; 0 = of none
  const LiveState& state;  // behind it
  // PyTorch's free: the block that it ended, as it was allocated; else null.
  const TorchBlock* freed = nullptr;
  // PyTorch's blocks that this event ended without being their free: their own is missing (it fell into a gap), and
  // their memory is used anew, or given back to CUDA.
  absl::Span<const TorchBlock> dropped;
};

class Exporter {
 public:
  virtual ~Exporter() = default;
  virtual void Begin() {}
  virtual void Take(const ExportedEvent& event) = 0;
  // An event before the window, or of a device or layer that was not asked for.
  virtual void Skip(const ExportedEvent& event) { static_cast<void>(event); }
  virtual void End(const LiveState& state) { static_cast<void>(state); }
};

struct ExportRequest {
  int device = -1;  // -1 = all
  LayerFilter layer = LayerFilter::kAll;
  uint64_t from_ns = 0, to_ns = UINT64_MAX;  // since the first event, both included
  bool may_be_cut = false;                   // `more` may say stop

  bool IsWhole() const {
    return device < 0 && layer == LayerFilter::kAll && from_ns == 0 && to_ns == UINT64_MAX && !may_be_cut;
  }
};

// How far it went. `written_events` < the trace's where `more` said stop.
struct ExportResult {
  uint64_t written_events = 0;
  bool was_cut = false;
};

// `more`: asked before each event that is exported; false ends the export there, properly closed. The state at End is
// the one behind the last event of the window.
absl::StatusOr<ExportResult> RunExport(const ExportRequest& request, LoadedTrace* loaded, Exporter* exporter,
                                       const std::function<bool()>& more);

// Members of an event's object: when, what, where and how large. `since`: nanoseconds from the first event on.
void WriteJsonEvent(const EventRow& row, uint64_t since, JsonWriter* json);

// One line an event. Every column is there, empty where not known.
std::unique_ptr<Exporter> MakeCsvExporter(LoadedTrace* loaded, TextSink sink);
// One JSON object an event, as `gpumemshim export events --json`, with the totals behind it and the line of the
// program.
std::unique_ptr<Exporter> MakeJsonLinesExporter(LoadedTrace* loaded, TextSink sink);
// RMM's logging_resource_adaptor: Thread,Time,Action,Pointer,Size,Stream. PyTorch's blocks, or, without any, CUDA's
// allocations.
std::unique_ptr<Exporter> MakeRmmExporter(LoadedTrace* loaded, TextSink sink);
// Trace Event Format: counter tracks of each GPU, steps and marks. Perfetto and chrome://tracing open it.
std::unique_ptr<Exporter> MakeChromeExporter(LoadedTrace* loaded, TextSink sink);
// The same as Perfetto's own protobuf trace, with wall-clock times. Of several processes: `cat` joins them.
std::unique_ptr<Exporter> MakePerfettoExporter(LoadedTrace* loaded, TextSink sink);

// SiteNames: the line of the program that a stack stands for, looked up once a stack. Memory: one text a stack. Not
// thread-safe; the trace must outlive it.
//
//   SiteNames sites(loaded);
//   sites.Of(row.stack)   // "train.py:42 Block.forward"
class SiteNames {
 public:
  explicit SiteNames(LoadedTrace* loaded) : loaded_(loaded) {}

  // "" where no stack was recorded.
  const std::string& Of(uint64_t stack_id) {
    const auto [it, is_new] = names_.try_emplace(stack_id);
    if (is_new && stack_id != 0)
      it->second = ViewStack(loaded_->source->Frames(stack_id), "", loaded_->analysis.process.working_directory).site;
    return it->second;
  }

 private:
  LoadedTrace* loaded_;
  absl::flat_hash_map<uint64_t, std::string> names_;
};

// The training steps of a trace for formats that draw them, with each step's peak. Empty where there are none, or where
// the trace cannot be read a second time: a timeline without steps is still one. Not thread-safe.
//
//   for (const AttributedStep& each : StepsOf(loaded)) Draw(each.step.start.time_ns, each.step.end.time_ns);

inline std::vector<AttributedStep> StepsOf(LoadedTrace* loaded) {
  AttributionRequest request;
  request.steps = true;
  auto attribution = AttributeLoaded(request, "", loaded);
  loaded->input.attribution = nullptr;
  return attribution.ok() ? std::move((*attribution)->steps) : std::vector<AttributedStep>();
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_EXPORTER_H_
