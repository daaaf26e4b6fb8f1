// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the model goes through: a few threads each, chosen so that every step of the protocol meets every other.
//
//   for (const Scenario& scenario : Scenarios()) Explore(scenario);

#ifndef GPUMEM_TESTS_SHIM_RING_MODEL_SCENARIOS_H_
#define GPUMEM_TESTS_SHIM_RING_MODEL_SCENARIOS_H_

#include <functional>
#include <vector>

#include "explorer.h"

namespace model {

struct Scenario {
  const char* name;
  Bounds quick, thorough;
  std::function<void()> run;  // one execution
};

const std::vector<Scenario>& Scenarios();

// Planted in the scenarios themselves, where the ring's sources have no say: the packet is marked after its append.
extern bool g_mark_late;

}  // namespace model

#endif  // GPUMEM_TESTS_SHIM_RING_MODEL_SCENARIOS_H_
