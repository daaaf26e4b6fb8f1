// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/pytorch.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "export/snapshot_again.h"
#include "import/pickle_writer.h"
#include "trace/allocator_state.h"

namespace gpumem {
namespace {

constexpr uint64_t kSmallSegment = uint64_t{2} << 20;  // what PyTorch's pool of small blocks asks CUDA for

// A contiguous range that PyTorch's allocator has from CUDA.
struct Segment {
  uint64_t address = 0, size = 0, stack = 0;
  uint32_t slot = 0;
  bool is_expandable = false;
};

// Frames of stacks, each written once.
class FrameLists {
 public:
  FrameLists(LoadedTrace* loaded, PickleWriter* pickle) : loaded_(loaded), pickle_(pickle) {}

  void Write(uint64_t stack_id) {
    pickle_->Text("frames");
    const auto [it, is_new] = lists_.try_emplace(stack_id);
    if (!is_new) return pickle_->Recall(it->second);
    pickle_->BeginList();
    for (const ResolvedFrame& frame : loaded_->source->Frames(stack_id)) {
      pickle_->Item();
      pickle_->BeginDict();
      pickle_->Field("filename", EscapeControls(frame.file.empty() ? frame.module : frame.file));
      pickle_->Field("line", uint64_t{frame.line});
      pickle_->Field("name", EscapeControls(frame.short_function));
      pickle_->EndDict();
    }
    pickle_->EndList();
    it->second = pickle_->Remember();
  }

 private:
  LoadedTrace* loaded_;
  PickleWriter* pickle_;
  absl::flat_hash_map<uint64_t, uint32_t> lists_;
};

// Segments of the state, by address: allocations that hold blocks, and contiguous mappings of reservations that do.
std::map<uint64_t, Segment> SegmentsOf(const LiveState& state) {
  std::map<uint64_t, Segment> segments;
  const CudaMemory& cuda = state.cuda();
  cuda.allocations().ForEach([&](const CudaAllocation& each) {
    if (each.torch) segments[each.address] = {each.address, each.size, each.stack, each.slot, false};
  });
  Segment* last = nullptr;
  uint32_t last_reservation = UINT32_MAX;
  for (const auto& [address, mapping] : cuda.mappings()) {
    if (!cuda.reservations()[mapping.reservation].torch) continue;
    const PhysicalHandle& physical = cuda.physicals()[mapping.physical];
    const bool goes_on =
        last != nullptr && last_reservation == mapping.reservation && last->address + last->size == address;
    if (goes_on) {
      last->size += mapping.size;
      continue;
    }
    last = &(segments[address] = {address, mapping.size, physical.stack, physical.slot, true});
    last_reservation = mapping.reservation;
  }
  return segments;
}

class PyTorchExporter final : public Exporter {
 public:
  PyTorchExporter(LoadedTrace* loaded, PickleWriter* pickle, ChunkedText* out, FrameLists* frames, bool writes_history,
                  bool writes_segments)
      : loaded_(loaded),
        pickle_(pickle),
        out_(out),
        frames_(frames),
        writes_history_(writes_history),
        writes_segments_(writes_segments) {}

  void Take(const ExportedEvent& event) override {
    const EventRow& row = event.row;
    if (!writes_history_) return;
    NoteBeginning(event);
    for (const TorchBlock& block : event.dropped) AddFree(block, block.stack, event);
    if (row.layer != trace::TORCH) return TakeCuda(event);
    if (row.kind == trace::ALLOC) {
      streams_[row.address] = row.stream;
      EnsureSegment(event);
      Entry("alloc", row, row.address, row.requested_size == 0 ? row.size : row.requested_size, event.since_ns);
    } else if (row.kind == trace::FREE) {
      // What was not seen allocated cannot be freed in a history that is read backwards.
      if (event.freed == nullptr) return;
      AddFree(*event.freed, row.stack, event);
    } else if (row.kind == trace::ALLOC_FAILED) {
      Entry("oom", row, 0, row.requested_size == 0 ? row.size : row.requested_size, event.since_ns);
    }
  }

  void End(const LiveState& state) override {
    if (!writes_segments_) return;
    pickle_->EndList();  // of this device
    pickle_->EndList();  // of all
    pickle_->Text("segments");
    pickle_->BeginList();
    std::map<uint64_t, const TorchBlock*> blocks;
    state.blocks().ForEach([&](const TorchBlock& block) { blocks[block.address] = &block; });
    for (const auto& [address, segment] : SegmentsOf(state)) {
      pickle_->Item();
      WriteSegment(segment, blocks);
      out_->MaybeFlush();
    }
    pickle_->EndList();
  }

