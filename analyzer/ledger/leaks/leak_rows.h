// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LeakRows: from what each stack keeps alive to rows of a device: one a line of code, judged in the loop in which it
// grows most; graphs that autograd keeps are one row, of the line that keeps them. Pure.

#ifndef GPUMEM_ANALYZER_LEDGER_LEAKS_LEAK_ROWS_H_
#define GPUMEM_ANALYZER_LEDGER_LEAKS_LEAK_ROWS_H_

#include <cstddef>
#include <vector>

#include "ledger/attribution/stack_classification.h"
#include "ledger/leaks/leaks.h"
#include "ledger/leaks/survival_pass.h"

namespace gpumem {

struct LeakRowSources {
  const SurvivalPass* pass = nullptr;
  StackClassifier* classifier = nullptr;
  const PlaceOfStack* place_of = nullptr;
  const SourceLines* source = nullptr;
  size_t loops = 0;
  std::vector<bool> are_steps;  // of each loop, or iterations that a stack begins
  bool ran_out = false;         // of memory: what the program freed then it did not free by itself
};

// In no particular order; rows that are flat are left out.
std::vector<LeakRow> LeakRows(const LeakRowSources& sources, int device);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LEAKS_LEAK_ROWS_H_
