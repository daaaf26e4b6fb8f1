// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the plots have in common: the device that is looked at, names and colours of layers, and what was alive at an
// event. Not thread-safe.

#ifndef GPUMEM_PLANNER_CHARTS_PLOTS_PLOT_PARTS_H_
#define GPUMEM_PLANNER_CHARTS_PLOTS_PLOT_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/charts/canvas.h"
#include "planner/charts/plots/plot.h"

namespace gpumem::plan {

inline constexpr size_t kPlotLayers = 10;  // more colours cannot be told apart on paper; the others are one

// A layer with its bytes in each row.
struct PlotLayer {
  std::string name;
  plots::Color color;
  std::vector<double> bytes;
  bool is_rest = false;  // of all that are no layer of their own
};

// One device of one trace.
class PlotDevice {
 public:
  // nullptr analysis where the trace has no such device.
  PlotDevice(const PlotTrace& trace, int device);

  bool exists() const { return analysis_ != nullptr && page_ != nullptr && !page_->rows.rows().empty(); }
  const DeviceAnalysis& analysis() const { return *analysis_; }
  const std::vector<TimeRow>& rows() const { return page_->rows.rows(); }
  // Highest first; what no layer explains is one of its own. Once.
  std::vector<PlotLayer> TakeLayers(PageLayer by);
  size_t peak_row() const;
  const LiveSet& peak() const { return LiveAtPeak(*analysis_, DefaultMeasure(*analysis_)); }
  // Blocks of this device that were alive behind an event.
  std::vector<const PageLife*> AliveAt(uint64_t event) const;
  std::string KeyText(PageLayer by, const PageLife& life) const;
  plots::Color ColorOf(PageLayer by, const std::string& name, size_t place) const;

 private:
  const PlotTrace& trace_;
  const DeviceAnalysis* analysis_ = nullptr;
  PageDevice* page_ = nullptr;
};

// Names of traces without the words that all of them begin and end with: "gpumemshim.train.41", "gpumemshim.train.42"
// are "41" and "42". As they are where that would leave nothing of one.
std::vector<std::string> TellingParts(std::vector<std::string> names);

// "8.11 GiB allocated on GPU 0 at 1.935 s, step 2": of the verdict.
std::string PeakSentence(const PlotTrace& trace);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_CHARTS_PLOTS_PLOT_PARTS_H_
