// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The training steps of a trace for formats that draw them, with each step's peak. Empty where there are none, or where
// the trace cannot be read a second time: a timeline without steps is still one. Not thread-safe.
//
//   for (const AttributedStep& each : StepsOf(loaded)) Draw(each.step.start.time_ns, each.step.end.time_ns);

#ifndef GPUMEM_ANALYZER_EXPORT_STEPS_H_
#define GPUMEM_ANALYZER_EXPORT_STEPS_H_

#include <vector>

#include "ledger/load/attribute.h"

namespace gpumem {

inline std::vector<AttributedStep> StepsOf(LoadedTrace* loaded) {
  AttributionRequest request;
  request.steps = true;
  auto attribution = AttributeLoaded(request, "", loaded);
  loaded->input.attribution = nullptr;
  return attribution.ok() ? std::move((*attribution)->steps) : std::vector<AttributedStep>();
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_STEPS_H_
