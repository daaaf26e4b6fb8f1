// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Bytes by category within an answer: as an object for machines, and the largest of them in words. Pure functions.
//
//   {"categories", "", Unit::kObject, "at the peak", [](const AttributedStep& each) { return
//   CategoriesDatum(each.at_peak); }} LargestCategories(moment.categories);   // "activations 2.00 GiB, parameters 512
//   MiB"

#ifndef GPUMEM_ANALYZER_ANSWERS_PARTS_CATEGORIES_H_
#define GPUMEM_ANALYZER_ANSWERS_PARTS_CATEGORIES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ledger/attribution/attribution.h"
#include "ledger/load/input.h"
#include "render/document.h"

namespace gpumem {

// Every category, also those without bytes.
Datum CategoriesDatum(const CategoryBytes& bytes);

// Categories that have bytes, from the largest on; unknown stands last, whether there is any or not.
std::vector<size_t> CategoriesBySize(const CategoryBytes& bytes);

// The largest three.
std::string LargestCategories(const CategoryBytes& bytes);
// The same without what lies outside of PyTorch's blocks.
std::string LargestOfBlocks(CategoryBytes bytes);

// For machines: which device it is of, and what it rests on.
void AddBasis(const Attribution& attribution, Document* answer);
// Begins an answer: the common head, and what attribution rests on.
Document AttributedAnswer(absl::string_view command, const ReportInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_PARTS_CATEGORIES_H_
