// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/import.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "import/byte_source.h"
#include "import/device_memory_profile.h"
#include "import/line_log.h"
#include "import/memory_timeline.h"
#include "import/nsys_report.h"
#include "import/pickle_reader.h"
#include "import/profiler_trace.h"
#include "import/snapshot_files.h"
#include "import/torch_import.h"
#include "import/xprof_memory.h"
#include "import/xspace_profile.h"
#include "trace/import_info.h"
#include "trace/write/definition_builder.h"

namespace gpumem {
namespace {

absl::StatusOr<PickleTree> ReadSnapshot(ByteSource* source, const PickleLimits& limits, ImportMemory* memory,
                                        const ImportProgress& progress) {
  const absl::string_view begin = source->Peek();
  if (BeginsLikePickle(begin)) return ReadPickle(source, limits, progress);
  return IsSnapshotPage(begin) ? ReadSnapshotPage(source, limits, memory, progress) : ReadSnapshotJson(source, limits);
}

absl::StatusOr<ImportResult> ImportSnapshot(const std::string& path, ByteSource* source, TraceWriter::Sink sink,
                                            const ImportProgress& progress) {
  ImportMemory memory = ImportMemory::OfProcess();
  PickleLimits limits;
  limits.most_bytes = memory.all() / 8 * 5;  // a list that grows is there one and a half times meanwhile
  limits.too_much = memory.TooMuch();
  GPUMEM_ASSIGN_OR_RETURN(const PickleTree tree, ReadSnapshot(source, limits, &memory, progress));
  if (!memory.Spend(tree.spent())) return memory.TooMuch();
  return ImportTorchSnapshot(tree, source->unpacked_bytes(), path, &memory, std::move(sink));
}

// What one kind of file needs: its name, its bytes from the beginning on, where the trace goes.
struct Importing {
  const std::string& path;
  ByteSource* source;
  TraceWriter::Sink sink;
  const ImportProgress& progress;
};

bool Holds(absl::string_view begin, absl::string_view what) { return absl::StrContains(begin, what); }

bool BeginsWith(absl::string_view begin, absl::string_view what) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(begin), what);
}

bool IsTar(absl::string_view begin) { return begin.size() > 262 && begin.substr(257, 5) == "ustar"; }

bool IsUtf16(absl::string_view begin) {
  return absl::StartsWith(begin, "\xff\xfe") || absl::StartsWith(begin, "\xfe\xff");
}

// What a server sends instead of a file.
bool IsWebPage(absl::string_view begin) {
  for (const absl::string_view sign : {"<!DOCTYPE", "<!doctype", "<html", "<HTML", "<?xml", "404: Not Found"}) {
    if (BeginsWith(begin, sign)) return true;
  }
  return false;
}

// Of a page.
bool HasWord(absl::string_view begin, absl::string_view word) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(begin), "<") && absl::StrContains(begin, word);
}

struct ImportKind {
  bool (*begins)(absl::string_view begin);  // with the first bytes, unpacked
  absl::StatusOr<ImportResult> (*import)(Importing file);
  absl::string_view words = "";    // one of which is in the first bytes, where other files begin so, too
  absl::string_view instead = "";  // of what cannot be imported: what it is, and what to do
};

