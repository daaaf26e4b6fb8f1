// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The pictures of a sweep, as figures that plots/ draws: the same colour for the same thing in each, and "simulated" on
// each where no GPU was used. Words in them are English. Pure functions; any rows are fine, none included.
//
//   WritePicture(plots::DrawFigure(OverviewFigure(answer)), "results/memory_analysis_overview");

#ifndef GPUMEM_PLANNER_SWEEP_PICTURES_PICTURES_H_
#define GPUMEM_PLANNER_SWEEP_PICTURES_PICTURES_H_

#include <optional>
#include <string>
#include <vector>

#include "planner/charts/charts.h"
#include "planner/charts/figure.h"
#include "planner/sweep/answer.h"

namespace gpumem::plan {

// Peaks by each axis, all peaks and times by configuration, and how many fit.
plots::Figure OverviewFigure(const SweepAnswer& answer);

// What each configuration needs, by two axes; further axes become panels.
plots::Figure HeatmapFigure(const SweepAnswer& answer);

// Memory over time of one configuration.
plots::Figure TimelineFigure(const SweepAnswer& answer, const SweepRow& row);

// The peak by component and memory type: of RowToExplain, and over the configurations.
plots::Figure DetailedFigure(const SweepAnswer& answer);

// All allocations by forward, backward and optimizer: of RowToExplain by component, and over the configurations.
plots::Figure OperationsFigure(const SweepAnswer& answer);

// What the pictures of a sweep share: colours of things, the lines below titles. For the *_picture.cc files.

plots::Color MemoryTypeColor(const std::string& name);
plots::Color ComponentColor(const std::string& name);
plots::Color OperationColor(const std::string& name);
plots::Color StateColor(RowState state);

// "Simulated, no GPU used. RTX4090, 24 GiB. 5 steps. python train.py ...".
std::string SubtitleOf(const SweepAnswer& answer);

// The device's memory, where it is known.
std::optional<plots::Limit> CapacityLimit(const SweepAnswer& answer);

// Of all rows, by the axes that vary: labels, which of them are alarms, and what the labels are.
plots::BarChart ByConfiguration(const SweepAnswer& answer);

// "#20: seq_len=4096, batch_size=8".
std::string RowTitle(const SweepRow& row);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_PICTURES_PICTURES_H_
