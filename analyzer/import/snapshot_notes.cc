// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/snapshot_notes.h"

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "import/import_header.h"
#include "trace/valid_text.h"

namespace gpumem {
namespace {

// What was there when the history began.
std::string NoteOnBeginning(const TorchSnapshot& snapshot, const std::vector<SnapshotPast>& pasts) {
  uint64_t blocks = 0, allocated = 0, segments = 0, reserved = 0;
  for (const SnapshotPast& past : pasts) {
    for (const auto& [address, block] : past.blocks()) {
      blocks += block.is_pending ? 0 : 1;
      allocated += block.is_pending ? 0 : block.size;
    }
    for (const auto& [address, segment] : past.segments()) reserved += segment.size;
    for (const auto& [from, to] : past.mapped()) reserved += to - from;
    segments += past.segments().size() + past.mapped().size();
  }
  const std::string held = absl::StrCat(FormatCountOf(blocks, "block", "blocks"), ", ", FormatBytes(allocated), ", in ",
                                        FormatCountOf(segments, "segment", "segments"), " of ", FormatBytes(reserved));
  if (!snapshot.has_traces) {
    return absl::StrCat(
        "The snapshot has no history: it shows one moment, with ", held,
        ". For a history, call torch.cuda.memory._record_memory_history() before the program allocates.");
  }
  if (segments == 0) return "";
  return absl::StrCat("The history begins with ", held,
                      ", as follows from the segments at its end. What was freed before, and peaks from before, are in "
                      "no number. PyTorch keeps the last max_entries entries: older ones are gone.");
}

}  // namespace

std::vector<std::string> SnapshotNotes(const TorchSnapshot& snapshot, const std::vector<SnapshotPast>& pasts) {
  std::vector<std::string> notes;
  if (std::string note = NoteOnBeginning(snapshot, pasts); !note.empty()) notes.push_back(std::move(note));
  uint64_t contradictions = 0, odd_sizes = 0;
  std::string first;
  for (const SnapshotPast& past : pasts) {
    if (contradictions == 0) first = past.first_contradiction();
    contradictions += past.contradictions();
    odd_sizes += past.odd_sizes();
  }
  if (contradictions != 0) {
    notes.push_back(absl::StrCat(
        FormatCountOf(contradictions, "entry", "entries"), " of the history ",
        contradictions == 1 ? "contradicts" : "contradict",
        " the segments at its end, so the memory from before the history is uncertain. First: ", first, "."));
  }
  if (odd_sizes != 0) {
    notes.push_back(absl::StrCat(FormatCountOf(odd_sizes, "block has", "blocks have"),
                                 " another size than the allocator's rules give; the snapshot's is used. Sizes of "
                                 "blocks that were freed before its end may be off by up to 1 MiB each."));
  }
  if (snapshot.has_traces && !snapshot.has_times)
    notes.push_back("The snapshot has no times (PyTorch before 2.2): events keep their order, and times mean nothing.");
  if (!snapshot.has_stacks) {
    notes.push_back(
        "The snapshot has no stacks: record with torch.cuda.memory._record_memory_history(context=\"all\") to see who "
        "allocates.");
  }
  if (snapshot.unknown_actions != 0) {
    notes.push_back(absl::StrCat(FormatCountOf(snapshot.unknown_actions, "entry", "entries"),
                                 " of the history of a kind that this version does not know ",
                                 snapshot.unknown_actions == 1 ? "was" : "were", " left out."));
  }
  if (snapshot.host_entries != 0) {
    notes.push_back(absl::StrCat(FormatCountOf(snapshot.host_entries, "entry", "entries"), " on pinned host memory ",
                                 snapshot.host_entries == 1 ? "was" : "were", " left out."));
  }
  return notes;
}

trace::Header SnapshotHeader(const TorchSnapshot& snapshot, const std::string& path, uint64_t begin_ns,
                             const ImportResult& result) {
  trace::Header header = ImportHeader(path, result, "PyTorch", snapshot.has_times);
  header.set_anchor_monotonic_ns(begin_ns);
  if (snapshot.has_times) header.set_anchor_realtime_ns(begin_ns);
  if (!snapshot.conf.empty()) (*header.mutable_environment())["PYTORCH_CUDA_ALLOC_CONF"] = ValidText(snapshot.conf);
  for (const auto& [setting, value] : snapshot.settings)
    header.mutable_settings()->insert({ValidText(setting), ValidText(value)});  // what says that it is an import stays
  return header;
}

}  // namespace gpumem
