// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/flame_data.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "answers/report/trace_answer.h"
#include "base/json_writer.h"
#include "ledger/stacks/names.h"
#include "render/columns.h"
#include "render/draw.h"
#include "web/flame_about.h"
#include "web/flame_page.h"
#include "web/frame_columns.h"
#include "web/page_words.h"
#include "web/trace_about.h"

namespace gpumem {
namespace {

constexpr int kKindMerged = 6;  // behind those of FrameClass

// Equal neighbours as value and times.
class Runs {
 public:
  void Add(uint64_t value) {
    if (times_ > 0 && value == value_) {
      ++times_;
      return;
    }
    Flush();
    value_ = value;
    times_ = 1;
  }
  void Write(absl::string_view key, JsonWriter* json) {
    Flush();
    column_.Write(key, json);
  }

 private:
  void Flush() {
    if (times_ == 0) return;
    column_.Add(value_);
    column_.Add(times_);
    times_ = 0;
  }

  NumberColumn column_;
  uint64_t value_ = 0, times_ = 0;
};

class FlameDataWriter {
 public:
  FlameDataWriter(const FlameInput& input, const FlameTree& tree, JsonWriter* json)
      : input_(input), tree_(tree), words_(FlamePageSource()), json_(json) {}

  void Write() {
    WriteAbout();
    WriteViews();
    WriteNodes();
    WriteFrames();
    strings_.Write("strings", json_);
    WriteLabels();
  }
  // Of the page alone: what it says of all that was written.
  void WriteWords() const { words_.Write(json_); }

 private:
  void WriteAbout();
  void WriteViews();
  void WriteView(size_t place);
  void WriteMoments(const AggregatedStacks& view, const FlameView& rows);
  void WriteRows(const FlameView& view);
  void WriteNodes();
  void WriteFrames();
  void WriteLabels();
  // A text for people, which the page words in its reader's language.
  void WriteSaid(absl::string_view key, const std::string& text);
  void WriteSaid(const std::string& text);
  std::optional<int> StartDevice() const;
  std::string DeviceText(int device) const;
  std::string ThreadText(uint32_t thread) const;

