// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Two YAML or JSON files. A mixed one is written anew, one key a line as far as possible: programs that read flat YAML
// by themselves can read it, too. Comments and anchors are not kept.

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file_output.h"
#include "base/json_reader.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "planner/bisect/settings.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;
using Path = std::vector<std::string>;
using Json = nlohmann::ordered_json;

constexpr size_t kMostConfigBytes = 1 << 20;
constexpr int kDeepest = 64;
constexpr size_t kMostConfigValues = 100'000;  // aliases may name one value many times

std::string Quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

// A value of either kind of file. Scalars keep how they are written.
struct Value {
  enum class Kind : uint8_t { kText, kList, kMap } kind = Kind::kText;
  std::string text;                                    // "0.1", "\"a\"", "null"
  std::vector<std::pair<std::string, Value>> members;  // of a list without names

  bool operator==(const Value& other) const = default;
};

absl::StatusOr<Value> FromYaml(const YAML::Node& node, int depth, size_t* values) {
  if (depth > kDeepest) return absl::InvalidArgumentError("it is nested too deeply");
  if (++*values > kMostConfigValues) return absl::InvalidArgumentError("it has too many values");
  Value value;
  if (node.IsMap() || node.IsSequence()) {
    value.kind = node.IsMap() ? Value::Kind::kMap : Value::Kind::kList;
    for (const auto& entry : node) {
      GPUMEM_ASSIGN_OR_RETURN(Value member,
                              FromYaml(node.IsMap() ? entry.second : YAML::Node(entry), depth + 1, values));
      value.members.emplace_back(node.IsMap() ? entry.first.as<std::string>() : "", std::move(member));
    }
    return value;
  }
  const bool is_quoted = node.IsScalar() && node.Tag() == "!";
  value.text = node.IsScalar() ? node.Scalar() : "null";
  if (is_quoted || absl::StrContains(value.text, '\n')) value.text = Quoted(value.text);
  return value;
}

Value FromJson(const Json& json) {
  Value value;
  if (!json.is_structured()) {
    value.text = json.dump();
    return value;
  }
  value.kind = json.is_object() ? Value::Kind::kMap : Value::Kind::kList;
  for (const auto& [key, member] : json.items())
    value.members.emplace_back(json.is_object() ? key : "", FromJson(member));
  return value;
}

// In one line, as both kinds of file can have it.
std::string Inline(const Value& value) {
  if (value.kind == Value::Kind::kText) return value.text;
  std::vector<std::string> parts;
  const bool is_map = value.kind == Value::Kind::kMap;
  for (const auto& [key, member] : value.members)
    parts.push_back(is_map ? absl::StrCat(Quoted(key), ": ", Inline(member)) : Inline(member));
  return absl::StrCat(is_map ? "{" : "[", absl::StrJoin(parts, ", "), is_map ? "}" : "]");
}

bool IsPlainKey(const std::string& key) {
  return !key.empty() &&
         key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") ==
             std::string::npos &&
         key.front() != '-';
}

void AddYaml(const Value& value, int indent, std::string* text) {
  const bool is_map = value.kind == Value::Kind::kMap;
  for (const auto& [key, member] : value.members) {
    absl::StrAppend(text, std::string(static_cast<size_t>(indent), ' '),
                    is_map ? (IsPlainKey(key) ? key : Quoted(key)) + ":" : "-");
    if (is_map && member.kind == Value::Kind::kMap && !member.members.empty()) {
      absl::StrAppend(text, "\n");
      AddYaml(member, indent + 2, text);
    } else {
      absl::StrAppend(text, " ", Inline(member), "\n");
    }
  }
}

std::string Written(const Value& value, bool is_json) {
  if (is_json) return Json::parse(Inline(value)).dump(2) + "\n";
  if (value.kind == Value::Kind::kText || value.members.empty()) return Inline(value) + "\n";
  std::string text;
  AddYaml(value, 0, &text);
  return text;
}

const Value* Find(const Value& value, const Path& path) {
  const Value* at = &value;
  for (const std::string& key : path) {
    const Value* next = nullptr;
    if (at->kind != Value::Kind::kMap) return nullptr;
    for (const auto& [name, member] : at->members) {
      if (name == key) next = &member;
    }
    if (next == nullptr) return nullptr;
    at = next;
  }
  return at;
}

// Puts `member` at `path`, making maps on the way; null removes what is there.
void Put(const Path& path, const Value* member, Value* value) {
  Value* at = value;
  for (size_t i = 0; i < path.size(); ++i) {
    at->kind = Value::Kind::kMap;
    const auto is_named = [&](const auto& entry) { return entry.first == path[i]; };
    auto found = std::find_if(at->members.begin(), at->members.end(), is_named);
    const bool is_last = i + 1 == path.size();
    if (is_last && member == nullptr) {
      if (found != at->members.end()) at->members.erase(found);
      return;
    }
    if (found == at->members.end())
      found = at->members.insert(at->members.end(), {path[i], Value{Value::Kind::kMap, "", {}}});
    if (is_last) found->second = *member;
    at = &found->second;
  }
}

