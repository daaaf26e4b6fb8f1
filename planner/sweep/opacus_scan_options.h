// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The options of the scripts that scan Opacus runs (gpu_memory_profiler.py, detailed_memory_profiler.py), as a sweep:
// `gpumemshim sweep --opacus-scan --seq_lengths 128 256 --batch_sizes 8 16 --lora_ranks 8 16`.
//
//   OpacusScanOptions options;
//   options.seq_lengths = {"128", "256"};
//   SweepSpec spec = SpecOf(options, {});   // the example of DP-SGD with LoRA, in the results directory
//
// Thread-safety: pure functions.

#ifndef GPUMEM_PLANNER_SWEEP_OPACUS_SCAN_OPTIONS_H_
#define GPUMEM_PLANNER_SWEEP_OPACUS_SCAN_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "planner/sweep/spec.h"

namespace gpumem::plan {

struct OpacusScanOptions {
  std::vector<std::string> seq_lengths, batch_sizes, max_physical_batch_sizes, lora_ranks;  // empty: one usual value
  std::string results_dir = "./memory_results";
  std::string num_steps = "5";
  std::string model_name = "meta-llama/Llama-3.1-8B-Instruct";
};

// `command`: the user's own, with {seq_length}, {batch_size}, {max_physical_batch_size}, {lora_rank}, {num_steps} and
// {model_name} where it wants them; empty: the example, as a file of the results directory.
SweepSpec SpecOf(const OpacusScanOptions& options, const std::vector<std::string>& command);

// Where the example is to lie, and its text.
std::string ExamplePath(const OpacusScanOptions& options);
absl::string_view ExampleText();

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_OPACUS_SCAN_OPTIONS_H_