// The first that fits counts.
constexpr ImportKind kKinds[] = {
    {BeginsLikePickle,
     [](Importing file) { return ImportSnapshot(file.path, file.source, std::move(file.sink), file.progress); },
     "segments total_size device_traces"},
    {[](absl::string_view begin) { return IsSnapshotPage(begin) || IsSnapshotJson(begin); },
     [](Importing file) { return ImportSnapshot(file.path, file.source, std::move(file.sink), file.progress); }},
    {IsLineLog, [](Importing file) { return ImportLineLog(file.path, std::move(file.sink)); }},
    {IsMemoryTimeline,
     [](Importing file) { return ImportMemoryTimeline(file.source, file.path, std::move(file.sink)); }},
    {IsDeviceMemoryProfile,
     [](Importing file) { return ImportDeviceMemoryProfile(file.source, file.path, std::move(file.sink)); }},
    {IsXSpace, [](Importing file) { return ImportXSpace(file.source, file.path, std::move(file.sink)); }},
    {IsSqlite, [](Importing file) { return ImportNsysReport(file.path, std::move(file.sink)); }},
    {IsXprofMemory, [](Importing file) { return ImportXprofMemory(file.source, file.path, std::move(file.sink)); }},
    {[](absl::string_view begin) { return BeginsWith(begin, "{") && Holds(begin, "\"allocated_bytes.all."); }, nullptr,
     "",
     "has PyTorch's memory_stats(): totals of one moment. A snapshot is what torch.cuda.memory._dump_snapshot() "
     "writes"},
    {IsJson, [](Importing file) { return ImportProfilerTrace(file.source, file.path, std::move(file.sink)); },
     "traceEvents schemaVersion"},
    {[](absl::string_view begin) { return HasWord(begin, "GPU Memory Timeline HTML"); }, nullptr, "",
     "is the picture of a memory timeline, which has no numbers in it. torch.profiler writes them with "
     "export_memory_timeline(\"timeline.json\")"},
    {[](absl::string_view begin) { return HasWord(begin, "MemoryViz"); }, nullptr, "",
     "is a page of PyTorch's memory_viz without a snapshot in it. Take the pickle that was shown in it"},
    {[](absl::string_view begin) { return absl::StartsWith(begin, "\x89PNG"); }, nullptr, "",
     "is a picture. Take the file that it was drawn from"},
    {[](absl::string_view begin) { return absl::StartsWith(begin, "PK\x03\x04"); }, nullptr, "",
     "is a zip archive, as torch.save writes checkpoints. A memory snapshot is what "
     "torch.cuda.memory._dump_snapshot() writes; where the archive has files in it that others recorded, unpack it"},
    {[](absl::string_view begin) { return BeginsWith(begin, "version https://git-lfs.github.com/"); }, nullptr, "",
     "is a pointer of Git LFS, not the file itself. Fetch that with `git lfs pull`"},
    {IsWebPage, nullptr, "",
     "is a web page or a server's answer, not a file that a program recorded. Download the file itself"},
    {IsTar, nullptr, "", "is a tar archive. Unpack it, and give its files or their folder"},
    {[](absl::string_view begin) { return absl::StartsWith(begin, "\x1f\x8b"); }, nullptr, "",
     "is gzipped twice. Unpack it once"},
    {[](absl::string_view begin) {
       return absl::StartsWith(begin, "BZh") ||
              absl::StartsWith(begin, absl::string_view("\xfd"
                                                        "7zXZ\0",
                                                        6)) ||
              absl::StartsWith(begin, "\x28\xb5\x2f\xfd");
     },
     nullptr, "", "is compressed by bzip2, xz or zstd. Unpack it; gzip alone is read as it is"},
    {IsUtf16, nullptr, "", "is text in UTF-16, as a redirection in PowerShell writes it. Save it in UTF-8"},
    {[](absl::string_view begin) { return absl::StartsWith(begin, absl::string_view("memray\0", 7)); }, nullptr, "",
     "is a recording of memray, which has memory of the host alone. Record memory of GPUs: gpumemshim run -- COMMAND"},
    {[](absl::string_view begin) { return Holds(begin, "NVIDIA-SMI ") || Holds(begin, "memory.used [MiB]"); }, nullptr,
     "",
     "is what nvidia-smi says: how much whole processes use at times, and no allocation. Record the program: "
     "gpumemshim run -- COMMAND"},
    {[](absl::string_view begin) { return Holds(begin, "PyTorch CUDA memory summary"); }, nullptr, "",
     "is a table of PyTorch's memory_summary(): totals of one moment. A snapshot is what "
     "torch.cuda.memory._dump_snapshot() writes"},
    {[](absl::string_view begin) { return Holds(begin, "CUDA out of memory. Tried to allocate"); }, nullptr, "",
     "is a log with an error of PyTorch in it, not a recording. Record the program: gpumemshim run -- COMMAND, then "
     "gpumemshim oom"},
};

const ImportKind* KindOf(ByteSource* source) {
  absl::string_view begin = source->Peek();
  absl::ConsumePrefix(&begin, "\xef\xbb\xbf");                             // of UTF-8, as editors on Windows write it
  if (absl::StrContains(begin.substr(0, 16), "\x0dGMT1")) return nullptr;  // a trace of ours
  const auto fits = [begin](const ImportKind& kind) { return kind.begins(begin); };
  const auto* const found = std::find_if(std::begin(kKinds), std::end(kKinds), fits);
  return found == std::end(kKinds) ? nullptr : found;
}

