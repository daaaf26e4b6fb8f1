// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/page_data.h"

#include <cstdint>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "answers/views/frame_source.h"
#include "answers/views/frame_table.h"
#include "base/json_writer.h"
#include "ledger/stacks/names.h"
#include "render/columns.h"
#include "web/category_colors.h"
#include "web/frame_columns.h"
#include "web/page_words.h"
#include "web/report_page.h"
#include "web/trace_about.h"

namespace gpumem {
namespace {

constexpr size_t kLayersOfCategory = kCategories;
constexpr size_t kLayersOfOthers = 24;  // more colours cannot be told apart

std::string ColorText(const Fill& fill) { return absl::StrCat("#", absl::Hex(fill.rgb, absl::kZeroPad6)); }

class PageDataWriter {
 public:
  PageDataWriter(const PageInput& input, PageWords* words, JsonWriter* json)
      : input_(input),
        loaded_(*input.loaded),
        words_(words),
        json_(json),
        source_(&input.loaded->stacks, input.loaded->symbolizer.get()),
        frames_(&source_, FrameRules(), loaded_.analysis.process.working_directory) {}

  void Write() {
    json_->BeginObject();
    WriteAbout();
    WriteSingleEvents();
    WriteDevices();
    WriteLives("blocks", input_.pass->blocks());
    WriteLives("segments", input_.pass->segments());
    WriteStacks();
    WriteFrames();
    strings_.Write("strings", json_);
    json_->Key("answers");
    json_->BeginObject();
    for (const auto& [command, answer] : input_.answers) {
      words_->AddAnswer(answer);
      json_->Key(command);
      json_->Raw(absl::StripTrailingAsciiWhitespace(answer));
    }
    json_->EndObject();
    json_->EndObject();
  }

 private:
  void WriteAbout();
  void WriteSingleEvents();
  void WriteDevices();
  void WriteRows(const TimeRows& rows);
  void WriteLayers(PageDevice* device);
  void WriteLayer(const Layer& layer, size_t rows, PageLayer by);
  void WriteLives(absl::string_view key, const PageLives& lives);
  void WriteStacks();
  void WriteFrames();

