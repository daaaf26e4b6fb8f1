// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the trace made from a snapshot says of itself: its header, and the sentences on what the snapshot lacks and what
// was derived. Pure.
//
//   header = SnapshotHeader(snapshot, "run.pickle", begin_ns, result);

#ifndef GPUMEM_ANALYZER_IMPORT_SNAPSHOT_NOTES_H_
#define GPUMEM_ANALYZER_IMPORT_SNAPSHOT_NOTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gpumem/trace.pb.h"
#include "import/import.h"
#include "import/snapshot_past.h"
#include "import/torch_snapshot.h"

namespace gpumem {

std::vector<std::string> SnapshotNotes(const TorchSnapshot& snapshot, const std::vector<SnapshotPast>& pasts);

trace::Header SnapshotHeader(const TorchSnapshot& snapshot, const std::string& path, uint64_t begin_ns,
                             const ImportResult& result);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_SNAPSHOT_NOTES_H_
