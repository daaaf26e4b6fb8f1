// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/scaling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "planner/sweep/digest.h"

namespace gpumem::plan {
namespace {

constexpr double kUnchanged = 0.01;    // of the largest: such a change is rounding of the allocator
constexpr double kStraight = 0.02;     // of the whole change: a line that is off by less is the law
constexpr double kSquare = 0.05;       // likewise for a square,
constexpr double kTimesBetter = 3;     // which must be so much better than the line
constexpr double kRoughlyLine = 0.10;  // where the square is none, a line may be off by so much

using Coefficients = std::array<double, 3>;

double ValueAt(const Coefficients& c, double x) { return c[0] + (c[1] + c[2] * x) * x; }

// Least squares of degree 0 to 2 by normal equations; x is scaled to [0, 1] by the caller, so that they stay exact
// enough.
Coefficients LeastSquares(const std::vector<double>& x, const std::vector<double>& y, size_t terms) {
  double a[3][4] = {};
  for (size_t i = 0; i < x.size(); ++i) {
    const double powers[] = {1, x[i], x[i] * x[i]};
    for (size_t row = 0; row < terms; ++row) {
      for (size_t column = 0; column < terms; ++column) a[row][column] += powers[row] * powers[column];
      a[row][3] += powers[row] * y[i];
    }
  }
  for (size_t pivot = 0; pivot < terms; ++pivot) {
    size_t best = pivot;
    for (size_t row = pivot + 1; row < terms; ++row) {
      if (std::abs(a[row][pivot]) > std::abs(a[best][pivot])) best = row;
    }
    std::swap(a[pivot], a[best]);
    if (a[pivot][pivot] == 0) return {};
    for (size_t row = 0; row < terms; ++row) {
      if (row == pivot) continue;
      const double factor = a[row][pivot] / a[pivot][pivot];
      for (size_t column = pivot; column < 4; ++column) a[row][column] -= factor * a[pivot][column];
    }
  }
  Coefficients c{};
  for (size_t row = 0; row < terms; ++row) c[row] = a[row][3] / a[row][row];
  return c;
}

double LargestError(const Coefficients& c, const std::vector<double>& x, const std::vector<double>& y) {
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(ValueAt(c, x[i]) - y[i]));
  return largest;
}

ScalingFit FitOf(ScalingModel model, const Coefficients& c, double unit, const std::vector<double>& x,
                 const std::vector<double>& y) {
  ScalingFit fit{model, c[0], c[1] / unit, c[2] / unit / unit};
  double mean = 0, residual = 0, total = 0;
  for (const double value : y) mean += value / static_cast<double>(y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = ValueAt(c, x[i]) - y[i];
    residual += error * error;
    total += (y[i] - mean) * (y[i] - mean);
    if (y[i] > 0) fit.largest_relative_error = std::max(fit.largest_relative_error, std::abs(error) / y[i]);
  }
  fit.r_squared = total > 0 ? std::max(0.0, 1 - residual / total) : 1;
  return fit;
}

// Bends upwards, and nowhere falls between the points: memory that falls and then grows follows no square.
bool GrowsAsSquare(const Coefficients& c, double least) { return c[2] > 0 && c[1] + 2 * c[2] * least >= 0; }

}  // namespace

CurveFit FitCurve(const std::vector<double>& x, const std::vector<uint64_t>& y) {
  if (x.size() < 2 || x.size() != y.size()) return {};
  const std::vector<double> values(y.begin(), y.end());
  const double unit = std::max(std::abs(x.front()), std::abs(x.back()));
  std::vector<double> scaled;
  scaled.reserve(x.size());
  for (const double value : x) scaled.push_back(value / unit);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double change = *most - *least;
  const auto fit = [&](ScalingModel model, const Coefficients& c) { return FitOf(model, c, unit, scaled, values); };
  if (change <= kUnchanged * *most)
    return {fit(ScalingModel::kConstant, LeastSquares(scaled, values, 1)), /*weak=*/x.size() == 2};
  const Coefficients line = LeastSquares(scaled, values, 2);
  if (x.size() == 2) return {fit(ScalingModel::kLinear, line), /*weak=*/true};
  const double line_error = LargestError(line, scaled, values) / change;
  if (line_error <= kStraight) return {fit(ScalingModel::kLinear, line)};
  const Coefficients square = LeastSquares(scaled, values, 3);
  const double square_error = LargestError(square, scaled, values) / change;
  if (GrowsAsSquare(square, scaled.front()) && square_error <= kSquare && square_error * kTimesBetter <= line_error)
    return {fit(ScalingModel::kQuadratic, square), /*weak=*/x.size() == 3};
  return {fit(line_error <= kRoughlyLine ? ScalingModel::kLinear : ScalingModel::kOther, line)};
}

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

// What a fit says, in words. Both languages say the same, clause by clause.

