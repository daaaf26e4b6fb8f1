// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Plots of the peak: bars, treemap, addresses. Pure functions; `trace` and `device` as in plot.h.

#ifndef GPUMEM_PLANNER_CHARTS_PLOTS_MOMENT_PLOTS_H_
#define GPUMEM_PLANNER_CHARTS_PLOTS_MOMENT_PLOTS_H_

#include "planner/charts/plots/plot_parts.h"

namespace gpumem::plan {

plots::Panel PeakPanel(const PlotRequest& request, PlotDevice* device);
plots::Panel TreemapPanel(const PlotRequest& request, const PlotDevice& device);
plots::Panel AddressesPanel(const PlotRequest& request, const PlotTrace& trace, const PlotDevice& device);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_CHARTS_PLOTS_MOMENT_PLOTS_H_
