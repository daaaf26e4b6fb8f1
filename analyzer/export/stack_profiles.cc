// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/stack_profiles.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/json_writer.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

// Frames of the file by the view's.
class FrameNumbers {
 public:
  uint64_t Of(uint32_t frame) { return numbers_.try_emplace(frame, Add(frame)).first->second; }
  const std::vector<uint32_t>& frames() const { return frames_; }

 private:
  uint64_t Add(uint32_t frame) {
    if (const auto known = numbers_.find(frame); known != numbers_.end()) return known->second;
    frames_.push_back(frame);
    return frames_.size() - 1;
  }

  absl::flat_hash_map<uint32_t, uint64_t> numbers_;
  std::vector<uint32_t> frames_;
};

// The wire format of protobuf, as far as profile.proto needs it.
class ProtoText {
 public:
  void Number(uint32_t field, uint64_t value) {
    Varint(uint64_t{field} << 3);
    Varint(value);
  }
  void Bytes(uint32_t field, absl::string_view bytes) {
    Varint((uint64_t{field} << 3) | 2);
    Varint(bytes.size());
    absl::StrAppend(&text_, bytes);
  }
  const std::string& text() const { return text_; }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_.push_back(static_cast<char>(value | 0x80));
    text_.push_back(static_cast<char>(value));
  }

  std::string text_;
};

class ProfileStrings {
 public:
  ProfileStrings() { Of(""); }
  uint64_t Of(const std::string& text) {
    const auto [it, is_new] = numbers_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return it->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  absl::flat_hash_map<std::string, uint64_t> numbers_;
  std::vector<std::string> texts_;
};

void AddValueType(uint32_t field, const char* type, const char* unit, ProfileStrings* strings, ProtoText* profile) {
  ProtoText value;
  value.Number(1, strings->Of(type));
  value.Number(2, strings->Of(unit));
  profile->Bytes(field, value.text());
}

// Each frame is a function, and a location of the same number.
void AddFrame(uint64_t id, const ViewFrame& frame, ProfileStrings* strings, ProtoText* profile) {
  ProtoText function, line, location;
  const std::string name = EscapeControls(frame.function.empty() ? frame.label : frame.function);
  function.Number(1, id);
  function.Number(2, strings->Of(name));
  function.Number(3, strings->Of(name));
  function.Number(4, strings->Of(EscapeControls(frame.path)));
  line.Number(1, id);
  line.Number(2, frame.line);
  location.Number(1, id);
  location.Bytes(4, line.text());
  profile->Bytes(4, location.text());
  profile->Bytes(5, function.text());
}

}  // namespace

void WriteSpeedscope(LoadedView* view, bool by_count, const TextSink& sink) {
  ChunkedText out(sink);
  JsonWriter json(out.text());
  FrameNumbers numbers;
  std::vector<std::vector<uint64_t>> samples;
  std::vector<uint64_t> weights;
  uint64_t all = 0;
  for (const AggregatedStack& stack : view->aggregated.stacks) {
    std::vector<uint64_t>& sample = samples.emplace_back();
    for (const uint32_t frame : view->frames->Resolve(stack)) sample.push_back(numbers.Of(frame));
    weights.push_back(by_count ? stack.weight.count : stack.weight.bytes);
    all += weights.back();
  }
  json.BeginObject();
  json.Field("$schema", "https://www.speedscope.app/file-format-schema.json");
  json.Field("exporter", "gpumemshim");
  json.Field("name", view->trace->analysis.process.program);
  json.Key("shared");
  json.BeginObject();
  json.Key("frames");
  json.BeginArray();
  for (const uint32_t number : numbers.frames()) {
    const ViewFrame& frame = view->frames->frame(number);
    json.BeginObject(JsonLayout::kOneLine);
    json.Field("name", frame.label);
    if (!frame.path.empty()) json.Field("file", frame.path);
    if (frame.line != 0) json.Field("line", frame.line);
    json.EndObject();
    out.MaybeFlush();
  }
  json.EndArray();
  json.EndObject();
  json.Key("profiles");
  json.BeginArray();
  json.BeginObject();
  json.Field("type", "sampled");
  json.Field("name", "GPU memory");
  json.Field("unit", by_count ? "none" : "bytes");
  json.Field("startValue", 0);
  json.Field("endValue", all);
  json.Key("samples");
  json.BeginArray();
  for (const auto& sample : samples) {
    json.BeginArray(JsonLayout::kOneLine);
    for (const uint64_t frame : sample) json.Value(frame);
    json.EndArray();
    out.MaybeFlush();
  }
  json.EndArray();
  json.Key("weights");
  json.BeginArray(JsonLayout::kOneLine);
  for (const uint64_t weight : weights) json.Value(weight);
  json.EndArray();
  json.EndObject();
  json.EndArray();
  json.EndObject();
  *out.text() += '\n';
}

void WritePprof(LoadedView* view, bool by_count, const TextSink& sink) {
  const ViewMode mode = view->selection.mode;
  const bool is_alive = mode == ViewMode::kPeak || mode == ViewMode::kLeaks;
  const char* const objects = is_alive ? "inuse_objects" : "alloc_objects";
  const char* const space = is_alive ? "inuse_space" : "alloc_space";
  ProtoText profile;
  ProfileStrings strings;
  FrameNumbers numbers;
  AddValueType(1, objects, "count", &strings, &profile);
  AddValueType(1, space, "bytes", &strings, &profile);
  for (const AggregatedStack& stack : view->aggregated.stacks) {
    const std::vector<uint32_t> frames = view->frames->Resolve(stack);
    ProtoText sample;
    // The leaf first.
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) sample.Number(1, numbers.Of(*frame) + 1);
    sample.Number(2, stack.weight.count);
    sample.Number(2, stack.weight.bytes);
    profile.Bytes(2, sample.text());
  }
  for (size_t i = 0; i < numbers.frames().size(); ++i)
    AddFrame(i + 1, view->frames->frame(numbers.frames()[i]), &strings, &profile);
  const uint64_t comment =
      strings.Of(absl::StrCat("gpumemshim export pprof of ", view->trace->analysis.process.program));
  const uint64_t main_type = strings.Of(by_count ? objects : space);
  for (const std::string& text : strings.texts()) profile.Bytes(6, text);
  profile.Number(9, view->trace->input.StartRealtime());
  profile.Number(13, comment);
  profile.Number(14, main_type);
  sink(profile.text());
}

}  // namespace gpumem
