// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Words for the numbers of trace.proto and analysis.h: the same in text and in JSON. Unknown numbers give "unknown".

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_NAMES_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_NAMES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "replay/analysis.h"

namespace gpumem {

absl::string_view MeasureName(Measure measure);  // "allocated"
absl::string_view LayerName(uint8_t layer);      // "torch"
absl::string_view MemoryName(uint8_t memory);    // "stream_ordered"
// "alloc"; the number where this gpumemshim knows no name.
std::string EventKindName(uint32_t kind);

// "GPU 0"; "the host" for -1.
std::string DeviceLabel(int device);

// Every peak that is printed goes through these: "at least 1.20 GiB" in a sentence, ">= " before it in a table,
// "at_least" in JSON. Nothing is said, and "exact", where no event is missing.
std::string BoundedBytes(PeakBound bound, uint64_t bytes);
absl::string_view BoundSign(PeakBound bound);
absl::string_view PeakBoundName(PeakBound bound);
bool PeakBoundOf(absl::string_view name, PeakBound* bound);  // false: no such name

// "out of memory (2)"; the number alone where it has no common name.
std::string ResultName(int result);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_NAMES_H_
