// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A memory snapshot in other files than its pickle: the page that PyTorch's _memory_viz.py writes (trace_plot,
// profile_plot and others), in which the pickle lies as base64, and what json.dump makes of _snapshot(). Each becomes
// the tree that the pickle would be; a tuple in JSON is a list. Nothing of a page is run. Thread-safe; DataLoss where
// the file is damaged or takes too much.
//
//   if (IsSnapshotPage(source.Peek())) tree = ReadSnapshotPage(&source, limits, &memory, progress);

#ifndef GPUMEM_ANALYZER_IMPORT_SNAPSHOT_FILES_H_
#define GPUMEM_ANALYZER_IMPORT_SNAPSHOT_FILES_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/byte_source.h"
#include "import/import.h"
#include "import/pickle_reader.h"
#include "import/pickle_tree.h"

namespace gpumem {

// Of a file's first bytes, as many as ByteSource::Peek gives.
bool IsSnapshotPage(absl::string_view begin);
// By the keys of the outermost object, of which one comes first; or, as 1.13 had it, of the first object in the list.
bool IsSnapshotJson(absl::string_view begin);

absl::StatusOr<PickleTree> ReadSnapshotPage(ByteSource* source, const PickleLimits& limits, ImportMemory* memory,
                                            const std::function<void(uint64_t, uint64_t)>& progress);
absl::StatusOr<PickleTree> ReadSnapshotJson(ByteSource* source, const PickleLimits& limits);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_SNAPSHOT_FILES_H_