// Paths at which the two differ: as deep as both are maps.
void Compare(const Value* good, const Value* bad, const Path& path, std::vector<Path>* found) {
  const auto is_map = [](const Value* value) { return value != nullptr && value->kind == Value::Kind::kMap; };
  if (!is_map(good) || !is_map(bad)) {
    if (good == nullptr || bad == nullptr || !(*good == *bad)) found->push_back(path);
    return;
  }
  std::vector<std::string> keys;
  for (const Value* side : {good, bad}) {
    for (const auto& [key, member] : side->members) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  for (const std::string& key : keys) {
    Path below = path;
    below.push_back(key);
    Compare(Find(*good, {key}), Find(*bad, {key}), below, found);
  }
}

absl::StatusOr<Value> ReadConfig(const std::string& path) {
  GPUMEM_ASSIGN_OR_RETURN(const std::string text, ReadRegularFile(path, kMostConfigBytes));
  const auto wrong = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", why));
  };
  if (absl::EndsWithIgnoreCase(path, ".json")) {
    if (const absl::Status status = ParseJson(text).status(); !status.ok()) return wrong(std::string(status.message()));
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    return FromJson(json);
  }
  try {
    size_t values = 0;
    absl::StatusOr<Value> value = FromYaml(YAML::Load(text), 0, &values);
    return value.ok() ? value : wrong(std::string(value.status().message()));
  } catch (const YAML::Exception& exception) {
    return wrong(absl::StrCat("line ", exception.mark.line + 1, ": ", exception.msg));
  }
}

class ConfigFiles final : public Settings {
 public:
  ConfigFiles(std::string good, std::string bad, std::vector<std::string> command, std::string folder)
      : good_(std::move(good)), bad_(std::move(bad)), command_(std::move(command)), folder_(std::move(folder)) {}

  absl::Status Open() {
    GPUMEM_ASSIGN_OR_RETURN(good_value_, ReadConfig(good_));
    GPUMEM_ASSIGN_OR_RETURN(bad_value_, ReadConfig(bad_));
    Compare(&good_value_, &bad_value_, {}, &paths_);
    for (const Path& path : paths_) {
      const Value *good = Find(good_value_, path), *bad = Find(bad_value_, path);
      const auto shown = [](const Value* value) {
        return value == nullptr ? std::nullopt : std::optional<std::string>(Inline(*value));
      };
      changes_.push_back({absl::StrJoin(path, "."), shown(good), shown(bad)});
    }
    if (paths_.size() == 1 && paths_.front().empty())
      return absl::InvalidArgumentError(absl::StrCat(good_, " and ", bad_, " have no keys to compare"));
    const bool is_named = std::any_of(command_.begin(), command_.end(),
                                      [&](const std::string& word) { return PlaceIn(word).second > 0; });
    if (is_named) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the command names neither ", good_, " nor ", bad_,
                                                   ". Name one of them, or write {} where the file goes."));
  }

  absl::StatusOr<std::vector<std::string>> CommandOf(const std::vector<bool>& made) override {
    if (std::find(made.begin(), made.end(), true) == made.end()) return CommandWith(good_);
    if (std::find(made.begin(), made.end(), false) == made.end()) return CommandWith(bad_);
    Value mixed = good_value_;
    for (size_t i = 0; i < paths_.size(); ++i) {
      if (made[i]) Put(paths_[i], Find(bad_value_, paths_[i]), &mixed);
    }
    const std::string folder = absl::StrCat(folder_, "/", ++written_);
    std::error_code error;
    fs::create_directories(folder, error);
    const std::string path = (fs::path(folder) / fs::path(good_).filename()).string();
    GPUMEM_RETURN_IF_ERROR(WriteOutput(path, Written(mixed, absl::EndsWithIgnoreCase(good_, ".json")),
                                       {.hint = "Give another --results-dir"}));
    return CommandWith(path);
  }

 private:
  // Where the file's name stands in a word of the command, and how long it is; 0: not there.
  std::pair<size_t, size_t> PlaceIn(const std::string& word) const {
    for (const std::string& name : {std::string("{}"), good_, bad_}) {
      const bool is_whole = word == name || (name == "{}" && absl::StrContains(word, name));
      if (is_whole || absl::EndsWith(word, "=" + name))
        return {word.find(name, is_whole ? 0 : word.size() - name.size()), name.size()};
    }
    return {0, 0};
  }

  std::vector<std::string> CommandWith(const std::string& file) const {
    std::vector<std::string> command = command_;
    for (std::string& word : command) {
      if (const auto [at, size] = PlaceIn(word); size > 0) word.replace(at, size, file);
    }
    return command;
  }

  const std::string good_, bad_;
  const std::vector<std::string> command_;
  const std::string folder_;
  Value good_value_, bad_value_;
  std::vector<Path> paths_;
  int written_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Settings>> OpenConfigFiles(const std::string& good, const std::string& bad,
                                                          const std::vector<std::string>& command,
                                                          const std::string& folder) {
  auto settings = std::make_unique<ConfigFiles>(good, bad, command, folder);
  GPUMEM_RETURN_IF_ERROR(settings->Open());
  return settings;
}

}  // namespace gpumem::plan
