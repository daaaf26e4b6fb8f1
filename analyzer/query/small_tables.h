// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The tables of an index that hold few rows: modules, steps, owners, losses, processes. Pure functions of what
// they are given, but for the database that they fill.
//
//   GPUMEM_RETURN_IF_ERROR(WriteModules(attribution, &database));

#ifndef GPUMEM_ANALYZER_QUERY_SMALL_TABLES_H_
#define GPUMEM_ANALYZER_QUERY_SMALL_TABLES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "ledger/attribution/attribution.h"
#include "ledger/load/load_trace.h"
#include "query/database.h"

namespace gpumem {

// `attribution`: with modules.
absl::Status WriteModules(const Attribution& attribution, Database* database);
// `attribution`: with steps.
absl::Status WriteSteps(const Attribution& attribution, const ReportInput& input, Database* database);
absl::Status WriteOwners(const ReportInput& input, Database* database);
absl::Status WriteLosses(const Analysis& analysis, Database* database);
// `end_event`: the last one of the program's own code.
absl::Status WriteProcess(const LoadedTrace& loaded, uint64_t end_event, Database* database);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_SMALL_TABLES_H_
