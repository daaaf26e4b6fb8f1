// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/spec.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

extern "C" {
extern const char gpumem_sweep_example_begin[], gpumem_sweep_example_end[];
}

namespace gpumem::plan {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxValues = 10'000;

constexpr std::pair<const char*, std::string SweepSpec::*> kPlainKeys[] = {
    {"steps", &SweepSpec::steps},
    {"num_steps", &SweepSpec::steps},
    {"device", &SweepSpec::device},
    {"memory", &SweepSpec::memory},
    {"capability", &SweepSpec::capability},
    {"device_count", &SweepSpec::device_count},
    {"results_dir", &SweepSpec::results_dir},
    {"timeout", &SweepSpec::timeout},
    {"workers", &SweepSpec::workers},
    {"on", &SweepSpec::on},
    {"data_dependent", &SweepSpec::data_dependent},
};

class SpecReader {
 public:
  explicit SpecReader(std::string name) : name_(std::move(name)) {}

  absl::StatusOr<SweepSpec> Read(const YAML::Node& root) {
    if (!root.IsMap()) return Wrong(root, "a sweep is a mapping with `command` and `axes`");
    for (const auto& entry : root) GPUMEM_RETURN_IF_ERROR(ReadKey(entry.first.as<std::string>(), entry.second));
    return std::move(spec_);
  }

  absl::Status Wrong(const YAML::Node& node, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ":", node.Mark().line + 1, ": ", what, ". docs/commands/sweep.md has an example."));
  }

 private:
  absl::Status ReadKey(const std::string& key, const YAML::Node& node) {
    if (key == "command") return ReadCommand(node);
    if (key == "axes") return ReadAxes(node);
    if (key == "configurations") return ReadConfigurations(node);
    if (key == "constraints") return ReadConstraints(node);
    if (key == "environment") return ReadPairs(node, &spec_.environment);
    if (key == "constants") return ReadPairs(node, &spec_.constants);
    if (key == "model") {
      GPUMEM_ASSIGN_OR_RETURN(std::string model, Text(node));
      spec_.constants.emplace_back("model", std::move(model));
      return absl::OkStatus();
    }
    for (const auto& [name, member] : kPlainKeys) {
      if (key != name) continue;
      GPUMEM_ASSIGN_OR_RETURN(spec_.*member, Text(node));
      return absl::OkStatus();
    }
    std::string names = "command, axes, configurations, constraints, constants, environment, model";
    for (const auto& [name, member] : kPlainKeys) absl::StrAppend(&names, ", ", name);
    return Wrong(node, absl::StrCat("\"", key, "\" is not a key of a sweep; these are: ", names));
  }

  absl::StatusOr<std::string> Text(const YAML::Node& node) const {
    if (node.IsNull()) return std::string();
    if (!node.IsScalar()) return Wrong(node, "one value is wanted here");
    return node.as<std::string>();
  }

  absl::Status ReadCommand(const YAML::Node& node) {
    if (!node.IsSequence()) {
      GPUMEM_ASSIGN_OR_RETURN(const std::string text, Text(node));
      GPUMEM_ASSIGN_OR_RETURN(spec_.command, SplitWords(text));
    }
    for (const YAML::Node& word : node.IsSequence() ? node : YAML::Node(YAML::NodeType::Sequence)) {
      GPUMEM_ASSIGN_OR_RETURN(std::string text, Text(word));
      spec_.command.push_back(std::move(text));
    }
    return spec_.command.empty() ? Wrong(node, "the command is empty") : absl::OkStatus();
  }

  absl::Status ReadAxes(const YAML::Node& node) {
    if (!node.IsMap()) return Wrong(node, "axes are a mapping of names to lists of values");
    for (const auto& entry : node) {
      SweepAxis axis;
      axis.name = entry.first.as<std::string>();
      if (absl::StartsWith(axis.name, "env:")) axis.kind = Axis::Kind::kEnvironment;
      if (entry.second.IsScalar()) {
        GPUMEM_ASSIGN_OR_RETURN(axis, ParseSweepAxis(absl::StrCat(axis.name, "=", entry.second.as<std::string>())));
      } else if (!entry.second.IsSequence() || entry.second.size() == 0) {
        return Wrong(entry.second, absl::StrCat("axis ", axis.name, " needs a list of values, as in [1, 2, 4]"));
      } else {
        for (const YAML::Node& value : entry.second) {
          GPUMEM_ASSIGN_OR_RETURN(std::string text, Text(value));
          axis.values.push_back(std::move(text));
        }
      }
      spec_.axes.push_back(std::move(axis));
    }
    return absl::OkStatus();
  }

  absl::Status ReadConfigurations(const YAML::Node& node) {
    if (!node.IsSequence()) return Wrong(node, "configurations are a list of mappings");
    for (const YAML::Node& one : node) {
      Configuration values;
      GPUMEM_RETURN_IF_ERROR(ReadPairs(one, &values));
      spec_.configurations.push_back(std::move(values));
    }
    return absl::OkStatus();
  }

  absl::Status ReadConstraints(const YAML::Node& node) {
    std::vector<std::string> texts;
    if (node.IsScalar()) texts.push_back(node.as<std::string>());
    for (const YAML::Node& one : node.IsSequence() ? node : YAML::Node(YAML::NodeType::Sequence)) {
      GPUMEM_ASSIGN_OR_RETURN(std::string text, Text(one));
      texts.push_back(std::move(text));
    }
    for (const std::string& text : texts) {
      absl::StatusOr<Constraint> constraint = Constraint::Parse(text);
      if (!constraint.ok()) return Wrong(node, constraint.status().message());
      spec_.constraints.push_back(*std::move(constraint));
    }
    return absl::OkStatus();
  }

  absl::Status ReadPairs(const YAML::Node& node, std::vector<std::pair<std::string, std::string>>* pairs) {
    if (!node.IsMap()) return Wrong(node, "a mapping of names to values is wanted here");
    for (const auto& entry : node) {
      GPUMEM_ASSIGN_OR_RETURN(std::string value, Text(entry.second));
      pairs->emplace_back(entry.first.as<std::string>(), std::move(value));
    }
    return absl::OkStatus();
  }

  const std::string name_;
  SweepSpec spec_;
};

