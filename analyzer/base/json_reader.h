// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ParseJson, JsonReader: JSON that this program or a helper of it wrote, and that anybody may have changed since:
// summaries of ranks, kept rows, what planned processes and helpers report. Every read checks type, range and count;
// the first thing that is wrong is kept, with its place, and after it everything reads as nothing. No exceptions. Not
// thread-safe; the value must outlive its readers.
//
//   GPUMEM_ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(text));
//   JsonReader reader(root);
//   reader.Read("pid", &pid);                                    // must be there
//   reader.ReadIfThere("torch", &version);                       // absent: stays as it is
//   std::vector<std::array<uint64_t, 2>> points;
//   reader.Read("timeline", &points);                            // each a list of two numbers
//   reader.Each("stages", [&](JsonReader* stage) { stage->Read("name", &names.emplace_back()); });
//   if (!reader.ok()) return absl::DataLossError(reader.problem());    // "stages[2].name is missing"

#ifndef GPUMEM_ANALYZER_BASE_JSON_READER_H_
#define GPUMEM_ANALYZER_BASE_JSON_READER_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// DataLoss where it is not JSON, or nested so deeply that no file of ours is: freeing and printing such values
// recurses.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text);

class JsonReader {
 public:
  explicit JsonReader(const nlohmann::json& value) : value_(value), root_(this) {}

  bool ok() const { return root_->problem_.empty(); }
  // What is wrong first: "stages[2].count is not a whole number of its range"; "" = nothing so far.
  const std::string& problem() const { return root_->problem_; }
  // What only the caller can know to be wrong: of the member `below`, or "" = of the value itself.
  void Fail(absl::string_view below, absl::string_view what);

  bool Has(const char* key) const { return value_.is_object() && value_.contains(key); }
  bool HasValue(const char* key) const { return Has(key) && !value_[key].is_null(); }

  // A number, a text, a truth value; a vector, an array, a pair or a map by text of those.
  template <typename T>
  void Read(const char* key, T* value) {
    if (const nlohmann::json* const member = Member(key); member != nullptr) Take(*member, key, value);
  }
  template <typename T>
  void ReadIfThere(const char* key, T* value) {
    if (!value_.is_object()) Fail("", "is not an object");
    if (Has(key)) Read(key, value);
  }
  // The value itself.
  template <typename T>
  void ReadAll(T* value) {
    if (ok()) Take(value_, "", value);
  }

  // The value itself, a list of one element for each of these.
  template <typename... Elements>
  void ReadTuple(Elements*... elements) {
    if (!ok()) return;
    if (!value_.is_array() || value_.size() != sizeof...(elements))
      return Fail("", absl::StrCat("is not a list of ", sizeof...(elements)));
    size_t i = 0;
    (TakeElement(value_, i++, "", elements), ...);
  }

  // The elements of a list.
  template <typename Function>
  void Each(const char* key, const Function& read) {
    const nlohmann::json* const list = Member(key);
    if (list == nullptr) return;
    if (!list->is_array()) return Fail(key, "is not a list");
    for (size_t i = 0; i < list->size() && ok(); ++i) {
      JsonReader element((*list)[i], this, key, i);
      read(&element);
    }
  }
  // A member that is an object.
  template <typename Function>
  void Object(const char* key, const Function& read) {
    const nlohmann::json* const object = Member(key);
    if (object == nullptr) return;
    if (!object->is_object()) return Fail(key, "is not an object");
    JsonReader member(*object, this, key);
    read(&member);
  }
  // The members of an object, with their names.
  template <typename Function>
  void EachMember(const char* key, const Function& read) {
    const nlohmann::json* const object = Member(key);
    if (object == nullptr) return;
    if (!object->is_object()) return Fail(key, "is not an object");
    for (auto each = object->begin(); each != object->end() && ok(); ++each) {
      JsonReader member(*each, this, key, each.key());
      read(each.key(), &member);
    }
  }

