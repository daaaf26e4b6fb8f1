// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ExportSnapshotAgain: the snapshot that a trace was imported from, as it was: the events on blocks from the trace's
// own, segments and blocks from its AllocatorState, and all else from the rest of that (import/snapshot_rest.h). Equal
// as Python's objects; memory: the stacks, and the rest. Not thread-safe. Errors: the trace's, AsReadError; DataLoss
// where the rest is broken.
//
//   if (const auto state = ReadAllocatorState(path); state && !state->rest().empty())
//     return ExportSnapshotAgain(*state, loaded, sink, more);

#ifndef GPUMEM_ANALYZER_EXPORT_SNAPSHOT_AGAIN_H_
#define GPUMEM_ANALYZER_EXPORT_SNAPSHOT_AGAIN_H_

#include <functional>

#include "absl/status/statusor.h"
#include "export/exporter.h"
#include "gpumem/trace.pb.h"

namespace gpumem {

absl::StatusOr<ExportResult> ExportSnapshotAgain(const trace::AllocatorState& state, LoadedTrace* loaded,
                                                 const TextSink& sink, const std::function<bool()>& more);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_SNAPSHOT_AGAIN_H_
