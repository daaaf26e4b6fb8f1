// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// WriteEvents: the tables that one reading of the trace gives: events, each with the totals after it, counters and
// samples. Memory is bounded by what is alive. Not thread-safe.
//
//   GPUMEM_RETURN_IF_ERROR(WriteEvents(loaded, progress, &database));

#ifndef GPUMEM_ANALYZER_QUERY_EVENT_ROWS_H_
#define GPUMEM_ANALYZER_QUERY_EVENT_ROWS_H_

#include "ledger/stacks/lives.h"
#include "query/database.h"

namespace gpumem {

// Where nothing is kept of the trace, after a replay for what the columns can say. `progress`: that is the first one.
absl::Status WriteEvents(LoadedTrace* loaded, const LoadedLives::Progress& progress, Database* database);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_EVENT_ROWS_H_
