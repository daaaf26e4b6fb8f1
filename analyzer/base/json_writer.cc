// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/json_writer.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "gpumemshim: bug in JSON output: %s\n", what);
  std::abort();
}

void AppendEscaped(char32_t c, std::string* out) {
  switch (c) {
    case '"':
      out->append("\\\"");
      return;
    case '\\':
      out->append("\\\\");
      return;
    case '\n':
      out->append("\\n");
      return;
    case '\t':
      out->append("\\t");
      return;
    case '\r':
      out->append("\\r");
      return;
    default:
      break;
  }
  // Many are legal in JSON, but steer terminals or mislead who reads it there; U+2028/9 end lines in JavaScript.
  if (IsMisleading(c)) {
    AppendJsonEscape(c, out);
    return;
  }
  AppendUtf8(c, out);
}

}  // namespace

void AppendJsonEscape(char32_t c, std::string* out) {
  if (c > 0xFFFF) {
    absl::StrAppendFormat(out, "\\u%04x", 0xD7C0 + (static_cast<uint32_t>(c) >> 10));
    c = 0xDC00 + (c & 0x3FF);
  }
  absl::StrAppendFormat(out, "\\u%04x", static_cast<uint32_t>(c));
}

void AppendJsonString(absl::string_view text, std::string* out) {
  out->push_back('"');
  for (size_t pos = 0; pos < text.size();) {
    const DecodedChar c = DecodeUtf8(text.substr(pos));
    AppendEscaped(c.valid ? c.value : char32_t{0xFFFD}, out);
    pos += c.length;
  }
  out->push_back('"');
}

void JsonWriter::Separate(Open& container) {
  if (!container.empty) out_->append(container.lines ? "," : ", ");
  if (container.lines) {
    out_->push_back('\n');
    out_->append(2 * open_.size(), ' ');
  }
  container.empty = false;
}

void JsonWriter::BeforeValue() {
  Require(!done_, "a second top-level value");
  if (open_.empty()) return;
  if (open_.back().end == '}') {
    Require(key_written_, "a value without a key");
    key_written_ = false;
    return;
  }
  Separate(open_.back());
}

void JsonWriter::Begin(char open, char close, JsonLayout layout) {
  BeforeValue();
  const bool parent_lines = open_.empty() || open_.back().lines;
  out_->push_back(open);
  open_.push_back({close, parent_lines && layout == JsonLayout::kLines});
}

void JsonWriter::End(char close) {
  Require(!open_.empty() && open_.back().end == close && !key_written_, "an end without its begin");
  const Open container = open_.back();
  open_.pop_back();
  if (container.lines && !container.empty) {
    out_->push_back('\n');
    out_->append(2 * open_.size(), ' ');
  }
  out_->push_back(close);
  AfterValue();
}

void JsonWriter::Key(absl::string_view key) {
  Require(!open_.empty() && open_.back().end == '}' && !key_written_, "a key outside an object");
  Separate(open_.back());
  AppendJsonString(key, out_);
  out_->append(": ");
  key_written_ = true;
}

void JsonWriter::Value(absl::string_view value) {
  BeforeValue();
  AppendJsonString(value, out_);
  AfterValue();
}

void JsonWriter::Value(bool value) {
  BeforeValue();
  out_->append(value ? "true" : "false");
  AfterValue();
}

void JsonWriter::Value(double value) {
  if (!std::isfinite(value)) {
    Null();
    return;
  }
  BeforeValue();
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), value);  // shortest form that reads back as the same number
  out_->append(text, end.ptr);
  AfterValue();
}

void JsonWriter::Null() {
  BeforeValue();
  out_->append("null");
  AfterValue();
}

void JsonWriter::Raw(absl::string_view json) {
  BeforeValue();
  out_->append(json.data(), json.size());
  AfterValue();
}

void JsonWriter::Unsigned(uint64_t value) {
  BeforeValue();
  absl::StrAppendFormat(out_, "%d", value);
  AfterValue();
}

void JsonWriter::Signed(int64_t value) {
  BeforeValue();
  absl::StrAppendFormat(out_, "%d", value);
  AfterValue();
}

}  // namespace gpumem
