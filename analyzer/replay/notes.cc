// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/notes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

// "1 block", "3 blocks".
std::string CountOf(uint64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string WhyNotKnown(const ExistingAtStart& start) {
  if (!start.answered) return "the program has not told it";
  switch (start.result) {
    case trace::EXISTING_NO_TORCH:
      return "PyTorch was not there to be asked";
    case trace::EXISTING_NO_SNAPSHOT:
      return "this allocator of PyTorch has no snapshot";
    case trace::EXISTING_NOT_ASKED:
      return "nothing may run in the program's Python";
    default:
      return "PyTorch's snapshot is of an unknown form";
  }
}

// Memory from before the first late start.
std::string NoteOnLateStart(const std::vector<ExistingAtStart>& starts) {
  constexpr absl::string_view kBegan = "Recording began when the program was under way";
  if (starts.empty() || !starts[0].known) {
    return absl::StrCat(kBegan, ": memory from before is in no number but PyTorch's own totals (",
                        starts.empty() ? "the program has not told it" : WhyNotKnown(starts[0]),
                        "), and its frees are those of unknown memory.");
  }
  std::string note = absl::StrCat(kBegan, ". What PyTorch's allocator held then is known from its own snapshot (",
                                  CountOf(starts[0].blocks, "block"), ", ", FormatBytes(starts[0].allocated_bytes),
                                  ", in ", FormatBytes(starts[0].reserved_bytes),
                                  " of segments), without stacks; other memory from before is not.");
  if (starts[0].lost != 0) {
    absl::StrAppend(&note, " ", CountOf(starts[0].lost, "entry"), " of the snapshot ",
                    starts[0].lost == 1 ? "was" : "were", " lost, so allocated and reserved are too low.");
  }
  return note;
}

// What recording only part of the time means for the numbers.
std::string NoteOnSpans(const MarkLog& marks, const std::vector<ExistingAtStart>& starts) {
  if (!marks.was_switched()) return "";
  std::string note;
  if (marks.began_late()) note = NoteOnLateStart(starts);
  if (marks.spans().size() > 1) {
    const bool all_known = !starts.empty() && std::all_of(starts.begin(), starts.end(),
                                                          [](const ExistingAtStart& start) { return start.known; });
    absl::StrAppend(&note, note.empty() ? "" : " ", "Recording was switched off in between (",
                    CountOf(marks.spans().size(), "span"), "): ",
                    all_known ? "what PyTorch's allocator held when it went on is known, without stacks; other memory "
                                "that was freed meanwhile still counts as live."
                              : "what was allocated then is not known, and what was freed then still counts as live, "
                                "in peaks and leaks too.");
  } else if (!marks.began_late()) {
    note = "Recording was switched off before the end: what was not freed until then need not be a leak.";
  }
  return note;
}

std::string NoteOnUnseen(const UnseenCalls& calls) {
  constexpr absl::string_view kGone = " None of it is in this trace; how much that is shows as not explained.";
  std::string functions = absl::StrJoin(calls.functions, ", ");
  if (calls.function_count > calls.functions.size())
    absl::StrAppend(&functions, " and ", calls.function_count - calls.functions.size(), " more");
  switch (calls.cause) {
    case UnseenCalls::Cause::kBoundPast:
      return absl::StrCat(calls.object, " calls CUDA past the recorder (", functions,
                          "): it was loaded with RTLD_DEEPBIND, or after a late start.", kGone);
    case UnseenCalls::Cause::kLookedUpPast:
      return absl::StrCat(calls.object,
                          " found the driver past the recorder, so its calls are not seen: it was loaded ",
                          "with RTLD_DEEPBIND, or after a late start.", kGone);
    case UnseenCalls::Cause::kOtherNamespace:
      return absl::StrCat("A namespace of dlmopen has a driver of its own (", calls.object,
                          "), and what is called in there is not seen.", kGone);
    case UnseenCalls::Cause::kSecondDriver:
      return absl::StrCat("A second driver is loaded (", calls.object, "), and calls that reach it are not seen.",
                          kGone);
    case UnseenCalls::Cause::kUnknown:
      break;
  }
  return absl::StrCat("Calls of CUDA from ", calls.object, " are not seen.", kGone);
}

void AddNotesOnProcess(const Analysis& analysis, std::vector<std::string>* notes) {
  const auto loaded = analysis.process.settings.find("loaded_by");
  if (loaded != analysis.process.settings.end()) {
    notes->push_back(
        absl::StrCat("Loaded by ", loaded->second,
                     ": libraries loaded after CUDA's start, and function pointers kept on the heap, are not seen. "
                     "LD_PRELOAD sees them."));
    if (analysis.events.torch == 0 && analysis.process.versions.count("torch") != 0)
      notes->push_back("PyTorch's own events need LD_PRELOAD here: what CUDA handed out to it counts as other.");
  }
  const auto refused = analysis.process.versions.find("python_frames");
  if (refused != analysis.process.versions.end()) {
    notes->push_back(absl::StrCat("Stacks lack Python frames: ", refused->second, "."));
  }
  const auto failed = analysis.process.versions.find("python_helper");
  if (failed != analysis.process.versions.end()) {
    notes->push_back(absl::StrCat("Looking at the program's objects failed: ", failed->second,
                                  ". Names of modules, parameters and steps may be missing."));
  }
}

void AddRefusedFrees(const Accounts& accounts, std::vector<std::string>* notes) {
  uint64_t refused = 0, refused_unknown = 0;
  for (const DeviceAccount& device : accounts.devices) {
    refused += device.refused_frees;
    refused_unknown += device.refused_unknown_frees;
  }
  if (refused == 0) return;
  notes->push_back(absl::StrCat(CountOf(refused, "free"), " failed: CUDA refused ", refused == 1 ? "it" : "them", ", ",
                                refused_unknown,
                                " of memory that was freed before (a double free) or never allocated."));
}

}  // namespace