absl::Status WrongAxis(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "axis '", text, "': ", why, ". Like this: batch_size=1,2,4, seq_len=256..4096x2, layers=1..8 or env:NAME=a,b"));
}

// "256..4096x2", "1..8". False: it is not a range.
absl::StatusOr<bool> ReadRange(absl::string_view text, absl::string_view values, SweepAxis* axis) {
  const std::vector<absl::string_view> ends = absl::StrSplit(values, absl::MaxSplits("..", 1));
  int64_t first = 0, last = 0, factor = 0;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &first)) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(ends[1], absl::MaxSplits('x', 1));
  if (!absl::SimpleAtoi(parts[0], &last)) return false;
  if (parts.size() == 2 && (!absl::SimpleAtoi(parts[1], &factor) || factor < 2))
    return WrongAxis(text, "the factor of a range is a number from 2 on");
  if (first > last || (factor != 0 && first < 1)) return WrongAxis(text, "a range goes upwards");
  for (int64_t value = first; value <= last; value = factor != 0 ? value * factor : value + 1) {
    axis->values.push_back(absl::StrCat(value));
    if (axis->values.size() > kMaxValues) return WrongAxis(text, "so many values are no sweep");
    if (factor != 0 && value > INT64_MAX / factor) break;
  }
  return true;
}

Axis::Kind KindOf(absl::string_view name) {
  return absl::StartsWith(name, "env:") ? Axis::Kind::kEnvironment : Axis::Kind::kArgument;
}

absl::Status Put(const std::string& name, const std::string& value, VariedCommand* command) {
  const std::string bare(absl::StripPrefix(name, "env:"));
  absl::StatusOr<VariedCommand> varied = SubstituteText(KindOf(name), bare, value, *command);
  if (!varied.ok()) return varied.status();
  *command = *std::move(varied);
  return absl::OkStatus();
}

// Adds one where all constraints hold and it is not there yet.
absl::Status Add(const SweepSpec& spec, const Configuration& values, std::vector<Configuration>* all,
                 size_t* excluded) {
  for (const Constraint& constraint : spec.constraints) {
    GPUMEM_ASSIGN_OR_RETURN(const bool holds, constraint.Holds(values));
    if (!holds) {
      ++*excluded;
      return absl::OkStatus();
    }
  }
  if (std::find(all->begin(), all->end(), values) == all->end()) all->push_back(values);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SweepSpec> ParseSpec(absl::string_view text, const std::string& name) {
  if (text.size() > kMaxBytes) return absl::InvalidArgumentError(absl::StrCat(name, " is too large for a sweep"));
  SpecReader reader(name);
  try {
    return reader.Read(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is not YAML: ", error.what()));
  }
}

absl::StatusOr<SweepAxis> ParseSweepAxis(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0) return WrongAxis(text, "there is no NAME=VALUES");
  SweepAxis axis;
  axis.name = std::string(absl::StripPrefix(absl::StripPrefix(text.substr(0, equals), "-"), "-"));
  axis.kind = KindOf(axis.name);
  const absl::string_view values = text.substr(equals + 1);
  GPUMEM_ASSIGN_OR_RETURN(const bool is_range, ReadRange(text, values, &axis));
  if (is_range) return axis;
  for (const absl::string_view value : absl::StrSplit(values, ',')) axis.values.emplace_back(value);
  return axis;
}

absl::StatusOr<std::vector<std::string>> SplitWords(absl::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool is_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      is_word = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      word += text[++i];
      is_word = true;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (is_word) words.push_back(std::move(word));
      word.clear();
      is_word = false;
    } else {
      word += c;
      is_word = true;
    }
  }
  if (quote != 0) return absl::InvalidArgumentError(absl::StrCat("a quote stays open in: ", text));
  if (is_word) words.push_back(std::move(word));
  return words;
}

