// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/json_reader.h"

#include "absl/status/status.h"

namespace gpumem {
namespace {

constexpr size_t kDeepest = 64;  // the deepest of ours has 8 levels

// Counted before anything is made of them. Up to the first byte that is not JSON it counts what the parser does.
bool IsTooDeep(absl::string_view text) {
  size_t depth = 0;
  bool is_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_text) {
      if (c == '\\') ++i;
      is_text = c != '"';
    } else if (c == '"') {
      is_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

// "stages[2]" and "count" as "stages[2].count".
std::string Joined(absl::string_view place, absl::string_view below) {
  const bool goes_on = !place.empty() && !below.empty() && below[0] != '[';
  return absl::StrCat(place, goes_on ? "." : "", below);
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text) {
  if (IsTooDeep(text)) return absl::DataLossError("it is nested too deeply");
  nlohmann::json parsed = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return absl::DataLossError("it is not JSON");
  return parsed;
}

const nlohmann::json* JsonReader::Member(const char* key) {
  if (!ok()) return nullptr;
  if (value_.is_object()) {
    if (const auto found = value_.find(key); found != value_.end()) return &*found;
  }
  Fail(key, "is missing");
  return nullptr;
}

std::string JsonReader::Place() const {
  if (parent_ == nullptr) return "";
  const std::string within = is_member_                ? ""
                             : name_.data() == nullptr ? absl::StrCat("[", index_, "]")
                                                       : absl::StrCat(".", name_);
  return absl::StrCat(Joined(parent_->Place(), key_), within);
}

void JsonReader::Fail(absl::string_view below, absl::string_view what) {
  if (!ok()) return;
  const std::string place = Joined(Place(), below);
  root_->problem_ = absl::StrCat(place.empty() ? "it" : place, " ", what);
}

void JsonReader::Take(const nlohmann::json& value, const std::string& place, bool* to) {
  if (!value.is_boolean()) return Fail(place, "is neither true nor false");
  *to = value.get<bool>();
}

void JsonReader::Take(const nlohmann::json& value, const std::string& place, double* to) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) return Fail(place, "is not a number");
  *to = value.get<double>();
}

void JsonReader::Take(const nlohmann::json& value, const std::string& place, std::string* to) {
  if (!value.is_string()) return Fail(place, "is not text");
  *to = value.get<std::string>();
}

}  // namespace gpumem
