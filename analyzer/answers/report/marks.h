// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How a place among a program's own marks is said in a report. Pure.
//
//   PlaceText(analysis.marks.At(peak_ns));   // "step 3, stage train > backward"; "" where nothing was said

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_MARKS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_MARKS_H_

#include <cstdint>
#include <string>

#include "ledger/load/input.h"
#include "render/document.h"
#include "replay/mark_log.h"

namespace gpumem {

std::string PlaceText(const MarkPlace& place);
// For machines: the object `where` of an instant.
Datum PlaceDatum(uint64_t time_ns, const ReportInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_MARKS_H_
