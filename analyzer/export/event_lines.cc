// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text_formats.h"
#include "base/utf8.h"
#include "export/exporter.h"
#include "ledger/stacks/names.h"

namespace gpumem {

void WriteJsonEvent(const EventRow& row, uint64_t since, JsonWriter* json) {
  json->Field("time_ns", since);
  json->Field("layer", LayerName(static_cast<uint8_t>(row.layer)));
  json->Field("kind", EventKindName(static_cast<uint32_t>(row.kind)));
  json->Field("memory", MemoryName(static_cast<uint8_t>(row.memory)));
  json->Field("device", row.device);
  json->Field("address", absl::StrFormat("0x%x", row.address));
  json->Field("size_bytes", row.size);
  json->Field("requested_bytes", row.requested_size);
  json->Field("stream", absl::StrFormat("0x%x", row.stream));
}

namespace {

std::string Cell(const std::string& text) { return CsvCell(EscapeControls(text)); }

const MeasureValues& ValuesOf(const ExportedEvent& event) {
  static constexpr MeasureValues kNothing{};
  return event.slot != 0 && event.slot < event.state.slots() ? event.state.values(event.slot) : kNothing;
}

class CsvExporter final : public Exporter {
 public:
  CsvExporter(LoadedTrace* loaded, TextSink sink) : loaded_(loaded), sites_(loaded), out_(std::move(sink)) {}

  void Begin() override {
    absl::StrAppend(out_.text(),
                    "time_ns,layer,kind,memory,device,address,size_bytes,requested_bytes,stream,thread,stack,"
                    "allocated_bytes,reserved_bytes,other_bytes,api,site\r\n");
  }
  void Take(const ExportedEvent& event) override {
    const EventRow& row = event.row;
    const MeasureValues& values = ValuesOf(event);
    absl::StrAppendFormat(out_.text(), "%d,%s,%s,%s,%d,0x%x,%d,%d,0x%x,%d,%d,%d,%d,%d,%s,%s\r\n", event.since_ns,
                          std::string(LayerName(static_cast<uint8_t>(row.layer))),
                          EventKindName(static_cast<uint32_t>(row.kind)),
                          std::string(MemoryName(static_cast<uint8_t>(row.memory))), row.device, row.address, row.size,
                          row.requested_size, row.stream, row.thread, row.stack, values.allocated, values.reserved,
                          values.other, Cell(loaded_->stacks.string(row.api)), Cell(sites_.Of(row.stack)));
    out_.MaybeFlush();
  }

 private:
  LoadedTrace* loaded_;
  SiteNames sites_;
  ChunkedText out_;
};

class JsonLinesExporter final : public Exporter {
 public:
  JsonLinesExporter(LoadedTrace* loaded, TextSink sink) : loaded_(loaded), sites_(loaded), out_(std::move(sink)) {}

  void Take(const ExportedEvent& event) override {
    const EventRow& row = event.row;
    const MeasureValues& values = ValuesOf(event);
    JsonWriter json(out_.text());
    json.BeginObject(JsonLayout::kOneLine);
    WriteJsonEvent(row, event.since_ns, &json);
    json.Field("thread", row.thread);
    json.Field("stack", row.stack);
    json.Field("allocated_bytes", values.allocated);
    json.Field("reserved_bytes", values.reserved);
    json.Field("other_bytes", values.other);
    json.Field("api", loaded_->stacks.string(row.api));
    json.Field("site", sites_.Of(row.stack));
    json.EndObject();
    *out_.text() += '\n';
    out_.MaybeFlush();
  }

 private:
  LoadedTrace* loaded_;
  SiteNames sites_;
  ChunkedText out_;
};

class RmmExporter final : public Exporter {
 public:
  RmmExporter(LoadedTrace* loaded, TextSink sink)
      : start_realtime_ns_(loaded->input.StartRealtime()),
        uses_torch_(loaded->analysis.events.torch > 0),
        loaded_(loaded),
        out_(std::move(sink)) {}

  void Begin() override { absl::StrAppend(out_.text(), "Thread,Time,Action,Pointer,Size,Stream\n"); }
  void Take(const ExportedEvent& event) override {
    const EventRow& row = event.row;
    const bool is_alloc = row.kind == trace::ALLOC, is_free = row.kind == trace::FREE;
    const bool is_failed = row.kind == trace::ALLOC_FAILED;
    if (uses_torch_) {
      for (const TorchBlock& block : event.dropped) AddLine("free", block.address, block.size, row, event.since_ns);
    }
    if ((row.layer == trace::TORCH) != uses_torch_ || (!is_alloc && !is_free && !is_failed)) return;
    // What was not seen allocated cannot be freed in a replay.
    if (is_free && uses_torch_ && event.freed == nullptr) return;
    AddLine(is_alloc  ? "allocate"
            : is_free ? "free"
                      : "allocate failure",
            row.address, event.freed != nullptr ? event.freed->size : row.size, row, event.since_ns);
    out_.MaybeFlush();
  }

 private:
  void AddLine(const char* action, uint64_t address, uint64_t size, const EventRow& row, uint64_t since_ns) {
    const ThreadInfo* const thread = loaded_->stacks.thread(row.thread);
    absl::StrAppendFormat(out_.text(), "%d,%s,%s,0x%x,%d,0x%x\n", thread == nullptr ? 0 : thread->tid,
                          TimeText(since_ns), action, address, size, row.stream);
  }

  // "14:03:22.123456", UTC.
  std::string TimeText(uint64_t since_ns) const {
    const uint64_t us = (start_realtime_ns_ + since_ns) / 1000;
    const uint64_t seconds = us / 1'000'000 % 86'400;
    return absl::StrFormat("%02d:%02d:%02d.%06d", seconds / 3600, seconds / 60 % 60, seconds % 60, us % 1'000'000);
  }

  uint64_t start_realtime_ns_;
  bool uses_torch_;
  LoadedTrace* loaded_;
  ChunkedText out_;
};

}  // namespace

std::unique_ptr<Exporter> MakeCsvExporter(LoadedTrace* loaded, TextSink sink) {
  return std::make_unique<CsvExporter>(loaded, std::move(sink));
}
std::unique_ptr<Exporter> MakeJsonLinesExporter(LoadedTrace* loaded, TextSink sink) {
  return std::make_unique<JsonLinesExporter>(loaded, std::move(sink));
}
std::unique_ptr<Exporter> MakeRmmExporter(LoadedTrace* loaded, TextSink sink) {
  return std::make_unique<RmmExporter>(loaded, std::move(sink));
}

}  // namespace gpumem