  const FlameInput& input_;
  const FlameTree& tree_;
  PageWords words_;
  JsonWriter* json_;
  StringTable strings_;
  PlaceTable<uint32_t> frames_, threads_;
  PlaceTable<int> devices_;
};

void FlameDataWriter::WriteAbout() {
  const Analysis& analysis = *input_.report->analysis;
  const std::vector<std::string> losses = LossLines(*input_.report);
  json_->Key("about");
  json_->BeginObject();
  json_->Field("program",
               analysis.process.program.empty() ? "(program not known)" : ShownName(analysis.process.program));
  json_->Field("generator", input_.generator);
  json_->Field("simulated", IsSimulated(analysis));
  json_->Field("lossless", losses.empty());
  WriteJsonRemarks("facts", TraceFacts(*input_.report), &words_, json_);
  WriteJsonRemarks("warnings", FlameWarnings(input_, tree_), &words_, json_);
  json_->EndObject();
  const FlameStart& start = input_.start;
  json_->Key("start");
  json_->BeginObject(JsonLayout::kOneLine);
  json_->Field("mode", ViewModeName(start.mode));
  json_->Field("invert", start.invert);
  json_->Field("flame", start.flame);
  json_->Field("split", start.split);
  json_->Field("depth", uint64_t{start.depth});
  json_->Key("device");
  const std::optional<int> device = StartDevice();
  device ? json_->Value(devices_.Place(*device)) : json_->Null();
  json_->EndObject();
}

// The one with the largest peak; nothing of GPUs where the views are of the process.
std::optional<int> FlameDataWriter::StartDevice() const {
  for (const AggregatedStacks* view : input_.views) {
    if (!view->devices.empty() && IsOfProcess(view->devices[0].measure)) return kProcess;
  }
  const DeviceAnalysis* const largest = LargestDevice(*input_.report->analysis);
  return largest == nullptr ? std::nullopt : std::optional<int>(largest->device);
}

void FlameDataWriter::WriteViews() {
  json_->Key("views");
  json_->BeginArray();
  for (size_t i = 0; i < input_.views.size(); ++i) WriteView(i);
  json_->EndArray();
}

void FlameDataWriter::WriteView(size_t place) {
  const AggregatedStacks& aggregated = *input_.views[place];
  const FlameView& view = tree_.views()[place];
  const ViewWords words = WordsOf(aggregated.mode, input_.temporary_threshold);
  json_->BeginObject();
  json_->Field("mode", ViewModeName(aggregated.mode));
  WriteSaid("label", words.label);
  WriteSaid("meaning", words.meaning);
  WriteSaid("empty", words.empty);
  json_->Key("counted");
  json_->BeginArray(JsonLayout::kOneLine);
  json_->Value(words.one);
  json_->Value(words.many);
  json_->EndArray();
  json_->Field("bytes", view.all.bytes);
  json_->Field("count", view.all.count);
  json_->Field("merged_bytes", view.merged.bytes);
  json_->Field("merged_stacks", view.merged_stacks);
  WriteMoments(aggregated, view);
  WriteRows(view);
  json_->EndObject();
}

void FlameDataWriter::WriteMoments(const AggregatedStacks& view, const FlameView& rows) {
  std::map<int, Weight> weights;
  for (const FlameRow& row : rows.rows) weights[row.device].Add(row.weight);
  json_->Key("moments");
  json_->BeginArray();
  for (const AggregatedDevice& device : view.devices) {
    json_->BeginObject(JsonLayout::kOneLine);
    json_->Field("device", devices_.Place(device.device));
    json_->Field("measure", ViewMeasureName(device.measure));
    json_->Field("time_ns", input_.report->Since(device.time_ns));
    WriteSaid("text", ShownName(MomentText(view, device, weights[device.device], input_)));
    json_->EndObject();
  }
  json_->EndArray();
}

void FlameDataWriter::WriteRows(const FlameView& view) {
  NumberColumn node, bytes, count;
  Runs device, thread;
  uint32_t before = 0;
  for (const FlameRow& row : view.rows) {
    node.Add(row.node - before);
    before = row.node;
    device.Add(devices_.Place(row.device));
    thread.Add(threads_.Place(row.thread));
    bytes.Add(row.weight.bytes);
    count.Add(row.weight.count);
  }
  json_->Key("rows");
  json_->BeginObject();
  node.Write("node", json_);
  device.Write("device", json_);
  thread.Write("thread", json_);
  bytes.Write("bytes", json_);
  count.Write("count", json_);
  json_->EndObject();
}

void FlameDataWriter::WriteNodes() {
  NumberColumn up, frame;
  for (uint32_t i = 1; i < tree_.nodes().size(); ++i) {
    up.Add(i - tree_.nodes()[i].parent);
    frame.Add(frames_.Place(tree_.nodes()[i].frame));
  }
  WriteJsonColumns("nodes", {{"up", &up}, {"frame", &frame}}, json_);
}

void FlameDataWriter::WriteFrames() {
  ViewFrame merged;
  merged.function = "(smaller stacks, merged)";
  FrameColumns columns;
  for (const uint32_t index : frames_.list()) {
    if (index == FlameTree::kMerged) {
      columns.Add(merged, kKindMerged, &words_, &strings_);
    } else {
      const ViewFrame& frame = input_.frames->frame(index);
      columns.Add(frame, static_cast<uint64_t>(frame.kind), &words_, &strings_);
    }
  }
  columns.Write(json_);
}

std::string FlameDataWriter::DeviceText(int device) const {
  if (device == FlameTree::kNoDevice) return "GPU not known";
  if (device == kProcess && StartDevice() == kProcess) return "the process";
  for (const DeviceAnalysis& each : input_.report->analysis->devices) {
    if (each.device == device && !each.name.empty()) return absl::StrCat(DeviceLabel(device), " ", each.name);
  }
  return DeviceLabel(device);
}

std::string FlameDataWriter::ThreadText(uint32_t thread) const {
  const ThreadInfo* const info = input_.source->Thread(thread);
  if (info == nullptr || info->tid == 0) return "thread not known";
  return absl::StrCat("thread ", info->tid, info->name.empty() ? "" : " ", info->name);
}

void FlameDataWriter::WriteSaid(absl::string_view key, const std::string& text) {
  json_->Key(key);
  WriteSaid(text);
}

void FlameDataWriter::WriteSaid(const std::string& text) {
  words_.Add(text);
  json_->Value(text);
}

void FlameDataWriter::WriteLabels() {
  json_->Key("devices");
  json_->BeginArray(JsonLayout::kOneLine);
  for (const int device : devices_.list()) WriteSaid(ShownName(DeviceText(device)));
  json_->EndArray();
  json_->Key("threads");
  json_->BeginArray(JsonLayout::kOneLine);
  for (const uint32_t thread : threads_.list()) WriteSaid(ShownName(ThreadText(thread)));
  json_->EndArray();
}

}  // namespace

std::string FlameData(const FlameInput& input, const FlameTree& tree) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Field("schema_version", kJsonSchemaVersion);
  FlameDataWriter writer(input, tree, &json);
  writer.Write();
  writer.WriteWords();
  json.EndObject();
  // `<` stands in strings only, where JSON may spell it out.
  return absl::StrReplaceAll(text, {{"<", "\\u003c"}});
}

std::string FlameJson(const FlameInput& input, const FlameTree& tree) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  WriteMembers(HeadFields("flame", *input.report), &json);
  FlameDataWriter(input, tree, &json).Write();
  json.EndObject();
  text.push_back('\n');
  return text;
}

}  // namespace gpumem
