// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SnapshotStates: a snapshot's segments and blocks as the trace's AllocatorState, and with them, as a pickle, all that
// the trace says nowhere else: so that the snapshot can be written again as it was (export/snapshot_again.h), and what
// PyTorch said of each segment is kept. The rest is
//
//   {"keys": [of the snapshot, in order], "top": {those that are not below},
//    "traces": [of each device: DictRest's, of kEntryKeys, "open": [of free_requested, whose completion is not the next
//               entry], "delays": [of completions: index - the one before, microseconds after the request, ...]],
//    "segments": DictRest's, of kSegmentKeys, "blocks": of kBlockKeys, numbered through}
//
// Of an entry on a block the event says all that kEntryKeys names: its time, too, and a free_completed that follows its
// free_requested is like it but for its delay. All other entries are kept whole. Errors: TooMuch of the memory, and the
// sink's.
//
//   GPUMEM_RETURN_IF_ERROR(AddSnapshotState(tree, snapshot, pasts, begin_ns, &stacks, &memory, &writer));

#ifndef GPUMEM_ANALYZER_IMPORT_SNAPSHOT_REST_H_
#define GPUMEM_ANALYZER_IMPORT_SNAPSHOT_REST_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "import/import.h"
#include "import/pickle_tree.h"
#include "import/snapshot_events.h"
#include "import/snapshot_past.h"
#include "import/torch_snapshot.h"
#include "trace/write/trace_writer.h"

namespace gpumem {

inline constexpr absl::string_view kEntryKeys[] = {"action", "addr", "size", "stream", "time_us", "frames"};
inline constexpr absl::string_view kSegmentKeys[] = {
    "device", "address",      "total_size",      "allocated_size", "active_size", "requested_size",
    "stream", "segment_type", "segment_pool_id", "is_expandable",  "frames",      "blocks"};
inline constexpr absl::string_view kBlockKeys[] = {"address", "size", "requested_size", "state", "frames"};

absl::Status AddSnapshotState(const PickleTree& tree, const TorchSnapshot& snapshot,
                              const std::vector<SnapshotPast>& pasts, uint64_t begin_ns, StackImporter* stacks,
                              ImportMemory* memory, TraceWriter* writer);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_SNAPSHOT_REST_H_
