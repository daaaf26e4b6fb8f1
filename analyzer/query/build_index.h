// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// BuildIndex: a trace as a database of tables (schema.h), in two parts, since most questions need no event. A part is
// written whole or not at all: it gets its name when it is complete, and a signal that ends the program removes what is
// half-written. Memory is bounded whatever the trace's length: what is alive at once, the stacks, and kIndexMemory for
// DuckDB. Not thread-safe: one at a time.
//
//   GPUMEM_RETURN_IF_ERROR(BuildIndex(IndexPart::kLives, file, loaded.get(), progress));
//
// Unavailable where the disk is full or the file cannot be written; what the replays say where the trace cannot be
// read.

#ifndef GPUMEM_ANALYZER_QUERY_BUILD_INDEX_H_
#define GPUMEM_ANALYZER_QUERY_BUILD_INDEX_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "ledger/load/load_trace.h"
#include "ledger/saved/index_file.h"

namespace gpumem {

inline constexpr char kIndexMemory[] = "512MB";

enum class IndexPart : uint8_t {
  kLives,   // all tables but those of the other part; where lives are kept (ledger/saved) no event is read
  kEvents,  // events, counters and samples (IsOfEvents): one reading of the trace
};

absl::Status BuildIndex(IndexPart part, const IndexFile& file, LoadedTrace* loaded, const LoadProgress& progress);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_BUILD_INDEX_H_
