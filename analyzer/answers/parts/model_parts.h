// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A model's parameters summed up, for text and JSON alike. Pure functions.
//
//   ModelTotals totals = TotalsOf(*input.attribution, objects);
//   totals.all.trainable_parameters;  totals.by_component["lora"].gradient_bytes

#ifndef GPUMEM_ANALYZER_ANSWERS_PARTS_MODEL_PARTS_H_
#define GPUMEM_ANALYZER_ANSWERS_PARTS_MODEL_PARTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "ledger/attribution/attribution.h"
#include "trace/object_table.h"

namespace gpumem {

// A single parameter of more bytes is marked.
inline constexpr uint64_t kLargeParameterBytes = uint64_t{100} << 20;

struct ParameterSums {
  uint64_t parameters = 0, parameter_bytes = 0;  // numbers and bytes
  uint64_t trainable_parameters = 0, trainable_bytes = 0;
  uint64_t gradient_bytes = 0, state_bytes = 0;

  double TrainablePercent() const;
};

using GroupedSums = std::map<std::string, ParameterSums>;

struct ModelTotals {
  ParameterSums all;
  ParameterSums lora;
  GroupedSums by_component, by_type, by_device;
  GroupedSums by_optimizer_group;  // "AdamW 0"; those that an optimizer has
  // By the same names, as far as they are known; not where two optimizers of a class are set differently.
  std::map<std::string, OptimizerGroupInfo> optimizer_settings;
};
ModelTotals TotalsOf(const Attribution& attribution, const ObjectTable& objects);

// What the module is that holds it.
const std::string& ComponentOf(const ParameterRow& parameter, const Attribution& attribution);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_PARTS_MODEL_PARTS_H_
