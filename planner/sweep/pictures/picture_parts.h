// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the pictures of a sweep share: colours of things, the lines below titles. For the *_picture.cc files.

#ifndef GPUMEM_PLANNER_SWEEP_PICTURES_PICTURE_PARTS_H_
#define GPUMEM_PLANNER_SWEEP_PICTURES_PICTURE_PARTS_H_

#include <optional>
#include <string>
#include <vector>

#include "planner/charts/charts.h"
#include "planner/sweep/answer.h"

namespace gpumem::plan {

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

#endif  // GPUMEM_PLANNER_SWEEP_PICTURES_PICTURE_PARTS_H_
