// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/scaling_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

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

}  // namespace gpumem::plan
