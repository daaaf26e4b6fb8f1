// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Many rows in a page's data: columns of numbers and one table of strings, since 100,000 rows as objects are several
// times larger and slower to read. Text is safe to show: what misleads is spelled out and long names are cut. Not
// thread-safe; values.
//
//   StringTable strings;
//   NumberColumn name;
//   name.Add(strings.Place(row.name));
//   name.Write("name", &json);      // "name": [0,1,0]
//   strings.Write("strings", &json);

#ifndef GPUMEM_ANALYZER_RENDER_COLUMNS_H_
#define GPUMEM_ANALYZER_RENDER_COLUMNS_H_

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/json_writer.h"
#include "base/utf8.h"

namespace gpumem {

// Longest text of one name, in bytes; longer ones are cut and marked.
inline constexpr size_t kLongestName = 2000;

inline std::string ShownName(absl::string_view text) {
  if (text.size() <= kLongestName) return EscapeControls(text);
  // EscapeControls would spell out half a character at the cut.
  size_t end = kLongestName;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(EscapeControls(text.substr(0, end)), "…");
}

class NumberColumn {
 public:
  void Add(std::integral auto value) { absl::StrAppend(&text_, text_.empty() ? "" : ",", value); }
  // As the difference to what was added in this way before: neighbours that differ little take little room.
  void AddStep(uint64_t value) {
    Add(static_cast<int64_t>(value - last_));
    last_ = value;
  }
  void Write(absl::string_view key, JsonWriter* json) const {
    json->Key(key);
    json->Raw(absl::StrCat("[", text_, "]"));
  }

 private:
  std::string text_;
  uint64_t last_ = 0;
};

// "key": {"name": [...], ...}, all of one length: the rows of one table.
inline void WriteJsonColumns(absl::string_view key,
                             const std::vector<std::pair<absl::string_view, const NumberColumn*>>& columns,
                             JsonWriter* json) {
  json->Key(key);
  json->BeginObject();
  for (const auto& [name, column] : columns) column->Write(name, json);
  json->EndObject();
}

class StringTable {
 public:
  uint32_t Place(absl::string_view text) {
    const auto [it, is_new] = places_.try_emplace(ShownName(text), static_cast<uint32_t>(list_.size()));
    if (is_new) list_.push_back(it->first);
    return it->second;
  }
  void Write(absl::string_view key, JsonWriter* json) const {
    json->Key(key);
    json->BeginArray(JsonLayout::kOneLine);
    for (const std::string& text : list_) json->Value(text);
    json->EndArray();
  }

 private:
  std::map<std::string, uint32_t> places_;
  std::vector<std::string> list_;
};

// Numbers in the order of their first use.
template <typename T>
class PlaceTable {
 public:
  uint32_t Place(T value) {
    const auto [it, is_new] = places_.try_emplace(value, static_cast<uint32_t>(list_.size()));
    if (is_new) list_.push_back(value);
    return it->second;
  }
  const std::vector<T>& list() const { return list_; }

 private:
  absl::flat_hash_map<T, uint32_t> places_;
  std::vector<T> list_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_RENDER_COLUMNS_H_
