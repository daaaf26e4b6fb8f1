// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The times and moments of a trace that have names: what --from and --to take besides seconds. Not thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const uint64_t from_ns, NamedTime("step 10", Edge::kFrom, loaded.get()));

#ifndef GPUMEM_ANALYZER_LEDGER_LOAD_WINDOW_H_
#define GPUMEM_ANALYZER_LEDGER_LOAD_WINDOW_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ledger/attribution/attribution.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

// Which end of a step or stage is meant.
enum class Edge : uint8_t { kFrom, kTo };

// Nanoseconds from the first event on. `asked`: "end" (of the program's own code, where that is known), "step 12" or
// "step:12", a stage as `gpumemshim stages` names it, else the text of a mark ("mark:TEXT" where that looks like
// something else). NotFound, with the nearest names, where the trace has no such moment, any other code where it cannot
// be read again.
absl::StatusOr<uint64_t> NamedTime(const std::string& asked, Edge edge, LoadedTrace* loaded);

// The moment that a command looks at: what ParseMoment knows, and of a stage, as `gpumemshim stages` names it, its
// highest moment, where no mark has this text. A moment that the trace has not is found by none of its analyses
// (NoSuchMoment). Fails where the trace cannot be read again.
absl::StatusOr<MomentQuery> NamedMoment(const std::string& asked, LoadedTrace* loaded);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LOAD_WINDOW_H_
