// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Plots over time (timeline, steps, survivors, fragmentation) and of the peak (bars, treemap, addresses). Pure
// functions; `trace` and `device` as in plot.h.

#ifndef GPUMEM_PLANNER_CHARTS_PLOTS_PLOTS_H_
#define GPUMEM_PLANNER_CHARTS_PLOTS_PLOTS_H_

#include "absl/status/statusor.h"
#include "planner/charts/plots/plot_parts.h"

namespace gpumem::plan {

// Plots over time: timeline, steps, survivors, fragmentation. Pure functions; `trace` and `device` as in plot.h.

plots::Panel TimelinePanel(const PlotRequest& request, const PlotTrace& trace, PlotDevice* device);
// A curve a run, by their names, each from its own beginning. NotFound: one allocated nothing there.
absl::StatusOr<plots::Panel> RunsPanel(const PlotRequest& request, const std::vector<PlotTrace>& traces,
                                       const std::vector<std::string>& names);
absl::StatusOr<plots::Panel> StepsPanel(const PlotTrace& trace);  // NotFound: no steps
absl::StatusOr<plots::Panel> SurvivorsPanel(const PlotRequest& request, const PlotTrace& trace,
                                            const PlotDevice& device);  // NotFound: nothing is alive at the end
plots::Panel FragmentationPanel(const PlotRequest& request, const PlotTrace& trace, const PlotDevice& device);

// Plots of the peak: bars, treemap, addresses. Pure functions; `trace` and `device` as in plot.h.

plots::Panel PeakPanel(const PlotRequest& request, PlotDevice* device);
plots::Panel TreemapPanel(const PlotRequest& request, const PlotDevice& device);
plots::Panel AddressesPanel(const PlotRequest& request, const PlotTrace& trace, const PlotDevice& device);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_CHARTS_PLOTS_PLOTS_H_
