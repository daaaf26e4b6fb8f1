// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/scaling.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "planner/sweep/digest.h"
#include "planner/sweep/scaling_fit.h"

namespace gpumem::plan {
namespace {

constexpr double kSmallChange = 0.05;

// Rows that have all other axes in common, by their value of one axis. Of equal values the larger peak counts.
using Group = std::map<double, const SweepRow*>;

const std::string* ValueOf(const Configuration& values, const std::string& axis) {
  const auto found = absl::c_find_if(values, [&](const auto& pair) { return pair.first == axis; });
  return found == values.end() ? nullptr : &found->second;
}

std::optional<double> NumberOf(const std::string& text) {
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !std::isfinite(number)) return std::nullopt;
  return number;
}

Configuration Without(const Configuration& values, const std::string& axis) {
  Configuration others;
  for (const auto& pair : values) {
    if (pair.first != axis) others.push_back(pair);
  }
  return others;
}

// Groups in which the axis takes at least two values.
std::map<Configuration, Group> GroupsOf(const std::vector<SweepRow>& rows, const std::string& axis, bool known_only) {
  std::map<Configuration, Group> groups;
  for (const SweepRow& row : rows) {
    if (known_only && !IsPeakKnown(row)) continue;
    const std::string* value = ValueOf(row.values, axis);
    const std::optional<double> number = value == nullptr ? std::nullopt : NumberOf(*value);
    if (!number.has_value()) continue;
    const SweepRow*& kept = groups[Without(row.values, axis)][*number];
    if (kept == nullptr || kept->peak_allocated < row.peak_allocated) kept = &row;
  }
  std::erase_if(groups, [](const auto& entry) { return entry.second.size() < 2; });
  return groups;
}

CurveFit FitGroup(const Group& group, uint64_t SweepRow::*peak) {
  std::vector<double> x;
  std::vector<uint64_t> y;
  for (const auto& [value, row] : group) {
    x.push_back(value);
    y.push_back(row->*peak);
  }
  return FitCurve(x, y);
}

uint64_t LargestPeak(const Group& group) {
  uint64_t largest = 0;
  for (const auto& [value, row] : group) largest = std::max(largest, row->peak_allocated);
  return largest;
}

ScalingBasis BasisOf(const std::vector<SweepRow>& rows, const std::string& axis, bool any_known) {
  std::set<std::string> values;
  std::set<double> numbers;
  for (const SweepRow& row : rows) {
    const std::string* value = ValueOf(row.values, axis);
    if (value == nullptr) continue;
    values.insert(*value);
    if (const std::optional<double> number = NumberOf(*value)) numbers.insert(*number);
  }
  if (any_known) return ScalingBasis::kVaried;
  if (values.size() < 2) return ScalingBasis::kOneValue;
  if (numbers.size() < 2) return ScalingBasis::kNotNumeric;
  return GroupsOf(rows, axis, /*known_only=*/false).empty() ? ScalingBasis::kNeverAlone : ScalingBasis::kPeaksUnknown;
}

AxisScaling FitAxis(const std::vector<SweepRow>& rows, const std::string& axis) {
  AxisScaling scaling;
  scaling.axis = axis;
  const std::map<Configuration, Group> groups = GroupsOf(rows, axis, /*known_only=*/true);
  scaling.basis = BasisOf(rows, axis, !groups.empty());
  if (groups.empty()) return scaling;
  const auto best = absl::c_max_element(groups, [](const auto& a, const auto& b) {
    if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
    return LargestPeak(a.second) < LargestPeak(b.second);
  });
  const CurveFit allocated = FitGroup(best->second, &SweepRow::peak_allocated);
  scaling.allocated = allocated.fit;
  scaling.weak = allocated.weak;
  scaling.reserved = FitGroup(best->second, &SweepRow::peak_reserved).fit;
  scaling.fixed = best->first;
  for (const auto& [value, row] : best->second) {
    scaling.values.push_back(value);
    scaling.allocated_bytes.push_back(row->peak_allocated);
    scaling.reserved_bytes.push_back(row->peak_reserved);
  }
  const auto [least, most] = std::minmax_element(scaling.allocated_bytes.begin(), scaling.allocated_bytes.end());
  scaling.small = static_cast<double>(*most - *least) < kSmallChange * static_cast<double>(*most);
  scaling.groups = static_cast<int>(groups.size());
  scaling.agreeing = static_cast<int>(absl::c_count_if(groups, [&](const auto& entry) {
    return FitGroup(entry.second, &SweepRow::peak_allocated).fit.model == allocated.fit.model;
  }));
  return scaling;
}

}  // namespace

const char* ScalingModelName(ScalingModel model) {
  constexpr const char* kNames[] = {"none", "constant", "linear", "quadratic", "other"};
  return kNames[static_cast<size_t>(model)];
}

const char* ScalingBasisName(ScalingBasis basis) {
  constexpr const char* kNames[] = {"varied", "one_value", "not_numeric", "never_alone", "peaks_unknown"};
  return kNames[static_cast<size_t>(basis)];
}

std::vector<AxisScaling> FitScaling(const std::vector<SweepRow>& rows) {
  std::vector<AxisScaling> all;
  if (rows.empty()) return all;
  for (const auto& [axis, value] : rows.front().values) all.push_back(FitAxis(rows, axis));
  return all;
}

}  // namespace gpumem::plan
