// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim plan --vary` changes from run to run, and how it finds the largest value that fits.
//
//   absl::StatusOr<Axis> axis = ParseAxis("batch_size=1..64");
//   absl::StatusOr<Command> command = Substitute(*axis, 8, given);       // {batch_size} or --batch-size
//   absl::StatusOr<Largest> found = FindLargest(axis->values, 1 << 30, run);
//
// Thread-safety: pure functions.

#ifndef GPUMEM_PLANNER_PREDICT_VARY_H_
#define GPUMEM_PLANNER_PREDICT_VARY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem::plan {

struct Axis {
  enum class Kind : uint8_t {
    kArgument,     // "batch_size=1..64": {batch_size} in the command line, else the flag --batch_size or --batch-size
    kEnvironment,  // "env:BATCH=1..64"
  };
  Kind kind = Kind::kArgument;
  std::string name;             // without dashes and "env:"
  std::vector<int64_t> values;  // ascending
  bool is_range = false;        // "1..64"; else a list
};

// "name=1..64", "name=1,2,4", "--name=..." and "env:NAME=...".
absl::StatusOr<Axis> ParseAxis(absl::string_view text);

// A few values of an axis that is not searched but gone through: the list, or doublings from the least to the largest.
std::vector<int64_t> SomeValues(const Axis& axis);

struct VariedCommand {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;
};

// The command with the axis at `value`. InvalidArgument where the command line has no place for it.
absl::StatusOr<VariedCommand> Substitute(const Axis& axis, int64_t value, VariedCommand command);
// The same for any text. A switch ("true", "false") is put where {name} is; else the flag --name is there or not.
absl::StatusOr<VariedCommand> SubstituteText(Axis::Kind kind, const std::string& name, const std::string& text,
                                             VariedCommand command);

// The number behind a flag for the batch size, where the command line has one: what a comparison halves.
struct BatchFlag {
  size_t argument = 0;  // its index
  std::string name;     // "--batch-size"
  int64_t value = 0;
};
std::optional<BatchFlag> FindBatchFlag(const std::vector<std::string>& command);
std::vector<std::string> WithBatch(std::vector<std::string> command, const BatchFlag& flag, int64_t value);

struct Largest {
  std::optional<int64_t> fits;        // the largest value that fits
  std::optional<int64_t> too_big;     // the least one that was found not to fit
  std::map<int64_t, uint64_t> bytes;  // of every value that was tried
};

// The largest of `values` (ascending) whose run takes `limit` bytes or less, where more never takes less. As the need
// mostly grows in proportion, the next value to try is where a line through the nearest two meets the limit; at most
// two tries more than by halving. The value behind the one that is to be the largest is tried before it, so that
// this one is mostly the last try: `is_near` says that few larger values are left, so that it may well be the largest.
// UINT64_MAX stands for a run that failed. An error of `measure` ends it.
absl::StatusOr<Largest> FindLargest(
    const std::vector<int64_t>& values, uint64_t limit,
    const std::function<absl::StatusOr<uint64_t>(int64_t value, bool is_near)>& measure);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_VARY_H_
