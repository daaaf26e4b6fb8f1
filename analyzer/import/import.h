// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Import: a trace from what others recorded: the table in import.cc names the kinds of file. Which kind a file is is
// known by its content, not its name; gzip is unpacked on the way. The file is data: nothing in it is run.
//
// Thread-safe. Errors as FileWindow::Open's, and DataLoss, with the file's name, where it is nothing that is known, or
// damaged, or of a kind that has no memory in it: what it is, what is wrong, where, and what to do.
//
//   GPUMEM_ASSIGN_OR_RETURN(const ImportResult result, ImportFile("snapshot.pickle", sink, progress));

#ifndef GPUMEM_ANALYZER_IMPORT_IMPORT_H_
#define GPUMEM_ANALYZER_IMPORT_IMPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpumem/trace.pb.h"
#include "import/byte_source.h"
#include "trace/write/definition_builder.h"
#include "trace/write/trace_writer.h"

namespace gpumem {

struct ImportResult {
  std::string format;  // Import.format
  uint64_t events = 0;
  uint32_t devices = 0;
  std::vector<std::string> notes;  // Import.notes
  // ImportInfo's.
  std::string covers = "window";
  bool has_times = true, has_stacks = true, has_failures = true, has_categories = false, has_lives = true;
};

using ImportProgress = std::function<void(uint64_t done, uint64_t all)>;

// Whether the file is of a kind that ImportFile knows, be it to say why it cannot be read. False for traces, for
// whatever else it is, and where it cannot be opened.
bool IsOfOthers(const std::string& path);
// The same, but only where nothing else begins so: pickles and JSON are many things. For whoever looks into a folder.
bool IsSurelyOfOthers(const std::string& path);

absl::StatusOr<ImportResult> ImportFile(const std::string& path, TraceWriter::Sink sink,
                                        const ImportProgress& progress = nullptr);

// What every import has: how its trace begins, and how much memory it may take.

inline constexpr int kMostGpus = 1024;  // numbers of devices are below it
// Times of a smaller number are of a clock that nobody knows, not since 1970.
inline constexpr uint64_t kYear2001Ns = 1'000'000'000'000'000'000;

// ImportHeader: how every imported trace begins: it says that it is one, of what, and what that lacks. Pure.
//
//   trace::Header header = ImportHeader("runs/snapshot.pickle", result, "PyTorch");

// The program's name is the file's, without its endings. `result` gives format, notes and what there is.
trace::Header ImportHeader(const std::string& path, const ImportResult& result, absl::string_view recorder);

// ImportMemory: how much memory one import may take, and what it has taken. Whoever keeps something of the file's size
// spends for it first, by the most that its container may take; who may not spend stops, with TooMuch's error. 1 GiB
// unless $GPUMEMSHIM_IMPORT_MEMORY says otherwise ("4GiB"). Plain values; each import has one of its own.
//
//   ImportMemory memory = ImportMemory::OfProcess();
//   if (!memory.Spend(entries * sizeof(Entry))) return memory.TooMuch();
class ImportMemory {
 public:
  static constexpr uint64_t kDefault = uint64_t{1} << 30;

  // Of `all`, an eighth is left to what is not counted: the program itself, buffers, rests between blocks.
  explicit ImportMemory(uint64_t all = kDefault) : all_(all), left_(all / 8 * 7) {}
  static ImportMemory OfProcess();

  bool Spend(uint64_t bytes) {
    if (bytes > left_) return !(is_over_ = true);
    left_ -= bytes;
    return true;
  }
  uint64_t left() const { return left_; }
  uint64_t all() const { return all_; }
  bool is_over() const { return is_over_; }

  // DataLoss: how much was allowed, and how to allow more.
  absl::Status TooMuch() const;

 private:
  uint64_t all_, left_;
  bool is_over_ = false;
};

// All bytes of a source, for formats that are read whole; `memory` is spent by so many bytes for each of them.
absl::StatusOr<std::string> ReadWhole(ByteSource* source, uint64_t memory_per_byte, ImportMemory* memory);

// Frame.id of the innermost frame that states a category (kStatedCategory).
uint32_t StatedFrame(absl::string_view category, DefinitionBuilder* definitions);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_IMPORT_H_
