// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/snapshot_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "import/json_source.h"

namespace gpumem {
namespace {

using ValueType = PickleValue::Type;

constexpr absl::string_view kPickleKey = "\"base64\":";
constexpr size_t kLongestHead = size_t{1} << 20;  // of a page, before the pickle

// The string that begins at `text`, without its quotes and with its escapes; `text` goes on behind it. Nothing where it
// does not end.
std::optional<absl::string_view> TakeString(absl::string_view* text) {
  for (size_t i = 1; i < text->size(); ++i) {
    if ((*text)[i] == '\\') {
      ++i;
    } else if ((*text)[i] == '"') {
      const absl::string_view found = text->substr(1, i - 1);
      text->remove_prefix(i + 1);
      return found;
    }
  }
  return std::nullopt;
}

bool IsKeyOfSnapshot(absl::string_view key, bool in_list) {
  if (in_list) return key == "total_size" || key == "segment_type";
  for (const absl::string_view known :
       {"segments", "device_traces", "allocator_settings", "external_annotations", "host_segments", "host_traces"}) {
    if (key == known) return true;
  }
  return false;
}

}  // namespace

bool IsSnapshotPage(absl::string_view begin) {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(begin);
  return absl::StartsWith(text, "<") && absl::StrContains(begin, "add_local_files") &&
         absl::StrContains(begin, kPickleKey);
}

bool IsSnapshotJson(absl::string_view begin) {
  absl::string_view text = absl::StripLeadingAsciiWhitespace(begin);
  const bool in_list = absl::ConsumePrefix(&text, "[");
  int depth = 0;
  bool is_key = false;
  while (!text.empty()) {
    const char c = text[0];
    if (c == '"') {
      const std::optional<absl::string_view> string = TakeString(&text);
      if (!string) return false;
      if (depth == 1 && is_key && IsKeyOfSnapshot(*string, in_list)) return true;
      is_key = false;
      continue;
    }
    text.remove_prefix(1);
    if (c == '{' || c == '[') {
      if (depth++ == 0 && c == '[') return false;  // a list of lists is none
      is_key = c == '{';
    } else if (c == '}' || c == ']') {
      if (--depth <= 0) return false;
    } else if (c == ',') {
      is_key = true;
    } else if (depth == 0 && !absl::ascii_isspace(static_cast<unsigned char>(c))) {
      return false;
    }
  }
  return false;
}

namespace {

// `text` is what follows the first snapshot of a page. PyTorch writes one; of which of several an answer were is
// unclear.
absl::Status RefuseASecond(ByteSource* source, std::string text) {
  for (absl::string_view piece = source->Next();; piece = source->Next()) {
    absl::StrAppend(&text, piece);
    if (absl::StrContains(text, kPickleKey))
      return absl::DataLossError("the page has several snapshots in it. Save each as a pickle of its own");
    if (piece.empty()) return source->status();
    text.erase(0, text.size() - std::min(text.size(), kPickleKey.size()));
  }
}

// The pickle, decoded, as far as the string goes.
absl::Status DecodePage(ByteSource* source, ImportMemory* memory, std::string* pickle) {
  std::string text;
  bool is_inside = false;
  for (absl::string_view piece = source->Next(); !piece.empty(); piece = source->Next()) {
    absl::StrAppend(&text, piece);
    if (!is_inside) {
      const size_t key = absl::string_view(text).find(kPickleKey);
      const size_t quote = key == std::string::npos ? key : text.find('"', key + kPickleKey.size());
      if (quote == std::string::npos) {
        if (text.size() > kLongestHead + piece.size()) break;
        continue;
      }
      text.erase(0, quote + 1);
      is_inside = true;
    }
    const size_t end = text.find('"');
    const size_t whole = end == std::string::npos ? text.size() / 4 * 4 : end;
    std::string bytes;
    if (!absl::Base64Unescape(absl::string_view(text).substr(0, whole), &bytes))
      return absl::DataLossError("the snapshot inside the page is no base64. Save the page anew");
    if (!memory->Spend(2 * bytes.size())) return memory->TooMuch();  // twice, while it grows
    absl::StrAppend(pickle, bytes);
    text.erase(0, whole);
    if (end != std::string::npos) return RefuseASecond(source, std::move(text));
  }
  GPUMEM_RETURN_IF_ERROR(source->status());
  return absl::DataLossError(is_inside ? "the page ends inside its snapshot: it was cut short. Copy it anew"
                                       : "is a page of PyTorch's memory viewer, without a snapshot in it");
}

// Values above the marks are those of the containers that are open.
class TreeHandler final : public JsonHandler {
 public:
  TreeHandler(ByteSource* source, const PickleLimits& limits)
      : JsonHandler(source), limits_(limits), tree_(std::min(limits.most_bytes, limits.always_bytes)) {}

  PickleTree Take() {
    if (!values_.empty()) tree_.SetRoot(values_[0]);
    return std::move(tree_);
  }
  uint64_t spent() const { return tree_.spent(); }

  bool null() override { return Push({}); }
  bool boolean(bool value) override { return Push({ValueType::kBool, value ? 1u : 0u}); }
  bool number_integer(number_integer_t value) override { return Push(tree_.MakeInt(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Push(tree_.MakeUnsigned(value)); }
  bool number_float(number_float_t value, const string_t&) override { return Push(tree_.MakeFloat(value)); }
  bool string(string_t& value) override {
    const std::optional<PickleValue> text = tree_.MakeText(value);
    return text ? Push(*text) : Wrong("has more text than such a file can need");
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return Open(ValueType::kDict); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(ValueType::kList); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override { return string(value); }

 private:
  bool Push(PickleValue value) {
    tree_.SetBudget(std::min(limits_.most_bytes, limits_.always_bytes + limits_.bytes_per_byte * Advance()));
    if (values_.size() == values_.capacity() && !tree_.Spend(sizeof value * (values_.size() + 64)))
      return Wrong("has more values than such a file can need");
    values_.push_back(value);
    return true;
  }
  bool Open(ValueType type) {
    if (open_.size() > kDeepestJson) return Wrong("is nested too deeply");
    const PickleValue container = tree_.MakeContainer(type);
    if (!Push(container)) return false;
    open_.push_back(values_.size());
    return true;
  }
  bool Close() {
    const size_t begin = open_.back();
    open_.pop_back();
    if (!tree_.Add(values_[begin - 1], {values_.data() + begin, values_.size() - begin}))
      return Wrong("has more values than such a file can need");
    values_.resize(begin);
    return true;
  }

  PickleLimits limits_;
  PickleTree tree_;
  std::vector<PickleValue> values_;
  std::vector<size_t> open_;
};

}  // namespace

absl::StatusOr<PickleTree> ReadSnapshotPage(ByteSource* source, const PickleLimits& limits, ImportMemory* memory,
                                            const std::function<void(uint64_t, uint64_t)>& progress) {
  std::string pickle;
  GPUMEM_RETURN_IF_ERROR(DecodePage(source, memory, &pickle));
  ByteSource decoded = ByteSource::Of(pickle);
  PickleLimits left = limits;
  left.most_bytes = std::min(limits.most_bytes, memory->left());
  return ReadPickle(&decoded, left, progress);
}

absl::StatusOr<PickleTree> ReadSnapshotJson(ByteSource* source, const PickleLimits& limits) {
  TreeHandler handler(source, limits);
  const absl::Status parsed = handler.Parse("Write the snapshot anew");
  if (parsed.ok()) return handler.Take();
  return source->status().ok() && handler.spent() > limits.most_bytes ? limits.too_much : parsed;
}

}  // namespace gpumem