  const PageInput& input_;
  const LoadedTrace& loaded_;
  PageWords* words_;
  JsonWriter* json_;
  SymbolizedFrames source_;
  FrameTable frames_;
  StringTable strings_;
  std::set<uint32_t> said_lines_;  // that words_ knows of
  PlaceTable<uint64_t> stacks_;
  std::vector<AggregatedStack> stack_rows_;  // of `stacks_`, with what its first user knows of its thread
};

void PageDataWriter::WriteAbout() {
  const Analysis& analysis = loaded_.analysis;
  json_->Key("about");
  json_->BeginObject();
  json_->Field("program",
               analysis.process.program.empty() ? "(program not known)" : ShownName(analysis.process.program));
  json_->Field("file", ShownName(loaded_.file));
  json_->Field("simulated", IsSimulated(analysis));
  json_->Field("lossless", LossLines(loaded_.input).empty());
  json_->Field("events", input_.pass->events());
  json_->Field("end_event", input_.pass->end_event());
  WriteJsonRemarks("facts", TraceFacts(loaded_.input), words_, json_);
  WriteJsonRemarks("warnings", TraceWarnings(loaded_.input), words_, json_);
  json_->EndObject();
}

void PageDataWriter::WriteSingleEvents() {
  json_->Key("single_events");
  json_->BeginArray();
  for (const EventRange& range : input_.pass->SingleEvents())
    json_->Raw(absl::StrCat("[", range.from, ",", range.until, "]"));
  json_->EndArray();
}

void PageDataWriter::WriteDevices() {
  json_->Key("devices");
  json_->BeginArray();
  for (PageDevice& device : input_.pass->devices()) {
    const DeviceAnalysis* found = nullptr;
    for (const DeviceAnalysis& each : loaded_.analysis.devices) found = each.device == device.device ? &each : found;
    if (found == nullptr) continue;  // outside of what was asked for
    json_->BeginObject();
    json_->Field("device", device.device);
    json_->Field("name", ShownName(found->name));
    json_->Field("capacity_bytes", found->capacity);
    const Measure measure = DefaultMeasure(*found);
    const LiveSet& peak = LiveAtPeak(*found, measure);
    json_->Field("measure", MeasureName(measure));
    json_->Field("peak_event", peak.event_index);
    json_->Field("peak_time_ns", loaded_.input.Since(peak.time_ns));
    json_->Field("peak_bytes", PeakOf(*found, measure).bytes);
    json_->Field("peak_bound", PeakBoundName(found->bound));
    json_->Field("changes_in_row", device.rows.changes_in_row());
    WriteRows(device.rows);
    WriteLayers(&device);
    json_->EndObject();
  }
  json_->EndArray();
}

void PageDataWriter::WriteRows(const TimeRows& rows) {
  NumberColumn event, time, allocated, reserved, other, most_reserved, most_total;
  for (const TimeRow& row : rows.rows()) {
    event.AddStep(row.event);
    time.AddStep(loaded_.input.Since(row.time_ns));
    allocated.AddStep(row.values.allocated);
    reserved.AddStep(row.values.reserved);
    other.AddStep(row.values.other);
    most_reserved.AddStep(row.most_reserved);
    most_total.AddStep(row.most_total);
  }
  WriteJsonColumns("rows",
                   {{"event", &event},
                    {"time_ns", &time},
                    {"allocated", &allocated},
                    {"reserved", &reserved},
                    {"other", &other},
                    {"most_reserved", &most_reserved},
                    {"most_total", &most_total}},
                   json_);
}

void PageDataWriter::WriteLayer(const Layer& layer, size_t rows, PageLayer by) {
  NumberColumn row, bytes;
  for (const LayerChange& change : layer.changes) {
    if (change.row >= rows) break;
    row.AddStep(change.row);
    bytes.Add(change.bytes);
  }
  const std::string name = layer.key == kOtherKeys ? "" : input_.pass->KeyText(by, layer.key);
  if (by == PageLayer::kCategory || by == PageLayer::kStream) words_->Add(name);
  json_->BeginObject();
  json_->Key("name");  // null: all others, "": not known
  layer.key == kOtherKeys ? json_->Null() : json_->Value(strings_.Place(name));
  json_->Field("keys", layer.keys);
  json_->Field("highest", layer.highest);
  row.Write("row", json_);
  bytes.Write("bytes", json_);
  json_->EndObject();
}

void PageDataWriter::WriteLayers(PageDevice* device) {
  json_->Key("layers");
  json_->BeginObject();
  for (size_t i = 0; i < kPageLayers; ++i) {
    const auto by = static_cast<PageLayer>(i);
    json_->Key(PageLayerName(by));
    json_->BeginArray();
    for (const Layer& layer : device->layers[i].Take(by == PageLayer::kCategory ? kLayersOfCategory : kLayersOfOthers))
      WriteLayer(layer, device->rows.rows().size(), by);
    json_->EndArray();
  }
  json_->EndObject();
}

void PageDataWriter::WriteLives(absl::string_view key, const PageLives& lives) {
  NumberColumn born, end, time, died, device, address, size, requested, category, module, line, stack, stream, thread,
      name, evidence, memory, kept;
  for (const PageLife& row : lives.lives()) {
    const Life& life = row.life;
    born.AddStep(life.born);
    end.Add(life.end - life.born);
    time.AddStep(loaded_.input.Since(life.time_ns));
    died.Add(life.end_ns == 0 ? int64_t{-1} : static_cast<int64_t>(loaded_.input.Since(life.end_ns)));
    device.Add(row.device);
    address.AddStep(life.address);
    size.Add(life.size);
    requested.Add(life.requested);
    category.Add(strings_.Place(CategoryTitle(row.category)));
    evidence.Add(strings_.Place(EvidenceName(row.evidence)));
    module.Add(strings_.Place(input_.pass->KeyText(PageLayer::kModule, row.module)));
    const std::string line_text = input_.pass->KeyText(PageLayer::kLine, row.line);
    if (said_lines_.insert(row.line).second) words_->AddCell(line_text);
    line.Add(strings_.Place(line_text));
    const uint32_t place = stacks_.Place(row.stack_id);
    if (place == stack_rows_.size()) {
      stack_rows_.push_back({row.stack_id, row.device, life.thread, life.api, 0, {}, 0});
    }
    stack.Add(place);
    stream.Add(life.stream);
    const ThreadInfo* const info = loaded_.stacks.thread(life.thread);
    thread.Add(info != nullptr ? info->tid : life.thread);
    name.Add(strings_.Place(row.name == 0 ? "" : loaded_.stacks.string(row.name)));
    memory.Add(strings_.Place(row.layer == static_cast<uint8_t>(trace::TORCH) ? "" : MemoryName(row.memory)));
    kept.Add(life.kept ? 1 : 0);
  }
  json_->Key(key);
  json_->BeginObject();
  json_->Field("left_out", lives.left_out());
  const std::pair<absl::string_view, const NumberColumn*> columns[] = {
      {"born", &born},         {"end", &end},         {"time_ns", &time}, {"died_ns", &died},
      {"device", &device},     {"address", &address}, {"size", &size},    {"requested", &requested},
      {"category", &category}, {"module", &module},   {"line", &line},    {"stack", &stack},
      {"stream", &stream},     {"thread", &thread},   {"name", &name},    {"evidence", &evidence},
      {"memory", &memory},     {"kept", &kept}};
  for (const auto& [column, numbers] : columns) numbers->Write(column, json_);
  json_->EndObject();
}

// Frames of each stack, outermost first.
void PageDataWriter::WriteStacks() {
  json_->Key("stacks");
  json_->BeginArray();
  for (const AggregatedStack& row : stack_rows_) {
    std::string text;
    for (const uint32_t frame : frames_.Resolve(row)) absl::StrAppend(&text, text.empty() ? "[" : ",", frame);
    json_->Raw(absl::StrCat(text.empty() ? "[" : "", text, "]"));
  }
  json_->EndArray();
}

void PageDataWriter::WriteFrames() {
  FrameColumns columns;
  for (uint32_t i = 0; i < frames_.size(); ++i)
    columns.Add(frames_.frame(i), static_cast<uint64_t>(frames_.frame(i).kind), words_, &strings_);
  columns.Write(json_);
}

}  // namespace

std::string PageData(const std::vector<PageInput>& traces, absl::string_view diff, absl::string_view generator) {
  std::string data;
  JsonWriter json(&data);
  json.BeginObject();
  json.Field("schema_version", kJsonSchemaVersion);
  json.Field("generator", generator);
  json.Key("category_colors");
  json.BeginObject(JsonLayout::kOneLine);
  for (const auto& [category, place] : kCategoryFills) json.Field(CategoryTitle(category), ColorText(kPalette[place]));
  json.EndObject();
  json.Key("palette");
  json.BeginArray();
  for (const Fill& fill : kPalette) {
    json.BeginObject(JsonLayout::kOneLine);
    json.Field("color", ColorText(fill));
    json.Field("hatch", fill.hatch);
    json.EndObject();
  }
  json.EndArray();
  json.Key("diff");
  diff.empty() ? json.Null() : json.Raw(absl::StripTrailingAsciiWhitespace(diff));
  json.Key("traces");
  json.BeginArray();
  PageWords words(ReportPageSource());
  for (size_t i = 0; i < kCategories; ++i) words.Add(CategoryTitle(static_cast<Category>(i)));
  for (size_t i = 0; i < kEvidences; ++i) words.Add(EvidenceName(static_cast<Evidence>(i)));
  if (!diff.empty()) words.AddAnswer(diff);
  for (const PageInput& trace : traces) PageDataWriter(trace, &words, &json).Write();
  json.EndArray();
  words.Write(&json);
  json.EndObject();
  return data;
}

}  // namespace gpumem
