// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/import.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "import/byte_source.h"
#include "import/pickle_reader.h"
#include "import/profiler_trace.h"
#include "import/rmm_log.h"
#include "import/torch_import.h"
#include "trace/import_info.h"
#include "trace/write/definition_builder.h"

namespace gpumem {
namespace {

ImportFormat FormatOf(ByteSource* source) {
  const absl::string_view begin = source->Peek();
  if (absl::StrContains(begin.substr(0, 16), "\x0dGMT1")) return ImportFormat::kNone;  // a trace of ours
  if (BeginsLikePickle(begin)) return ImportFormat::kTorchSnapshot;
  if (IsRmmLog(begin)) return ImportFormat::kRmmLog;
  return IsJson(begin) ? ImportFormat::kProfilerTrace : ImportFormat::kNone;
}

absl::StatusOr<ImportResult> ImportPickle(const std::string& path, ByteSource* source, TraceWriter::Sink sink,
                                          const ImportProgress& progress) {
  ImportMemory memory = ImportMemory::OfProcess();
  PickleLimits limits;
  limits.most_bytes = memory.all() / 8 * 5;  // a list that grows is there one and a half times meanwhile
  limits.too_much = memory.TooMuch();
  GPUMEM_ASSIGN_OR_RETURN(const PickleTree tree, ReadPickle(source, limits, progress));
  if (!memory.Spend(tree.spent())) return memory.TooMuch();
  return ImportTorchSnapshot(tree, source->unpacked_bytes(), path, &memory, std::move(sink));
}

absl::StatusOr<ImportResult> ImportFrom(const std::string& path, ByteSource* source, TraceWriter::Sink sink,
                                        const ImportProgress& progress) {
  switch (FormatOf(source)) {
    case ImportFormat::kTorchSnapshot:
      return ImportPickle(path, source, std::move(sink), progress);
    case ImportFormat::kRmmLog:
      return ImportRmmLog(path, std::move(sink));
    case ImportFormat::kProfilerTrace:
      return ImportProfilerTrace(source, path, std::move(sink));
    case ImportFormat::kNone:
      break;
  }
  // It may be so damaged that it could not be told what it is.
  while (source->is_compressed() && !source->Next().empty()) continue;
  GPUMEM_RETURN_IF_ERROR(source->status());
  return absl::DataLossError(
      "is nothing that can be imported. Known are PyTorch's memory snapshots (.pickle), "
      "RMM's logs (.csv) and torch.profiler's traces (.json)");
}

}  // namespace

ImportFormat FormatOf(const std::string& path) {
  absl::StatusOr<ByteSource> source = ByteSource::Open(path);
  return source.ok() ? FormatOf(&*source) : ImportFormat::kNone;
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
  for (const absl::string_view ending : {".pickle", ".pkl", ".csv", ".json"}) {
    if (absl::ConsumeSuffix(&name, ending)) break;
  }
  header.set_writer_version(GPUMEM_VERSION);
  header.set_program(ValidText(name.empty() ? absl::string_view(file) : name));
  StoreImportInfo({result.format, std::string(recorder), ValidText(file), result.notes, result.covers, result.has_times,
                   result.has_stacks, result.has_failures},
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

}  // namespace gpumem