 private:
  JsonReader(const nlohmann::json& value, JsonReader* parent, const char* key, size_t index)
      : value_(value), root_(parent->root_), parent_(parent), key_(key), index_(index) {}
  JsonReader(const nlohmann::json& value, JsonReader* parent, const char* key)
      : value_(value), root_(parent->root_), parent_(parent), key_(key), is_member_(true) {}
  JsonReader(const nlohmann::json& value, JsonReader* parent, const char* key, absl::string_view name)
      : value_(value), root_(parent->root_), parent_(parent), key_(key), name_(name) {}

  const nlohmann::json* Member(const char* key);
  std::string Place() const;

  void Take(const nlohmann::json& value, const std::string& place, bool* to);
  void Take(const nlohmann::json& value, const std::string& place, double* to);  // finite
  void Take(const nlohmann::json& value, const std::string& place, std::string* to);

  template <typename Number, typename = std::enable_if_t<std::is_integral_v<Number>>>
  void Take(const nlohmann::json& value, const std::string& place, Number* to) {
    constexpr auto kMin = std::numeric_limits<Number>::min(), kMax = std::numeric_limits<Number>::max();
    if (value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(kMax)) {
      *to = static_cast<Number>(value.get<uint64_t>());
    } else if (std::is_signed_v<Number> && value.is_number_integer() && !value.is_number_unsigned() &&
               value.get<int64_t>() >= static_cast<int64_t>(kMin)) {
      *to = static_cast<Number>(value.get<int64_t>());
    } else {
      Fail(place, "is not a whole number of its range");
    }
  }
  // Of a list, where it has the right number of elements.
  template <typename Element>
  void TakeElement(const nlohmann::json& list, size_t i, const std::string& place, Element* to) {
    if constexpr (std::is_integral_v<Element> && !std::is_same_v<Element, bool>) {  // most of a file: no place is made
      if (list[i].is_number_unsigned() && list[i].get<uint64_t>() <= uint64_t{std::numeric_limits<Element>::max()}) {
        *to = static_cast<Element>(list[i].get<uint64_t>());
        return;
      }
    }
    Take(list[i], absl::StrCat(place, "[", i, "]"), to);
  }
  template <typename Element>
  void Take(const nlohmann::json& value, const std::string& place, std::vector<Element>* to) {
    if (!value.is_array()) return Fail(place, "is not a list");
    to->clear();
    for (size_t i = 0; i < value.size() && ok(); ++i) TakeElement(value, i, place, &to->emplace_back());
    if (!ok()) to->clear();
  }
  template <typename Element, size_t kCount>
  void Take(const nlohmann::json& value, const std::string& place, std::array<Element, kCount>* to) {
    if (!value.is_array() || value.size() != kCount) return Fail(place, absl::StrCat("is not a list of ", kCount));
    for (size_t i = 0; i < kCount && ok(); ++i) TakeElement(value, i, place, &(*to)[i]);
  }
  template <typename A, typename B>
  void Take(const nlohmann::json& value, const std::string& place, std::pair<A, B>* to) {
    if (!value.is_array() || value.size() != 2) return Fail(place, "is not a pair");
    TakeElement(value, 0, place, &to->first);
    if (ok()) TakeElement(value, 1, place, &to->second);
  }
  template <typename Element>
  void Take(const nlohmann::json& value, const std::string& place, std::map<std::string, Element>* to) {
    if (!value.is_object()) return Fail(place, "is not an object");
    for (auto each = value.begin(); each != value.end() && ok(); ++each)
      Take(*each, absl::StrCat(place, place.empty() ? "" : ".", each.key()), &(*to)[each.key()]);
  }

  const nlohmann::json& value_;
  JsonReader* const root_;
  JsonReader* const parent_ = nullptr;
  const char* const key_ = nullptr;  // of the list or object that it is in
  const size_t index_ = 0;
  const absl::string_view name_;  // of a member of that object
  const bool is_member_ = false;  // it is that object
  std::string problem_;           // the root's alone
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_JSON_READER_H_
