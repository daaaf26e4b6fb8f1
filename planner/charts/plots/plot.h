// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Pictures of recorded traces as figures for papers, tickets and dashboards: the same numbers as the page of gpumemshim
// html, since both come from PagePass and the answers of the other commands. Pure functions of what was read.
//
//   PlotTrace trace{loaded.get(), &pass, attribution.get(), "run"};
//   GPUMEM_ASSIGN_OR_RETURN(const plots::Figure figure, MakePlot({PlotKind::kTimeline}, {trace}));

#ifndef GPUMEM_PLANNER_CHARTS_PLOTS_PLOT_H_
#define GPUMEM_PLANNER_CHARTS_PLOTS_PLOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ledger/attribution/attribution.h"
#include "ledger/load/load_trace.h"
#include "planner/charts/figure.h"
#include "web/page_pass.h"

namespace gpumem::plan {

enum class PlotKind : uint8_t {
  kTimeline,       // what was held over time, stacked; of several traces a curve each
  kPeak,           // bars of what the peak is made of
  kTreemap,        // the same as areas, with lines of code inside
  kModules,        // bars of what each module holds at once
  kSteps,          // peak and end of each step
  kLeaks,          // what is alive at the end, by when it was allocated
  kFragmentation,  // reserved and in use over time
  kAddresses,      // segments and blocks at the peak
  kComparison,     // the peaks of several traces, stacked
};

struct PlotKindInfo {
  PlotKind kind;
  absl::string_view name;   // on the command line
  absl::string_view about;  // half a sentence
};
const std::vector<PlotKindInfo>& PlotKinds();
// nullopt where there is no such kind.
std::optional<PlotKind> PlotKindNamed(absl::string_view name);

struct PlotRequest {
  PlotKind kind = PlotKind::kTimeline;
  PageLayer by = PageLayer::kCategory;  // what is stacked or has a bar of its own
  int device = -1;                      // -1: the one with the largest peak
  // Across: the order of events instead of time. nullopt: where time says little, which is one long wait with
  // everything in a small part of it.
  std::optional<bool> events = std::nullopt;
};

// A trace as it was read. `pass` is emptied of its layers: one plot each.
struct PlotTrace {
  LoadedTrace* loaded = nullptr;
  PagePass* pass = nullptr;
  const Attribution* attribution = nullptr;  // with steps and modules
  std::string name;
};

// NotFound: the trace has nothing of what was asked for, with what it lacks. At least one trace.
absl::StatusOr<plots::Figure> MakePlot(const PlotRequest& request, const std::vector<PlotTrace>& traces);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_CHARTS_PLOTS_PLOT_H_
