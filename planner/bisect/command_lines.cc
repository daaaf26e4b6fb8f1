// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Two command lines: options by name, each with the values behind it; key=value words by their key; others by place.

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/bisect/settings.h"

namespace gpumem::plan {
namespace {

struct Part {
  std::string name;                // "--lr", "argument 2", "model.width"; of a second one "--lr (2)"
  std::vector<std::string> words;  // with the name
};

bool IsOption(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0 && word[1] != '.';
}

// Where the key of "model.width=4" ends; 0: it is no such word.
size_t KeySize(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return 0;
  const auto is_of_key = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '+' || c == '-' || c == '/';
  };
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), is_of_key) ? equals : 0;
}

std::vector<Part> PartsOf(const std::vector<std::string>& command) {
  std::vector<Part> parts;
  std::map<std::string, int> seen;
  int places = 0;
  const auto add = [&](std::string name, const std::string& word) {
    if (const int count = ++seen[name]; count > 1) absl::StrAppend(&name, " (", count, ")");
    parts.push_back({std::move(name), {word}});
  };
  bool takes_values = false;
  for (const std::string& word : command) {
    if (IsOption(word)) {
      add(word.substr(0, word.find('=')), word);
      takes_values = !absl::StrContains(word, '=');
    } else if (KeySize(word) > 0) {
      add(word.substr(0, KeySize(word)), word);
      takes_values = false;
    } else if (takes_values) {
      parts.back().words.push_back(word);
    } else {
      add(places == 0 ? "program" : absl::StrCat("argument ", places), word);
      ++places;
    }
  }
  return parts;
}

const Part* Named(const std::vector<Part>& parts, const std::string& name) {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const Part& part) { return part.name == name; });
  return found == parts.end() ? nullptr : &*found;
}

class CommandLines final : public Settings {
 public:
  CommandLines(std::vector<Part> good, std::vector<Part> bad) : good_(std::move(good)), bad_(std::move(bad)) {
    for (const Part& part : good_) {
      const Part* const other = Named(bad_, part.name);
      if (other == nullptr || other->words != part.words) changes_.push_back({part.name, Shown(&part), Shown(other)});
    }
    for (const Part& part : bad_) {
      if (Named(good_, part.name) == nullptr) changes_.push_back({part.name, std::nullopt, Shown(&part)});
    }
  }

  absl::StatusOr<std::vector<std::string>> CommandOf(const std::vector<bool>& made) override {
    std::vector<std::string> command;
    const auto is_made = [&](const std::string& name) {
      for (size_t i = 0; i < changes_.size(); ++i) {
        if (changes_[i].name == name) return static_cast<bool>(made[i]);
      }
      return false;
    };
    for (const Part& part : good_) {
      const Part* const taken = is_made(part.name) ? Named(bad_, part.name) : &part;
      if (taken != nullptr) command.insert(command.end(), taken->words.begin(), taken->words.end());
    }
    for (const Part& part : bad_) {
      if (Named(good_, part.name) == nullptr && is_made(part.name))
        command.insert(command.end(), part.words.begin(), part.words.end());
    }
    return command;
  }

 private:
  static std::optional<std::string> Shown(const Part* part) {
    if (part == nullptr) return std::nullopt;
    return absl::StrJoin(part->words, " ");
  }

  const std::vector<Part> good_, bad_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Settings>> OpenCommandLines(const std::vector<std::string>& good,
                                                           const std::vector<std::string>& bad) {
  return std::make_unique<CommandLines>(PartsOf(good), PartsOf(bad));
}

}  // namespace gpumem::plan
