// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportInfo: that a trace was made by `gpumemshim import` from what another program recorded, and of what. It is kept
// in Header.settings under names of its own, so that readers which know nothing of imports show it as settings. Plain
// values; a header without them is not an import.
//
//   StoreImportInfo({"PyTorch snapshot", "PyTorch", "run.pickle", notes, "moment"}, header.mutable_settings());
//   if (const ImportInfo from = ImportInfoOf(process.settings); from.any()) Print(from.source);

#ifndef GPUMEM_ANALYZER_TRACE_IMPORT_INFO_H_
#define GPUMEM_ANALYZER_TRACE_IMPORT_INFO_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpumem/trace.pb.h"

namespace gpumem {

// A torch block whose memory was freed before can be used again: other streams had it in use until now. Layer TORCH;
// only in imports, and only where that is later than its FREE. See trace.proto, EventKind.
inline constexpr auto kTorchFreeCompleted = static_cast<trace::EventKind>(51);

// What PyTorch's allocator has reserved on the device from now on (size), by its own total, where its segments are not
// known. Layer 0; only in imports. See trace.proto, EventKind.
inline constexpr auto kTorchReserved = static_cast<trace::EventKind>(56);
inline constexpr char kTorchReservedName[] = "KIND_56";  // in counts by kind

// EventRow::duration_ns of a torch block's FREE in an import: its memory can be used again only later, where a
// kTorchFreeCompleted says so; until then another stream has it in use.
inline constexpr uint32_t kTorchFreedLater = UINT32_MAX;

struct ImportInfo {
  std::string format, recorder,
      source;                      // "PyTorch snapshot", "PyTorch", the file's name; format "" = it is not an import
  std::vector<std::string> notes;  // what the source lacks and what was derived, one sentence each
  std::string covers = "window";   // "nothing", "moment", "window", "run" (ledger/load/ground.h)
  bool has_times = true;           // false: times only keep the order
  bool has_stacks = true;          // false: nobody recorded any
  bool has_failures = true;        // a request that failed would be in it
  bool has_categories = false;     // the source states them
  bool has_lives = true;           // false: which block a free is of was made up, so that totals are right

  bool any() const { return !format.empty(); }
};

// A native frame that is none: "<category activation>" innermost says what the source states of the memory, or
// "<category unknown>" that nobody can know.
inline constexpr char kStatedCategory[] = "<category ";

inline constexpr char kImportPrefix[] = "imported_";
inline constexpr uint64_t kMadeTimeNs = 1000;  // between events whose times are not known

inline ImportInfo ImportInfoOf(const std::map<std::string, std::string>& settings) {
  ImportInfo info;
  const auto text = [&settings](const std::string& name) {
    const auto found = settings.find(kImportPrefix + name);
    return found == settings.end() ? std::string() : found->second;
  };
  info.format = text("format");
  info.recorder = text("by");
  info.source = text("from");
  info.covers = text("covers");
  info.has_times = text("times") != "none";
  info.has_stacks = text("stacks") != "none";
  info.has_failures = text("failures") != "none";
  info.has_categories = text("categories") == "stated";
  info.has_lives = text("lives") != "none";
  for (size_t i = 1; settings.contains(kImportPrefix + ("note_" + std::to_string(i))); ++i)
    info.notes.push_back(text("note_" + std::to_string(i)));
  return info;
}

inline void StoreImportInfo(const ImportInfo& info, google::protobuf::Map<std::string, std::string>* settings) {
  const auto set = [settings](const std::string& name, const std::string& value) {
    (*settings)[kImportPrefix + name] = value;
  };
  set("format", info.format);
  set("by", info.recorder);
  set("from", info.source);
  set("covers", info.covers);
  if (!info.has_times) set("times", "none");
  if (!info.has_stacks) set("stacks", "none");
  if (!info.has_failures) set("failures", "none");
  if (info.has_categories) set("categories", "stated");
  if (!info.has_lives) set("lives", "none");
  for (size_t i = 0; i < info.notes.size(); ++i) set("note_" + std::to_string(i + 1), info.notes[i]);
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_IMPORT_INFO_H_