std::vector<std::string> NotesOn(const Accounts& accounts, const Analysis& analysis) {
  const ImportInfo imported = ImportInfoOf(analysis.process.settings);
  std::vector<std::string> notes = imported.notes;
  AddNotesOnProcess(analysis, &notes);
  if (imported.recorder == "PyTorch" || imported.recorder == "torch.profiler") {
    notes.push_back(
        "PyTorch's history is of its own allocator: memory of NCCL, cuBLAS and others, of the CUDA context, and what "
        "else runs on the GPU is in no number.");
  }
  for (const UnseenCalls& calls : analysis.losses.unseen) notes.push_back(NoteOnUnseen(calls));
  if (std::string note = NoteOnSpans(analysis.marks, analysis.existing); !note.empty())
    notes.push_back(std::move(note));
  if (analysis.events.torch > 0 && !imported.any()) {
    notes.push_back(
        "PyTorch reports no pool and no deferred free: pools are inferred from the segments, and a block freed while "
        "another stream still "
        "uses it (record_stream) counts as free at once, so free ranges may be overstated.");
  }
  if (accounts.managed_peak > 0) {
    notes.push_back(absl::StrCat("Managed memory (peak ", accounts.managed_peak,
                                 " bytes) migrates between host and device and is in no device's total."));
  }
  if (accounts.imported_peak > 0) {
    notes.push_back(
        absl::StrCat("Memory imported from other owners (peak ", accounts.imported_peak, " bytes) is in no total."));
  }
  if (accounts.implicit_frees > 0) {
    notes.push_back(absl::StrCat(
        CountOf(accounts.implicit_frees, "allocation"),
        " came at an address that was still in use here: the free before was not recorded and is assumed."));
  }
  if (accounts.lost_block_frees > 0) {
    notes.push_back(absl::StrCat(CountOf(accounts.lost_block_frees, "PyTorch block"),
                                 " went with the segment around; their own frees were not recorded."));
  }
  if (accounts.blocks_without_segment > 0 && imported.recorder != "torch.profiler") {
    notes.push_back(absl::StrCat(CountOf(accounts.blocks_without_segment, "PyTorch block"),
                                 " lay in memory whose CUDA allocation was not recorded, so reserved is too low."));
  }
  if (accounts.unknown_maps > 0) {
    notes.push_back(
        absl::StrCat(CountOf(accounts.unknown_maps, "mapping"),
                     " used physical memory whose creation was not recorded; counted from the mapping on."));
  }
  if (accounts.size_mismatches > 0) {
    notes.push_back(absl::StrCat(CountOf(accounts.size_mismatches, "free"),
                                 " of PyTorch stated another size than the allocation."));
  }
  if (accounts.failed_calls > 0) {
    notes.push_back(absl::StrCat(CountOf(accounts.failed_calls, "allocation call"),
                                 " failed for another reason than missing memory."));
  }
  AddRefusedFrees(accounts, &notes);
  if (accounts.devices[0].unknown_frees > 0) {
    notes.push_back(absl::StrCat(CountOf(accounts.devices[0].unknown_frees, "free"),
                                 " named memory that this trace never saw allocated, on no known device."));
  }
  return notes;
}

}  // namespace gpumem
