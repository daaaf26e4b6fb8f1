// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SweepSpec: what a sweep is to run, as its YAML file or its flags say (docs/commands/sweep.md):
//
//   command: python train.py --batch-size {batch_size} --seq-len {seq_len}
//   axes:                                  # every combination
//     batch_size: [1, 2, 4, 8]
//     seq_len: [512, 1024]
//     env:PYTORCH_CUDA_ALLOC_CONF: ["", "expandable_segments:True"]
//   configurations:                        # instead of axes, or besides: single ones
//     - {batch_size: 16, seq_len: 512}
//   constraints: [batch_size * seq_len <= 8192]
//   steps: stable
//   device: H100
//   results_dir: sweep_results
//
//   absl::StatusOr<SweepSpec> spec = ParseSpec(text, "sweep.yaml");
//   absl::StatusOr<std::vector<Configuration>> all = Configurations(*spec);
//
// Thread-safety: pure functions. Failure: InvalidArgument that names the file, the line and the next step.

#ifndef GPUMEM_PLANNER_SWEEP_SPEC_H_
#define GPUMEM_PLANNER_SWEEP_SPEC_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/predict/vary.h"
#include "planner/sweep/constraint.h"
#include "planner/sweep/row.h"

namespace gpumem::plan {

struct SweepAxis {
  Axis::Kind kind = Axis::Kind::kArgument;
  std::string name;  // as the user wrote it, with "env:" where it is a variable
  std::vector<std::string> values;
};

struct SweepSpec {
  std::vector<std::string> command;
  std::vector<SweepAxis> axes;
  std::vector<Configuration> configurations;
  std::vector<Constraint> constraints;
  std::vector<std::pair<std::string, std::string>> constants;    // {name} in the command, the same for all: `model`
  std::vector<std::pair<std::string, std::string>> environment;  // for all
  // Empty: not said.
  std::string steps, device, memory, capability, device_count, results_dir, timeout, workers, on, data_dependent;
};

// `name`: of the file, for messages.
absl::StatusOr<SweepSpec> ParseSpec(absl::string_view text, const std::string& name);

// "batch_size=1,2,4", "seq_len=256..4096x2" (doubled), "n=1..8" (every one), "env:NAME=a,b".
absl::StatusOr<SweepAxis> ParseSweepAxis(absl::string_view text);

// The words of a command line as a shell has them, without expansions. InvalidArgument where a quote stays open.
absl::StatusOr<std::vector<std::string>> SplitWords(absl::string_view text);

// All that satisfy the constraints, each once: those of the axes, the last axis fastest, then the single ones.
// `*excluded`: how many the constraints leave out.
absl::StatusOr<std::vector<Configuration>> Configurations(const SweepSpec& spec, size_t* excluded);

// Puts the constants into the command and the environment: from then on there are none.
absl::Status PutConstants(SweepSpec* spec);

// The command line and the environment of one configuration.
absl::StatusOr<VariedCommand> CommandOf(const SweepSpec& spec, const Configuration& values);

// The options of the scripts that scan Opacus runs (gpu_memory_profiler.py, detailed_memory_profiler.py), as a sweep:
// `gpumemshim sweep --opacus-scan --seq_lengths 128 256 --batch_sizes 8 16 --lora_ranks 8 16`.
//
//   OpacusScanOptions options;
//   options.seq_lengths = {"128", "256"};
//   SweepSpec spec = SpecOf(options, {});   // the example of DP-SGD with LoRA, in the results directory
//
// Thread-safety: pure functions.

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

#endif  // GPUMEM_PLANNER_SWEEP_SPEC_H_
