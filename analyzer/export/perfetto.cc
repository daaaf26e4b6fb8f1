// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "export/exporter.h"
#include "perfetto.pb.h"

namespace gpumem {
namespace {

// Numbers of Perfetto's BuiltinClock and SequenceFlags.
constexpr uint32_t kRealtimeClock = 1, kBootClock = 6, kIncrementalStateCleared = 1;

// A number that another process's trace hardly has: traces of several processes, joined by cat, are one trace.
uint64_t NumberOf(const ProcessInfo& process) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : absl::StrCat(process.hostname, " ", process.pid, " ", process.start_ticks, " ", process.boot_id))
    hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

class PerfettoExporter final : public Exporter {
 public:
  PerfettoExporter(LoadedTrace* loaded, TextSink sink)
      : loaded_(loaded),
        sites_(loaded),
        out_(std::move(sink)),
        process_track_(NumberOf(loaded->analysis.process) & ~uint64_t{0xfff}),
        sequence_(static_cast<uint32_t>(process_track_ >> 32) | 1) {}

  void Begin() override {
    AddClocks();
    AddProcess();
    NewTrack(kStepsTrack, "steps");
    NewTrack(kMarksTrack, "marks and failed requests");
    AddSteps();
  }

  void Take(const ExportedEvent& event) override {
    const EventRow& row = event.row;
    if (row.kind == trace::ALLOC_FAILED || row.kind == trace::MARK) AddInstant(event);
    if (event.slot == 0 || event.slot >= event.state.slots()) return;
    if (event.slot >= last_.size()) AddDevices(event.slot);
    const MeasureValues& values = event.state.values(event.slot);
    MeasureValues& last = last_[event.slot];
    AddCounter(event, 0, values.allocated, &last.allocated);
    AddCounter(event, 1, values.reserved, &last.reserved);
    AddCounter(event, 2, values.other, &last.other);
    out_.MaybeFlush();
  }

  void End(const LiveState&) override { out_.Flush(); }

 private:
  static constexpr uint64_t kStepsTrack = 1, kMarksTrack = 2, kFirstCounter = 16;
  static constexpr uint64_t kNone = UINT64_MAX;  // no value yet: the first one is written, 0 too

  // One packet of a trace that has only it: so the bytes can follow each other.
  perfetto::TracePacket* NewPacket() {
    one_.Clear();
    perfetto::TracePacket* const packet = one_.add_packet();
    packet->set_trusted_packet_sequence_id(sequence_);
    return packet;
  }
  void Write() {
    one_.AppendToString(out_.text());
    out_.MaybeFlush();
  }

  perfetto::TrackEvent* NewEvent(uint64_t time_ns, uint64_t track, perfetto::TrackEvent::Type type) {
    perfetto::TracePacket* const packet = NewPacket();
    packet->set_timestamp(time_ns);
    perfetto::TrackEvent* const event = packet->mutable_track_event();
    event->set_type(type);
    event->set_track_uuid(process_track_ + track);
    return event;
  }

  static void Annotate(const char* name, uint64_t value, perfetto::TrackEvent* event) {
    perfetto::DebugAnnotation* const annotation = event->add_debug_annotations();
    annotation->set_name(name);
    annotation->set_uint_value(value);
  }

  // The trace's clock is taken for the one that Perfetto counts by when nothing else is said: they differ only by the
  // time that the machine slept.
  void AddClocks() {
    const ProcessInfo& process = loaded_->analysis.process;
    perfetto::TracePacket* const packet = NewPacket();
    packet->set_sequence_flags(kIncrementalStateCleared);
    if (process.anchor_realtime_ns != 0) {
      for (const auto& [clock, time_ns] : {std::pair(kBootClock, process.anchor_monotonic_ns),
                                           std::pair(kRealtimeClock, process.anchor_realtime_ns)}) {
        perfetto::ClockSnapshot::Clock* const each = packet->mutable_clock_snapshot()->add_clocks();
        each->set_clock_id(clock);
        each->set_timestamp(time_ns);
      }
    }
    Write();
  }