 private:
  void AddFree(const TorchBlock& block, uint64_t stack, const ExportedEvent& event) {
    EventRow row = event.row;
    row.stack = stack;
    if (row.address != block.address || row.layer != trace::TORCH) {
      const auto stream = streams_.find(block.address);
      row.stream = stream == streams_.end() ? 0 : stream->second;
    }
    const uint64_t size = block.requested == 0 ? block.size : block.requested;
    Entry("free_requested", row, block.address, size, event.since_ns);
    Entry("free_completed", row, block.address, size, event.since_ns);
    streams_.erase(block.address);
  }

  // The rest of what a device's list holds.
  void Entry(const char* action, const EventRow& row, uint64_t address, uint64_t size, uint64_t since_ns) {
    pickle_->Item();
    pickle_->BeginDict();
    pickle_->Field("action", action);
    pickle_->Field(absl::string_view(action) == "oom" ? "device_free" : "addr", address);
    pickle_->Field("size", size);
    pickle_->Field("stream", row.stream);
    pickle_->Field("time_us", (loaded_->input.StartRealtime() + since_ns) / 1000);
    frames_->Write(row.stack);
    pickle_->EndDict();
    out_->MaybeFlush();
  }

  // Memory of CUDA from before the first event was not allocated by any.
  void NoteBeginning(const ExportedEvent& event) {
    if (std::exchange(noted_beginning_, true)) return;
    const CudaMemory& cuda = event.state.cuda();
    cuda.allocations().ForEach([&](const CudaAllocation& each) { before_[each.address] = each.size; });
    for (const auto& [begin, mapping] : cuda.mappings()) before_[begin] = mapping.size;
    if (event.row.layer != trace::TORCH) before_.erase(event.row.address);
  }

  using Segments = absl::btree_map<uint64_t, uint64_t>;  // address, size
  static Segments::const_iterator Around(uint64_t address, const Segments& segments) {
    const auto next = segments.upper_bound(address);
    if (next == segments.begin()) return segments.end();
    const auto last = std::prev(next);
    return address - last->first < last->second ? last : segments.end();
  }

  // Whether memory of CUDA is a segment shows when the first block lies in it.
  void EnsureSegment(const ExportedEvent& event) {
    const uint64_t address = event.row.address;
    if (Around(address, known_) != known_.end()) return;
    if (const auto before = Around(address, before_); before != before_.end()) {
      known_.insert(*before);
      return;
    }
    const CudaMemory& cuda = event.state.cuda();
    bool found = false;
    cuda.allocations().ForEach([&](const CudaAllocation& each) {
      if (found || !each.torch || address - each.address >= each.size || address < each.address) return;
      found = true;
      BeginSegment("segment_alloc", each.address, each.size, each.stack, event);
    });
    if (found) return;
    for (const auto& [begin, mapping] : cuda.mappings()) {
      const bool is_new = cuda.reservations()[mapping.reservation].torch && !known_.contains(begin);
      const PhysicalHandle& physical = cuda.physicals()[mapping.physical];
      if (is_new && physical.slot == event.slot)
        BeginSegment("segment_map", begin, mapping.size, physical.stack, event);
    }
  }

  void BeginSegment(const char* action, uint64_t address, uint64_t size, uint64_t stack, const ExportedEvent& event) {
    known_[address] = size;
    EventRow row = event.row;
    row.stack = stack;
    Entry(action, row, address, size, event.since_ns);
  }

  void TakeCuda(const ExportedEvent& event) {
    const EventRow& row = event.row;
    before_.erase(row.address);
    const auto known = known_.find(row.address);
    const bool ends = row.kind == trace::FREE || row.kind == trace::UNMAP;
    if (!ends || known == known_.end()) return;
    Entry(row.kind == trace::FREE ? "segment_free" : "segment_unmap", row, row.address, known->second, event.since_ns);
    known_.erase(known);
  }

