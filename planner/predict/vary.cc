// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/vary.h"

#include <algorithm>
#include <bit>
#include <cctype>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace gpumem::plan {
namespace {

constexpr int64_t kMaxValues = 1'000'000;
constexpr size_t kNear = 4;                          // values to the least that is too big
constexpr size_t kSpareTries = 2;                    // more than halving needs
constexpr int64_t kLargestValue = int64_t{1} << 60;  // so that twice as much and a difference are numbers too

absl::Status Wrong(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--vary '", text, "': ", why,
                                                 ". Like this: --vary 'batch_size=1..64', --vary 'seq_len=512,1024', "
                                                 "--vary 'env:BATCH=1..64'"));
}

bool ParseValue(absl::string_view text, int64_t* value) {
  return absl::SimpleAtoi(text, value) && *value >= -kLargestValue && *value <= kLargestValue;
}

absl::Status ParseValues(absl::string_view text, absl::string_view values, Axis* axis) {
  const std::vector<absl::string_view> ends = absl::StrSplit(values, "..");
  if (ends.size() == 2) {
    int64_t first = 0, last = 0;
    if (!ParseValue(ends[0], &first) || !ParseValue(ends[1], &last) || first > last)
      return Wrong(text, "a range is two whole numbers, the smaller first");
    if (last - first >= kMaxValues) return Wrong(text, "so long a range takes too many tries");
    axis->is_range = true;
    for (int64_t value = first; value <= last; ++value) axis->values.push_back(value);
    return absl::OkStatus();
  }
  for (const absl::string_view part : absl::StrSplit(values, ',')) {
    int64_t value = 0;
    if (!ParseValue(part, &value)) return Wrong(text, absl::StrCat("\"", part, "\" is not a whole number"));
    axis->values.push_back(value);
  }
  std::sort(axis->values.begin(), axis->values.end());
  axis->values.erase(std::unique(axis->values.begin(), axis->values.end()), axis->values.end());
  return absl::OkStatus();
}

// "--batch-size" and "--batch_size" are the same flag to people.
std::string FlagName(absl::string_view argument) {
  const std::string name(absl::StripPrefix(absl::StripPrefix(argument, "-"), "-"));
  return absl::StrReplaceAll(name, {{"-", "_"}});
}

// Puts `value` behind the flag `--name`: "--name=4", or "--name 4". False where the command has no such flag.
bool ReplaceFlag(const std::string& name, const std::string& value, std::vector<std::string>* command) {
  for (size_t i = 1; i < command->size(); ++i) {
    std::string& argument = (*command)[i];
    if (!absl::StartsWith(argument, "-")) continue;
    const size_t equals = argument.find('=');
    if (FlagName(argument.substr(0, equals)) != FlagName(name)) continue;
    if (equals != std::string::npos) {
      argument = absl::StrCat(argument.substr(0, equals + 1), value);
      return true;
    }
    if (i + 1 >= command->size()) return false;
    (*command)[i + 1] = value;
    return true;
  }
  return false;
}

// --name, which takes no value, is there or not.
void PutSwitch(const std::string& name, bool is_on, std::vector<std::string>* command) {
  const auto is_it = [&](const std::string& argument) {
    return absl::StartsWith(argument, "--") && FlagName(argument) == FlagName(name);
  };
  const auto found = std::find_if(command->begin(), command->end(), is_it);
  if (is_on && found == command->end()) command->push_back(absl::StrCat("--", name));
  if (!is_on && found != command->end()) command->erase(found);
}

// `name=4` as Hydra and its like have it.
bool ReplaceAssignment(const std::string& name, const std::string& value, std::vector<std::string>* command) {
  for (size_t i = 1; i < command->size(); ++i) {
    if (!absl::StartsWith((*command)[i], absl::StrCat(name, "="))) continue;
    (*command)[i] = absl::StrCat(name, "=", value);
    return true;
  }
  return false;
}

// Where a line through the needs of two values meets the limit: the largest index that is to fit. The middle, where one
// of them failed and so has no need.
size_t MeetsLimit(const std::vector<int64_t>& values, size_t fits, size_t too_big, uint64_t limit,
                  const std::map<int64_t, uint64_t>& bytes) {
  const uint64_t low = bytes.at(values[fits]), high = bytes.at(values[too_big]);
  if (high == UINT64_MAX) return fits + (too_big - fits) / 2;
  const double share = static_cast<double>(limit - low) / static_cast<double>(high - low);
  const auto distance = static_cast<int64_t>(share * static_cast<double>(values[too_big] - values[fits]));
  const auto found = std::upper_bound(values.begin(), values.end(), values[fits] + distance);
  return static_cast<size_t>(found - values.begin()) - 1;
}

// What is tried next, strictly between the two. However far from the middle, whatever is left after it can be halved
// to one in the tries that are left.
size_t NextTry(size_t wanted, size_t fits, size_t too_big, size_t tries_left) {
  const size_t most = size_t{1} << (tries_left - 1);
  const size_t least = too_big - std::min(too_big - fits - 1, most);
  return std::clamp(wanted, least, fits + std::min(too_big - fits - 1, most));
}

}  // namespace