namespace {

std::string NumberText(double number) { return absl::StrFormat("%.6g", number); }

std::string BytesText(double bytes) {
  const double size = std::min(std::abs(bytes), 1.8e19);
  const auto rounded = static_cast<uint64_t>(std::llround(std::min(size, 9.2e18)));
  return absl::StrCat(bytes < 0 && rounded > 0 ? "-" : "", FormatBytes(rounded));
}

// Of a curve's error, as an upper end: finer than this is noise.
std::string PercentText(double share) { return FormatPercent(std::max(share, 0.001)); }

// "1.5 GiB + 12 MiB n + 280 B n^2".
std::string Formula(const ScalingFit& fit) {
  std::string text = BytesText(fit.constant);
  const auto add = [&text](double bytes, absl::string_view power) {
    if (std::llround(std::min(std::abs(bytes), 9.2e18)) == 0) return;
    absl::StrAppend(&text, bytes < 0 ? " - " : " + ", BytesText(std::abs(bytes)), power);
  };
  add(fit.linear, " n");
  if (fit.model == ScalingModel::kQuadratic) add(fit.quadratic, " n^2");
  return text;
}

std::string Range(const AxisScaling& scaling, bool zh) {
  const std::string from = NumberText(scaling.values.front()), to = NumberText(scaling.values.back());
  const std::string least = FormatBytes(scaling.allocated_bytes.front()),
                    most = FormatBytes(scaling.allocated_bytes.back());
  return zh ? absl::StrCat(from, " 时 ", least, "，", to, " 时 ", most)
            : absl::StrCat(least, " at ", from, ", ", most, " at ", to);
}

std::string BasisText(ScalingBasis basis, bool zh) {
  switch (basis) {
    case ScalingBasis::kOneValue:
      return zh ? "只有一个取值，无从比较" : "one value only, nothing to compare";
    case ScalingBasis::kNotNumeric:
      return zh ? "取值不是数字，未作拟合" : "its values are no numbers, so nothing was fitted";
    case ScalingBasis::kNeverAlone:
      return zh ? "从未单独变化，无法区分其影响"
                : "never varied alone, so its effect cannot be told from that of others";
    case ScalingBasis::kPeaksUnknown:
      return zh ? "可比较的运行没有得到峰值" : "the runs that could be compared have no known peak";
    case ScalingBasis::kVaried:
      break;
  }
  return "";
}

// The law in one word, then how large it is.
std::string LawText(const AxisScaling& scaling, bool zh) {
  const ScalingFit& fit = scaling.allocated;
  const std::string range = Range(scaling, zh);
  const double first = static_cast<double>(scaling.allocated_bytes.front()),
               last = static_cast<double>(scaling.allocated_bytes.back());
  if (scaling.small) {
    const std::string change = absl::StrFormat("%+.1f %%", first > 0 ? (last / first - 1) * 100 : 0.0);
    return zh ? absl::StrCat("对显存影响较小（", change, "）：", range)
              : absl::StrCat("small effect on memory (", change, "): ", range);
  }
  const std::string slope = BytesText(std::abs(fit.linear));
  const bool falls = fit.linear < 0;
  switch (fit.model) {
    case ScalingModel::kQuadratic:
      return zh ? absl::StrCat("显存随之呈二次增长：", range, "；", Formula(fit))
                : absl::StrCat("memory grows quadratically: ", range, "; ", Formula(fit));
    case ScalingModel::kLinear:
      if (scaling.values.size() == 2) {
        return zh ? absl::StrCat("每增加 1，显存", falls ? "减少 " : "增加 ", slope, "：", range)
                  : absl::StrCat("memory ", falls ? "falls" : "grows", " by ", slope, " per unit: ", range);
      }
      return zh ? absl::StrCat("显存随之呈线性", falls ? "下降" : "增长", "，每单位 ", slope, "：", range)
                : absl::StrCat("memory ", falls ? "falls" : "grows", " linearly, ", slope, " per unit: ", range);
    default:
      return zh ? absl::StrCat("显存随之变化，但不符合简单规律（直线误差达 ", PercentText(fit.largest_relative_error),
                               "）：", range)
                : absl::StrCat("memory changes, but not by a simple law (a line is off by up to ",
                               PercentText(fit.largest_relative_error), "): ", range);
  }
}

std::string SupportText(const AxisScaling& scaling, bool zh) {
  if (scaling.small) return "";
  if (scaling.values.size() == 2) return zh ? "；只有两个取值，无法判断规律" : "; two values cannot tell a law";
  if (scaling.weak) return zh ? "；仅三个取值，依据较弱" : "; three values, so weakly supported";
  if (scaling.allocated.model == ScalingModel::kOther) return "";
  return absl::StrCat(zh ? "；误差不超过 " : "; off by at most ",
                      PercentText(scaling.allocated.largest_relative_error));
}

}  // namespace

std::string ScalingSentence(const AxisScaling& scaling, SweepLanguage language) {
  const bool zh = language == SweepLanguage::kChinese;
  if (scaling.basis != ScalingBasis::kVaried || scaling.values.size() < 2) return BasisText(scaling.basis, zh);
  std::string text = absl::StrCat(LawText(scaling, zh), SupportText(scaling, zh));
  if (!scaling.fixed.empty()) {
    const std::string fixed = absl::StrJoin(scaling.fixed, zh ? "，" : ", ", absl::PairFormatter("="));
    absl::StrAppend(&text, zh ? "（" : " (", fixed, zh ? "）" : ")");
  }
  if (scaling.groups > 1 && scaling.agreeing < scaling.groups) {
    absl::StrAppend(&text, zh ? absl::StrCat("；", scaling.groups, " 组比较中 ", scaling.agreeing, " 组如此")
                              : absl::StrCat("; so in ", scaling.agreeing, " of ", scaling.groups, " comparisons"));
  }
  return text;
}

}  // namespace gpumem::plan