absl::StatusOr<ImportResult> ImportFrom(const std::string& path, ByteSource* source, TraceWriter::Sink sink,
                                        const ImportProgress& progress) {
  if (const ImportKind* const kind = KindOf(source); kind != nullptr) {
    if (kind->import == nullptr) return absl::DataLossError(kind->instead);
    return kind->import({path, source, std::move(sink), progress});
  }
  // It may be so damaged that it could not be told what it is.
  while (source->is_compressed() && !source->Next().empty()) continue;
  GPUMEM_RETURN_IF_ERROR(source->status());
  return absl::DataLossError(
      "is nothing that can be imported. docs/commands/import.md has the kinds of file, and who writes them");
}

}  // namespace

bool IsOfOthers(const std::string& path) {
  absl::StatusOr<ByteSource> source = ByteSource::Open(path);
  return source.ok() && KindOf(&*source) != nullptr;
}

bool IsSurelyOfOthers(const std::string& path) {
  absl::StatusOr<ByteSource> source = ByteSource::Open(path);
  const ImportKind* const kind = source.ok() ? KindOf(&*source) : nullptr;
  if (kind == nullptr || kind->import == nullptr || kind->words.empty())
    return kind != nullptr && kind->import != nullptr;
  const absl::string_view begin = source->Peek();
  return absl::c_any_of(absl::StrSplit(kind->words, ' '),
                        [begin](absl::string_view word) { return absl::StrContains(begin, word); });
}

absl::StatusOr<ImportResult> ImportFile(const std::string& path, TraceWriter::Sink sink,
                                        const ImportProgress& progress) {
  GPUMEM_ASSIGN_OR_RETURN(ByteSource source, ByteSource::Open(path));
  absl::StatusOr<ImportResult> result = ImportFrom(path, &source, std::move(sink), progress);
  if (absl::IsDataLoss(result.status()))
    return absl::DataLossError(absl::StrCat(path, ": ", result.status().message()));
  return result;
}

trace::Header ImportHeader(const std::string& path, const ImportResult& result, absl::string_view recorder) {
  trace::Header header;
  const std::string file = path.substr(path.rfind('/') + 1);
  absl::string_view name = file;
  absl::ConsumeSuffix(&name, ".gz");
  for (const absl::string_view ending :
       {".pickle", ".pkl", ".csv", ".json", ".prof", ".pb", ".sqlite", ".html", ".txt"}) {
    if (absl::ConsumeSuffix(&name, ending)) break;
  }
  header.set_writer_version(GPUMEM_VERSION);
  header.set_program(ValidText(name.empty() ? absl::string_view(file) : name));
  StoreImportInfo({result.format, std::string(recorder), ValidText(file), result.notes, result.covers, result.has_times,
                   result.has_stacks, result.has_failures, result.has_categories, result.has_lives},
                  header.mutable_settings());
  return header;
}

namespace {

constexpr uint64_t kLeast = uint64_t{64} << 20;
constexpr uint64_t kMost = uint64_t{1} << 50;

}  // namespace

ImportMemory ImportMemory::OfProcess() {
  const char* const text = std::getenv("GPUMEMSHIM_IMPORT_MEMORY");
  const std::optional<uint64_t> bytes = text == nullptr ? std::nullopt : ParseBytes(text);
  return ImportMemory(bytes ? std::clamp(*bytes, kLeast, kMost) : kDefault);
}

absl::Status ImportMemory::TooMuch() const {
  return absl::DataLossError(absl::StrCat("importing it would take over ", FormatBytes(all_),
                                          " of memory. If you know where the file comes from, allow more: set "
                                          "GPUMEMSHIM_IMPORT_MEMORY=",
                                          all_ >> 20 << 2, "MiB"));
}

absl::StatusOr<std::string> ReadWhole(ByteSource* source, uint64_t memory_per_byte, ImportMemory* memory) {
  std::string bytes;
  for (absl::string_view piece = source->Next(); !piece.empty(); piece = source->Next()) {
    if (!memory->Spend(memory_per_byte * piece.size())) return memory->TooMuch();
    bytes.append(piece.data(), piece.size());
  }
  GPUMEM_RETURN_IF_ERROR(source->status());
  return bytes;
}

uint32_t StatedFrame(absl::string_view category, DefinitionBuilder* definitions) {
  return definitions->NativeFrame("", absl::StrCat(kStatedCategory, category, ">"), 0);
}

}  // namespace gpumem