absl::StatusOr<std::vector<Configuration>> Configurations(const SweepSpec& spec, size_t* excluded) {
  *excluded = 0;
  size_t count = spec.axes.empty() ? 0 : 1;
  for (const SweepAxis& axis : spec.axes) {
    count *= axis.values.size();
    if (count > kMaxValues) return absl::InvalidArgumentError("these axes have more than 10,000 combinations");
  }
  std::vector<Configuration> all;
  for (size_t number = 0; number < count; ++number) {
    Configuration values(spec.axes.size());
    size_t rest = number;
    for (size_t i = spec.axes.size(); i-- > 0; rest /= spec.axes[i].values.size())
      values[i] = {spec.axes[i].name, spec.axes[i].values[rest % spec.axes[i].values.size()]};
    GPUMEM_RETURN_IF_ERROR(Add(spec, values, &all, excluded));
  }
  for (const Configuration& values : spec.configurations) GPUMEM_RETURN_IF_ERROR(Add(spec, values, &all, excluded));
  return all;
}

absl::Status PutConstants(SweepSpec* spec) {
  VariedCommand command{spec->command, spec->environment};
  for (const auto& [name, value] : spec->constants) GPUMEM_RETURN_IF_ERROR(Put(name, value, &command));
  spec->command = command.command;
  spec->environment = command.environment;
  spec->constants.clear();
  return absl::OkStatus();
}

absl::StatusOr<VariedCommand> CommandOf(const SweepSpec& spec, const Configuration& values) {
  VariedCommand command{spec.command, spec.environment};
  for (const auto& [name, value] : values) GPUMEM_RETURN_IF_ERROR(Put(name, value, &command));
  return command;
}

namespace {

// An axis that the command has no place for stays out of a sweep of the user's own command.
void AddAxis(const char* name, const std::vector<std::string>& values, const char* usual, SweepSpec* spec) {
  const std::string placeholder = absl::StrCat("{", name, "}");
  const bool has_place = std::any_of(spec->command.begin(), spec->command.end(),
                                     [&](const std::string& word) { return absl::StrContains(word, placeholder); });
  if (!has_place) return;
  const std::vector<std::string> used = values.empty() ? std::vector<std::string>{usual} : values;
  spec->axes.push_back({Axis::Kind::kArgument, name, used});
}

}  // namespace

std::string ExamplePath(const OpacusScanOptions& options) {
  return absl::StrCat(options.results_dir, "/train_dp_lora.py");
}

absl::string_view ExampleText() {
  return {gpumem_sweep_example_begin, static_cast<size_t>(gpumem_sweep_example_end - gpumem_sweep_example_begin)};
}

SweepSpec SpecOf(const OpacusScanOptions& options, const std::vector<std::string>& command) {
  SweepSpec spec;
  spec.command = command;
  if (command.empty()) {
    spec.command = {"python3",
                    ExamplePath(options),
                    "--model",
                    "{model_name}",
                    "--seq-len",
                    "{seq_length}",
                    "--batch-size",
                    "{batch_size}",
                    "--max-physical-batch-size",
                    "{max_physical_batch_size}",
                    "--lora-rank",
                    "{lora_rank}",
                    "--steps",
                    "{num_steps}"};
  }
  AddAxis("seq_length", options.seq_lengths, "128", &spec);
  AddAxis("batch_size", options.batch_sizes, "8", &spec);
  AddAxis("max_physical_batch_size", options.max_physical_batch_sizes, "1", &spec);
  AddAxis("lora_rank", options.lora_ranks, "16", &spec);
  const auto has_axis = [&](absl::string_view name) {
    return std::any_of(spec.axes.begin(), spec.axes.end(), [&](const SweepAxis& axis) { return axis.name == name; });
  };
  if (has_axis("max_physical_batch_size") && has_axis("batch_size"))
    spec.constraints.push_back(*Constraint::Parse("max_physical_batch_size <= batch_size"));
  const std::string words = absl::StrJoin(spec.command, "\n");
  for (const auto& [name, value] : {std::pair("model_name", options.model_name), {"num_steps", options.num_steps}}) {
    if (absl::StrContains(words, absl::StrCat("{", name, "}"))) spec.constants.emplace_back(name, value);
  }
  spec.steps = options.num_steps;
  spec.results_dir = options.results_dir;
  return spec;
}

}  // namespace gpumem::plan
