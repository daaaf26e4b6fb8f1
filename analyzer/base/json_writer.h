// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// JsonWriter: writes one JSON text (RFC 8259) piece by piece, so that an answer never has to exist as a tree. Keys keep
// the order in which they are written. Strings may hold any bytes: control characters are escaped and bytes that are
// not UTF-8 become U+FFFD, so the output is always valid UTF-8. Numbers are exact; a double that is not finite is
// written as null.
//
// Not thread-safe. The text is appended to a string that the caller owns and may empty between two calls (that is how
// long output streams). Calls in a wrong order (a value without its key, an end without its begin) are bugs and abort.
//
//   std::string out;
//   JsonWriter json(&out);
//   json.BeginObject();
//   json.Field("program", "train");
//   json.Key("devices"); json.BeginArray(); json.EndArray();
//   json.EndObject();                           // {"program": "train", "devices": []}, indented

#ifndef GPUMEM_ANALYZER_BASE_JSON_WRITER_H_
#define GPUMEM_ANALYZER_BASE_JSON_WRITER_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem {

// Where the members of an object or array stand.
enum class JsonLayout : uint8_t { kLines, kOneLine };

// Of every answer of every command; docs/json.md says what changed with it.
inline constexpr int kJsonSchemaVersion = 3;

class JsonWriter {
 public:
  explicit JsonWriter(std::string* out) : out_(out) {}
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  // Inside a one-line container everything stays on that line.
  void BeginObject(JsonLayout layout = JsonLayout::kLines) { Begin('{', '}', layout); }
  void EndObject() { End('}'); }
  void BeginArray(JsonLayout layout = JsonLayout::kLines) { Begin('[', ']', layout); }
  void EndArray() { End(']'); }

  void Key(absl::string_view key);

  void Value(absl::string_view value);
  void Value(const char* value) { Value(absl::string_view(value)); }
  void Value(const std::string& value) { Value(absl::string_view(value)); }
  void Value(bool value);
  void Value(double value);
  void Value(std::unsigned_integral auto value) { Unsigned(value); }
  void Value(std::signed_integral auto value) { Signed(value); }
  void Null();
  // A value that is JSON already.
  void Raw(absl::string_view json);

  template <typename T>
  void Field(absl::string_view key, const T& value) {
    Key(key);
    Value(value);
  }

  // Whether a whole value was written and every container is closed.
  bool done() const { return done_ && open_.empty(); }

 private:
  struct Open {
    char end;
    bool lines;
    bool empty = true;
  };

  void Begin(char open, char close, JsonLayout layout);
  void End(char close);
  void Unsigned(uint64_t value);
  void Signed(int64_t value);
  void BeforeValue();
  void Separate(Open& container);
  void AfterValue() { done_ = open_.empty(); }

  std::string* out_;
  std::vector<Open> open_;
  bool key_written_ = false;
  bool done_ = false;
};

// Appends "\\u" and the four digits of `c` (twice, beyond U+FFFF: its surrogates).
void AppendJsonEscape(char32_t c, std::string* out);

// Appends `text` as a JSON string, quotes included. Bytes that are no UTF-8 become U+FFFD; what misleads readers
// (IsMisleading) is written as an escape.
void AppendJsonString(absl::string_view text, std::string* out);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_JSON_WRITER_H_
