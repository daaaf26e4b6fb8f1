// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/opacus_scan_options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

extern "C" {
extern const char gpumem_sweep_example_begin[], gpumem_sweep_example_end[];
}

namespace gpumem::plan {
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