  void WriteSegment(const Segment& segment, const std::map<uint64_t, const TorchBlock*>& blocks) {
    uint64_t active = 0, requested = 0, stream = 0;
    const auto first = blocks.lower_bound(segment.address);
    const auto last = blocks.lower_bound(segment.address + segment.size);
    for (auto it = first; it != last; ++it) {
      active += it->second->size;
      requested += it->second->requested == 0 ? it->second->size : it->second->requested;
      if (const auto known = streams_.find(it->first); known != streams_.end()) stream = known->second;
    }
    pickle_->BeginDict();
    pickle_->Text("device");
    pickle_->Signed(DeviceOfSlot(segment.slot));
    pickle_->Field("address", segment.address);
    pickle_->Field("total_size", segment.size);
    pickle_->Field("allocated_size", active);
    pickle_->Field("active_size", active);
    pickle_->Field("requested_size", requested);
    pickle_->Field("stream", stream);
    pickle_->Field("segment_type", segment.size <= kSmallSegment && !segment.is_expandable ? "small" : "large");
    pickle_->Text("segment_pool_id");
    pickle_->Pair(0, 0);
    pickle_->Flag("is_expandable", segment.is_expandable);
    frames_->Write(segment.stack);
    pickle_->Text("blocks");
    pickle_->BeginList();
    uint64_t at = segment.address;
    for (auto it = first; it != last; ++it) {
      if (it->first > at) WriteBlock(at, it->first - at, 0, nullptr);
      WriteBlock(it->first, it->second->size, it->second->requested, it->second);
      at = std::max(at, it->first + it->second->size);
    }
    if (at < segment.address + segment.size) WriteBlock(at, segment.address + segment.size - at, 0, nullptr);
    pickle_->EndList();
    pickle_->EndDict();
  }

  // Blocks tile their segment; null: free space.
  void WriteBlock(uint64_t address, uint64_t size, uint64_t requested, const TorchBlock* block) {
    pickle_->Item();
    pickle_->BeginDict();
    pickle_->Field("address", address);
    pickle_->Field("size", size);
    pickle_->Field("requested_size", requested == 0 && block != nullptr ? size : requested);
    pickle_->Field("state", block != nullptr ? "active_allocated" : "inactive");
    if (block != nullptr) frames_->Write(block->stack);
    pickle_->EndDict();
  }

  LoadedTrace* loaded_;
  PickleWriter* pickle_;
  ChunkedText* out_;
  FrameLists* frames_;
  bool writes_history_, writes_segments_;
  bool noted_beginning_ = false;
  Segments known_;                                   // segments in the history, and those from before that have blocks
  Segments before_;                                  // all that was there when it began, and may have gone since
  absl::flat_hash_map<uint64_t, uint64_t> streams_;  // of live blocks
};

}  // namespace

absl::StatusOr<ExportResult> ExportPyTorch(const ExportRequest& request, LoadedTrace* loaded, const TextSink& sink,
                                           const std::function<bool()>& more) {
  if (request.IsWhole()) {
    const std::optional<trace::AllocatorState> state = ReadAllocatorState(loaded->analysis.path);
    if (state && !state->rest().empty()) return ExportSnapshotAgain(*state, loaded, sink, more);
  }
  ChunkedText out(sink);
  PickleWriter pickle(out.text());
  FrameLists frames(loaded, &pickle);
  int devices = 1;
  for (const DeviceAnalysis& device : loaded->analysis.devices) devices = std::max(devices, device.device + 1);
  pickle.Begin();
  pickle.BeginDict();
  pickle.Text("device_traces");
  pickle.BeginList();
  ExportResult all;
  for (int device = 0; device < devices; ++device) {
    pickle.Item();
    pickle.BeginList();
    ExportRequest of_device = request;
    of_device.device = device;
    const bool is_last = device + 1 == devices;
    const bool is_wanted = request.device < 0 || request.device == device;
    PyTorchExporter exporter(loaded, &pickle, &out, &frames, is_wanted, is_last);
    if (is_wanted || is_last) {
      GPUMEM_ASSIGN_OR_RETURN(const ExportResult result, RunExport(of_device, loaded, &exporter, more));
      if (is_wanted) all.written_events += result.written_events;
      all.was_cut |= result.was_cut;
    }
    if (!is_last) pickle.EndList();
  }
  pickle.Text("allocator_settings");
  pickle.BeginDict();
  pickle.EndDict();
  pickle.Text("external_annotations");
  pickle.BeginList();
  pickle.EndList();
  pickle.EndDict();
  pickle.End();
  out.Flush();
  return all;
}

}  // namespace gpumem