  void AddProcess() {
    const ProcessInfo& process = loaded_->analysis.process;
    perfetto::TrackDescriptor* const track = NewPacket()->mutable_track_descriptor();
    track->set_uuid(process_track_);
    track->mutable_process()->set_pid(static_cast<int32_t>(process.pid));
    const std::string rank = process.rank < 0 ? "" : absl::StrCat(" rank ", process.rank);
    track->mutable_process()->set_process_name(EscapeControls(process.program + rank));
    for (const std::string& word : process.command_line) track->mutable_process()->add_cmdline(EscapeControls(word));
    Write();
  }

  perfetto::TrackDescriptor* AddTrack(uint64_t number, const std::string& name) {
    perfetto::TrackDescriptor* const track = NewPacket()->mutable_track_descriptor();
    track->set_uuid(process_track_ + number);
    track->set_parent_uuid(process_track_);
    track->set_name(name);
    return track;
  }
  void NewTrack(uint64_t number, const std::string& name) {
    AddTrack(number, name);
    Write();
  }

  static uint64_t CounterTrack(uint32_t slot, uint64_t measure) { return kFirstCounter + 4 * uint64_t{slot} + measure; }

  void AddDevices(uint32_t slot) {
    for (uint32_t each = std::max<uint32_t>(1, static_cast<uint32_t>(last_.size())); each <= slot; ++each) {
      uint64_t measure = 0;
      for (const char* const name : {"allocated", "reserved", "outside PyTorch"}) {
        AddTrack(CounterTrack(each, measure++), absl::StrCat("GPU ", DeviceOfSlot(each), " ", name))
            ->mutable_counter()
            ->set_unit(perfetto::CounterDescriptor::UNIT_SIZE_BYTES);
        Write();
      }
    }
    last_.resize(slot + 1, {kNone, kNone, kNone, kNone});
  }

  void AddCounter(const ExportedEvent& event, uint64_t measure, uint64_t value, uint64_t* last) {
    if (value == *last) return;
    *last = value;
    NewEvent(event.row.time_ns, CounterTrack(event.slot, measure), perfetto::TrackEvent::TYPE_COUNTER)
        ->set_counter_value(static_cast<int64_t>(value));
    Write();
  }

  void AddSteps() {
    for (const AttributedStep& each : StepsOf(loaded_)) {
      perfetto::TrackEvent* const begin =
          NewEvent(each.step.start.time_ns, kStepsTrack, perfetto::TrackEvent::TYPE_SLICE_BEGIN);
      begin->set_name(absl::StrCat("step ", each.step.number));
      Annotate("peak_allocated_bytes", each.step.peak.values.allocated, begin);
      Write();
      NewEvent(std::max(each.step.start.time_ns, each.step.end.time_ns), kStepsTrack,
               perfetto::TrackEvent::TYPE_SLICE_END);
      Write();
    }
  }

  void AddInstant(const ExportedEvent& event) {
    const EventRow& row = event.row;
    perfetto::TrackEvent* const instant = NewEvent(row.time_ns, kMarksTrack, perfetto::TrackEvent::TYPE_INSTANT);
    const bool is_mark = row.kind == trace::MARK;
    instant->set_name(is_mark ? EscapeControls(loaded_->stacks.string(row.text)) : "failed request");
    if (!is_mark) Annotate("size_bytes", row.size, instant);
    const std::string& site = sites_.Of(row.stack);
    if (!site.empty()) {
      perfetto::DebugAnnotation* const annotation = instant->add_debug_annotations();
      annotation->set_name("site");
      annotation->set_string_value(EscapeControls(site));
    }
    Write();
  }

  LoadedTrace* loaded_;
  SiteNames sites_;
  ChunkedText out_;
  uint64_t process_track_;
  uint32_t sequence_;
  perfetto::Trace one_;
  std::vector<MeasureValues> last_;  // by slot
};

}  // namespace

std::unique_ptr<Exporter> MakePerfettoExporter(LoadedTrace* loaded, TextSink sink) {
  return std::make_unique<PerfettoExporter>(loaded, std::move(sink));
}

}  // namespace gpumem
