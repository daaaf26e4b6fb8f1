// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SnapshotEvents: the entries of a snapshot as events of a trace (torch_import.h says what becomes what). A mapping is
// cut where a later one is unmapped, so that each part has memory of its own that can be given back alone. Not
// thread-safe; tree, snapshot, pasts and writer must outlive it. Errors are the writer's, and
// DataLoss where stacks or mappings take more than can be.
//
//   SnapshotEvents events(tree, snapshot, pasts, &stacks, &memory, &writer);
//   GPUMEM_RETURN_IF_ERROR(events.AddBeginning(pasts[0], 0, begin_ns, &beginning));
//   GPUMEM_RETURN_IF_ERROR(events.Write(pasts[0], 0, entry, time_ns));

#ifndef GPUMEM_ANALYZER_IMPORT_SNAPSHOT_EVENTS_H_
#define GPUMEM_ANALYZER_IMPORT_SNAPSHOT_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "import/import.h"
#include "import/pickle_tree.h"
#include "import/snapshot_past.h"
#include "import/torch_snapshot.h"
#include "trace/write/definition_builder.h"
#include "trace/write/trace_writer.h"

namespace gpumem {

// StackImporter: PyTorch's lists of frames as stacks of a trace. A list that many entries share is looked at once, so
// the work is that of the file, not of its references. Not thread-safe; tree and builder must outlive it. Nothing
// fails: what is not a frame is passed over.
//
//   StackImporter stacks(&tree, &writer.definitions());
//   row.stack = stacks.Stack(entry.frames);

// Whether a frame that states its file is of Python: PyTorch's lists mix them without a mark.
bool IsPythonFile(absl::string_view file);

class StackImporter {
 public:
  StackImporter(const PickleTree* tree, DefinitionBuilder* definitions);

  // Of a list of {filename, name, line}, innermost first. 0 for an empty one, and for what is not a list.
  uint64_t Stack(PickleValue frames) { return Look(frames).stack; }
  // The list is what its stack says, and nothing more; an unknown file is "??".
  bool IsExact(PickleValue frames) { return frames.type() == PickleValue::Type::kList && Look(frames).is_exact; }

 private:
  struct Found {
    uint64_t stack = 0;  // or frame
    bool is_exact = true;
  };

  Found Look(PickleValue frames);
  Found Frame(PickleValue frame);

  const PickleTree* tree_;
  DefinitionBuilder* definitions_;
  std::optional<PickleValue> filename_, name_, line_;
  // By where their items lie: equal ones share that (PickleTree).
  absl::flat_hash_map<const PickleValue*, Found> stacks_, frames_;
};

// Of blocks whose allocation is not in the history: shown in place of a line, which no one knows.
inline constexpr absl::string_view kAllocatedBeforeHistory = "allocated before the history began";

struct SnapshotBeginning {
  std::vector<EventRow> rows;
  std::vector<uint32_t> torch_segments;  // indices of rows
};

class SnapshotEvents {
 public:
  SnapshotEvents(const PickleTree& tree, const TorchSnapshot& snapshot, const std::vector<SnapshotPast>& pasts,
                 StackImporter* stacks, ImportMemory* memory, TraceWriter* writer);

  // What a device had before its first entry. DataLoss where that is more than can be.
  absl::Status AddBeginning(const SnapshotPast& past, int device, uint64_t time_ns, SnapshotBeginning* to);
  // Entry `i` of a device.
  absl::Status Write(const SnapshotPast& past, int device, size_t i, uint64_t time_ns);
  absl::Status WriteSnapshotMark(uint64_t time_ns);

 private:
  struct DeviceRanges {
    absl::btree_map<uint64_t, uint64_t> reserved;  // all that is ever mapped side by side: from, to
    absl::btree_set<uint64_t> cuts;
    absl::btree_map<uint64_t, std::pair<uint64_t, uint64_t>> mapped;  // from: to, handle
  };

  void PlanRanges(const SnapshotPast& past, size_t device);
  EventRow RowOf(const SnapshotEntry& entry, int device, uint64_t time_ns);
  // Appends PHYSICAL_CREATE and MAP for each part of a range.
  absl::Status AddMappings(const EventRow& like, std::vector<EventRow>* rows);
  // Of the definitions that were added since the last time; writes them where they are many.
  absl::Status SpendDefinitions();
  void AddUnmappings(const EventRow& like, std::vector<EventRow>* rows);
  absl::Status WriteTag(PickleValue dict, const EventRow& row);
  absl::Status WriteAll(const std::vector<EventRow>& rows);
  absl::Status WriteFree(const SnapshotPast& past, size_t i, EventRow row);
  absl::Status WriteOutOfMemory(const SnapshotEntry& entry, EventRow row);
  absl::Status WriteSegment(const SnapshotEntry& entry, EventRow row);

  const PickleTree& tree_;
  const TorchSnapshot& snapshot_;
  ImportMemory* memory_;
  TraceWriter* writer_;
  StackImporter* stacks_;
  std::vector<DeviceRanges> ranges_;
  std::vector<uint32_t> tags_;                        // by device: text of the tag in force
  std::optional<PickleValue> metadata_, compiled_;    // keys
  std::vector<absl::Span<const PickleValue>> dicts_;  // by device: what its entries were read from
  uint64_t last_handle_ = 0, spent_for_definitions_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_SNAPSHOT_EVENTS_H_