absl::StatusOr<Axis> ParseAxis(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0) return Wrong(text, "there is no NAME=VALUES");
  Axis axis;
  absl::string_view name = text.substr(0, equals);
  if (absl::ConsumePrefix(&name, "env:")) axis.kind = Axis::Kind::kEnvironment;
  axis.name = std::string(absl::StripPrefix(absl::StripPrefix(name, "-"), "-"));
  const bool is_name = std::all_of(axis.name.begin(), axis.name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  });
  if (axis.name.empty() || !is_name) return Wrong(text, "the name is none");
  if (absl::Status status = ParseValues(text, text.substr(equals + 1), &axis); !status.ok()) return status;
  return axis;
}

std::vector<int64_t> SomeValues(const Axis& axis) {
  if (!axis.is_range) return axis.values;
  std::vector<int64_t> some;
  for (int64_t value = axis.values.front(); value < axis.values.back(); value = std::max(value * 2, value + 1))
    some.push_back(value);
  some.push_back(axis.values.back());
  return some;
}

absl::StatusOr<VariedCommand> SubstituteText(Axis::Kind kind, const std::string& name, const std::string& text,
                                             VariedCommand command) {
  if (kind == Axis::Kind::kEnvironment) {
    command.environment.emplace_back(name, text);
    return command;
  }
  const std::string placeholder = absl::StrCat("{", name, "}");
  bool found = false;
  for (std::string& argument : command.command) {
    if (!absl::StrContains(argument, placeholder)) continue;
    argument = absl::StrReplaceAll(argument, {{placeholder, text}});
    found = true;
  }
  if (found) return command;
  if (text == "true" || text == "false") {
    PutSwitch(name, text == "true", &command.command);
    return command;
  }
  if (ReplaceFlag(name, text, &command.command) || ReplaceAssignment(name, text, &command.command)) return command;
  return absl::InvalidArgumentError(absl::StrCat("the command line has no place for ", name, ". Write ", placeholder,
                                                 " where its value is to "
                                                 "stand, give the flag --",
                                                 name, " with any value, or vary an environment variable: env:", name,
                                                 "=..."));
}

absl::StatusOr<VariedCommand> Substitute(const Axis& axis, int64_t value, VariedCommand command) {
  return SubstituteText(axis.kind, axis.name, absl::StrCat(value), std::move(command));
}

std::optional<BatchFlag> FindBatchFlag(const std::vector<std::string>& command) {
  static constexpr absl::string_view kNames[] = {
      "per_device_train_batch_size", "train_batch_size", "batch_size", "micro_batch_size", "batch", "bs"};
  for (const absl::string_view name : kNames) {
    for (size_t i = 1; i < command.size(); ++i) {
      const size_t equals = command[i].find('=');
      const std::string flag = command[i].substr(0, equals);
      if (!absl::StartsWith(flag, "-") || FlagName(flag) != name) continue;
      BatchFlag found{equals == std::string::npos ? i + 1 : i, flag, 0};
      const std::string value = equals != std::string::npos ? command[i].substr(equals + 1)
                                : i + 1 < command.size()    ? command[i + 1]
                                                            : "";
      if (absl::SimpleAtoi(value, &found.value) && found.value > 1) return found;
    }
  }
  return std::nullopt;
}

std::vector<std::string> WithBatch(std::vector<std::string> command, const BatchFlag& flag, int64_t value) {
  std::string& argument = command[flag.argument];
  const size_t equals = argument.find('=');
  argument = equals == std::string::npos ? absl::StrCat(value) : absl::StrCat(argument.substr(0, equals + 1), value);
  return command;
}

absl::StatusOr<Largest> FindLargest(
    const std::vector<int64_t>& values, uint64_t limit,
    const std::function<absl::StatusOr<uint64_t>(int64_t value, bool is_near)>& measure) {
  Largest found;
  size_t fits = 0, too_big = values.size();
  const auto fits_at = [&](size_t index) -> absl::StatusOr<bool> {
    const absl::StatusOr<uint64_t> bytes = measure(values[index], index + kNear >= too_big);
    if (!bytes.ok()) return bytes.status();
    found.bytes[values[index]] = *bytes;
    return *bytes <= limit;
  };
  absl::StatusOr<bool> least = fits_at(fits);
  if (!least.ok()) return least.status();
  if (!*least) {
    found.too_big = values[fits];
    return found;
  }
  found.fits = values[fits];
  if (values.size() == 1) return found;
  const absl::StatusOr<bool> most = fits_at(values.size() - 1);
  if (!most.ok()) return most.status();
  if (*most) {
    found.fits = values.back();
    return found;
  }
  too_big = values.size() - 1;
  size_t tries_left = kSpareTries + static_cast<size_t>(std::bit_width(too_big - fits - 1));
  for (; too_big - fits > 1; --tries_left) {
    const size_t met = MeetsLimit(values, fits, too_big, limit, found.bytes);
    const bool is_behind = met + 1 < too_big && found.bytes.at(values[too_big]) != UINT64_MAX;  // not of a middle
    const size_t next = NextTry(met + is_behind, fits, too_big, tries_left);
    const absl::StatusOr<bool> good = fits_at(next);
    if (!good.ok()) return good.status();
    (*good ? fits : too_big) = next;
  }
  found.fits = values[fits];
  found.too_big = values[too_big];
  return found;
}

}  // namespace gpumem::plan
