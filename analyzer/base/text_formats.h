// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Texts that other programs read: cells of a CSV file, and numbers as text exposition.

#ifndef GPUMEM_ANALYZER_BASE_TEXT_FORMATS_H_
#define GPUMEM_ANALYZER_BASE_TEXT_FORMATS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem {

// CsvCell: a text as one cell of a CSV file (RFC 4180). Thread-safe.
//
//   CsvCell("a, b")            "a, b" in quotes
//   CsvCell("=HYPERLINK(...)") '=HYPERLINK(...): a spreadsheet program takes what begins so for a formula
//   CsvCell("-12.5")           -12.5: numbers stay numbers

std::string CsvCell(absl::string_view text);

// MetricText: numbers as text exposition: OpenMetrics, which is Prometheus's text format too, since every metric is a
// gauge. A metric's unit is its name's end. Not thread-safe.
//
//   MetricText metrics(&text, {{"program", "train"}});
//   metrics.Begin("gpumemshim_peak_allocated_bytes", "Highest sum of PyTorch's blocks in use.");
//   metrics.Sample({{"device", "0"}}, 8589934592);   // gpumemshim_peak_allocated_bytes{program="train",device="0"}
//   8589934592 metrics.End();
class MetricText {
 public:
  using Labels = std::vector<std::pair<absl::string_view, std::string>>;

  // Appends to `out`; `common` are labels of each sample.
  explicit MetricText(std::string* out, Labels common = {}) : out_(out), common_(std::move(common)) {}

  // Samples of a metric follow it; each metric is begun once.
  void Begin(absl::string_view name, absl::string_view help);
  void Sample(const Labels& labels, absl::string_view value);
  void Sample(const Labels& labels, uint64_t value);
  void Single(absl::string_view name, absl::string_view help, uint64_t value) {
    Begin(name, help);
    Sample({}, value);
  }
  void End();

 private:
  std::string* out_;
  std::string name_;
  Labels common_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_TEXT_FORMATS_H_
