// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/digest.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpumem::plan {
namespace {

enum class Wanted : bool { kMin, kMax };

template <typename Condition>
const SweepRow* FindRow(const std::vector<SweepRow>& rows, Wanted wanted, const Condition& condition) {
  const SweepRow* found = nullptr;
  for (const SweepRow& row : rows) {
    if (!condition(row)) continue;
    const bool better = found == nullptr || (wanted == Wanted::kMax ? row.peak_allocated > found->peak_allocated
                                                                    : row.peak_allocated < found->peak_allocated);
    if (better) found = &row;
  }
  return found;
}

bool Fits(const SweepRow& row) { return row.state == RowState::kFits && row.peak_allocated > 0; }
bool LeavesFree(const SweepRow& row, double margin) {
  return row.capacity == 0 || static_cast<double>(NeedOf(row)) <= static_cast<double>(row.capacity) * (1 - margin);
}
bool HasParts(const SweepRow& row) { return !row.components.empty() || !row.categories.empty(); }

size_t OperationOf(const std::string& stage) {
  if (stage == "forward" || stage == "loss") return 0;
  if (stage == "backward") return 1;
  return stage == "optimizer_step" || stage == "optimizer" || stage == "zero_grad" ? 2 : 3;
}

}  // namespace

uint64_t NeedOf(const SweepRow& row) {
  return row.peak_process > 0 ? row.peak_process : row.peak_reserved > 0 ? row.peak_reserved : row.peak_allocated;
}

bool IsPeakKnown(const SweepRow& row) { return row.peak_allocated > 0 && HasAnswer(row); }

const SweepRow* LargestThatFits(const std::vector<SweepRow>& rows, double margin) {
  return FindRow(rows, Wanted::kMax, [&](const SweepRow& row) { return Fits(row) && LeavesFree(row, margin); });
}
const SweepRow* NextAfterLargest(const std::vector<SweepRow>& rows, double margin) {
  return FindRow(rows, Wanted::kMin,
                 [&](const SweepRow& row) { return IsPeakKnown(row) && !(Fits(row) && LeavesFree(row, margin)); });
}
const SweepRow* LeastThatFits(const std::vector<SweepRow>& rows) { return FindRow(rows, Wanted::kMin, Fits); }

const SweepRow* RowToExplain(const std::vector<SweepRow>& rows) {
  const SweepRow* fits = FindRow(rows, Wanted::kMax, [](const SweepRow& row) { return Fits(row) && HasParts(row); });
  return fits != nullptr ? fits : FindRow(rows, Wanted::kMax, HasParts);
}

std::vector<std::string> AxesOf(const std::vector<SweepRow>& rows) {
  std::vector<std::string> axes;
  for (const SweepRow& row : rows) {
    for (const auto& [axis, value] : row.values) {
      if (!absl::c_linear_search(axes, axis)) axes.push_back(axis);
    }
  }
  return axes;
}

std::vector<std::string> VariedAxes(const std::vector<SweepRow>& rows) {
  std::vector<std::string> axes = AxesOf(rows);
  std::erase_if(axes, [&](const std::string& axis) { return ValuesOf(rows, axis).size() < 2; });
  return axes;
}

std::string ValueOn(const SweepRow& row, const std::string& axis) {
  for (const auto& [name, value] : row.values) {
    if (name == axis) return value;
  }
  return "";
}

std::vector<std::string> ValuesOf(const std::vector<SweepRow>& rows, const std::string& axis) {
  std::vector<std::string> values;
  for (const SweepRow& row : rows) {
    const std::string value = ValueOn(row, axis);
    if (!absl::c_linear_search(values, value)) values.push_back(value);
  }
  std::map<std::string, double> numbers;
  for (const std::string& value : values) {
    double number = 0;
    if (!absl::SimpleAtod(value, &number) || !std::isfinite(number)) return values;
    numbers[value] = number;
  }
  absl::c_stable_sort(values, [&](const auto& a, const auto& b) { return numbers[a] < numbers[b]; });
  return values;
}

std::string ConfigurationText(const Configuration& values) {
  return values.empty() ? "the only configuration" : absl::StrJoin(values, ", ", absl::PairFormatter("="));
}

std::string ShortConfiguration(const SweepRow& row, const std::vector<std::string>& axes) {
  if (axes.empty()) return ConfigurationText(row.values);
  return absl::StrJoin(axes, axes.size() < 3 ? " · " : "·",
                       [&](std::string* out, const std::string& axis) { absl::StrAppend(out, ValueOn(row, axis)); });
}

std::vector<PartBytes> MemoryTypes(const SweepRow& row) {
  std::vector<PartBytes> types;
  const auto part = row.parts.find("per_sample");
  for (const auto& [name, bytes] : row.categories) {
    uint64_t rest = bytes;
    if (name == "gradient" && part != row.parts.end()) {
      const uint64_t single = std::min(part->second, bytes);
      if (single > 0) types.push_back({"per_sample_gradient", single});
      rest -= single;
    }
    if (rest > 0) types.push_back({name, rest});
  }
  absl::c_stable_sort(types, [](const PartBytes& a, const PartBytes& b) { return a.bytes > b.bytes; });
  return types;
}

std::vector<PartBytes> Operations(const std::map<std::string, uint64_t>& by_stage) {
  std::vector<PartBytes> operations = {{"forward"}, {"backward"}, {"optimizer"}, {"other"}};
  for (const auto& [stage, bytes] : by_stage) operations[OperationOf(stage)].bytes += bytes;
  return operations;
}

std::vector<PartBytes> Operations(const SweepRow& row) {
  std::map<std::string, uint64_t> sums;
  for (const RowComponent& component : row.components) {
    for (const auto& [stage, bytes] : component.allocated) sums[stage] += bytes;
  }
  return Operations(sums);
}

uint64_t SumOf(const std::map<std::string, uint64_t>& bytes) {
  uint64_t sum = 0;
  for (const auto& [name, count] : bytes) sum += count;
  return sum;
}

}  // namespace gpumem::plan
