// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/rmm_log.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "import/byte_source.h"
#include "import/import.h"

namespace gpumem {
namespace {

constexpr absl::string_view kHeading = "Thread,Time,Action,Pointer,Size,Stream";
constexpr size_t kLongestLine = 4096, kMostThreads = 65536;
constexpr uint64_t kSecond = 1000000000, kDay = 86400 * kSecond;
constexpr int kRmmOutOfMemory = 2;

// 11:06:24.000256, or with a colon before the fraction: nanoseconds of the day.
std::optional<uint64_t> TimeOf(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::ByAnyChar(":."));
  uint32_t hours = 0, minutes = 0, seconds = 0;
  if (parts.size() < 3 || parts.size() > 4 || !absl::SimpleAtoi(parts[0], &hours) ||
      !absl::SimpleAtoi(parts[1], &minutes) || !absl::SimpleAtoi(parts[2], &seconds) || hours > 23 || minutes > 59 ||
      seconds > 60)
    return std::nullopt;
  uint64_t fraction = 0;
  if (parts.size() == 4) {
    const std::string digits(absl::StrCat(parts[3], "000000000").substr(0, 9));
    if (!absl::SimpleAtoi(digits, &fraction)) return std::nullopt;
  }
  return ((uint64_t{hours} * 60 + minutes) * 60 + seconds) * kSecond + fraction;
}

bool HexOf(absl::string_view text, uint64_t* value) {
  *value = 0;
  if (text == "(nil)" || text == "default") return true;
  return absl::SimpleHexAtoi(text, value);
}

// Shows each line of a file to `take`, until it fails.
absl::Status ForEachLine(const std::string& path, const std::function<absl::Status(absl::string_view)>& take) {
  GPUMEM_ASSIGN_OR_RETURN(ByteSource source, ByteSource::Open(path));
  std::string rest;
  uint64_t lines = 0;
  for (absl::string_view piece = source.Next(); !piece.empty(); piece = source.Next()) {
    for (size_t end = piece.find('\n'); end != absl::string_view::npos; end = piece.find('\n')) {
      absl::string_view line = piece.substr(0, end);
      if (!rest.empty()) line = rest.append(line.data(), line.size());
      GPUMEM_RETURN_IF_ERROR(take(line));
      rest.clear();
      ++lines;
      piece.remove_prefix(end + 1);
    }
    if (rest.size() + piece.size() > kLongestLine) {
      return absl::DataLossError(
          absl::StrCat("line ", lines + 1, " is longer than ", kLongestLine, " bytes. Is it RMM's log?"));
    }
    rest.append(piece.data(), piece.size());
  }
  GPUMEM_RETURN_IF_ERROR(source.status());
  return take(rest);
}

// Twice through the file: the header comes first and says how many lines could not be read.
class RmmImport {
 public:
  explicit RmmImport(TraceWriter::Sink sink) : writer_(std::move(sink)) {}

  absl::StatusOr<ImportResult> Run(const std::string& path);

 private:
  std::optional<EventRow> RowOf(absl::string_view line);
  absl::Status TakeLine(absl::string_view line, bool writes);
  uint32_t ThreadOf(absl::string_view name);

  TraceWriter writer_;
  absl::flat_hash_map<std::string, uint32_t> threads_;
  uint64_t days_ = 0, last_ns_ = 0, lines_ = 0, odd_lines_ = 0;
};

// 0, which is none, beyond the most that are told apart.
uint32_t RmmImport::ThreadOf(absl::string_view name) {
  if (threads_.size() >= kMostThreads && !threads_.contains(name)) return 0;
  const auto [it, is_new] = threads_.try_emplace(std::string(name), static_cast<uint32_t>(threads_.size() + 1));
  if (is_new) {
    trace::Thread* const thread = writer_.definitions().pending()->add_threads();
    thread->set_id(it->second);
    uint32_t tid = 0;
    if (absl::SimpleAtoi(name, &tid)) thread->set_tid(tid);
  }
  return it->second;
}

std::optional<EventRow> RmmImport::RowOf(absl::string_view line) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  if (fields.size() != 6) return std::nullopt;
  const std::optional<uint64_t> time = TimeOf(fields[1]);
  EventRow row;
  if (!time || !HexOf(fields[3], &row.address) || !absl::SimpleAtoi(fields[4], &row.size) ||
      !HexOf(fields[5], &row.stream))
    return std::nullopt;
  row.layer = trace::RUNTIME;
  row.device = 0;
  row.thread = ThreadOf(fields[0]);
  if (fields[2] == "allocate") {
    row.kind = trace::ALLOC;
  } else if (fields[2] == "free" || fields[2] == "deallocate") {
    row.kind = trace::FREE;
  } else if (fields[2] == "allocate failure") {
    row.kind = trace::ALLOC_FAILED;
    row.address = 0;
    row.result = kRmmOutOfMemory;
  } else {
    return std::nullopt;
  }
  row.api = writer_.definitions().String(row.kind == trace::FREE ? "rmm deallocate" : "rmm allocate");
  if (days_ * kDay + *time + kDay / 2 < last_ns_) ++days_;  // midnight
  row.time_ns = last_ns_ = std::max(last_ns_, days_ * kDay + *time);
  return row;
}

absl::Status RmmImport::TakeLine(absl::string_view line, bool writes) {
  line = absl::StripAsciiWhitespace(line);
  if (line.empty() || line == kHeading) return absl::OkStatus();
  const std::optional<EventRow> row = RowOf(line);
  if (writes) return row ? writer_.Add(*row) : absl::OkStatus();
  ++lines_;
  odd_lines_ += row ? 0 : 1;
  return absl::OkStatus();
}

absl::StatusOr<ImportResult> RmmImport::Run(const std::string& path) {
  GPUMEM_RETURN_IF_ERROR(ForEachLine(path, [&](absl::string_view line) { return TakeLine(line, /*writes=*/false); }));
  if (lines_ == odd_lines_ && lines_ != 0)
    return absl::DataLossError("no line is an allocation or a free of RMM. Record with rmm.reinitialize(logging=True)");
  ImportResult result;
  result.format = "RMM log";
  result.devices = 1;
  result.covers = "run";
  result.has_stacks = false;
  result.notes.push_back(
      "The log names no device: all is shown as GPU 0. It has no stacks and no date, and knows only what was allocated "
      "through RMM.");
  if (odd_lines_ != 0) {
    result.notes.push_back(absl::StrCat(FormatCountOf(odd_lines_, "line", "lines"), " that could not be read ",
                                        odd_lines_ == 1 ? "was" : "were", " passed over, so numbers may be off."));
  }
  GPUMEM_RETURN_IF_ERROR(writer_.Begin(ImportHeader(path, result, "RMM")));
  days_ = last_ns_ = 0;
  GPUMEM_RETURN_IF_ERROR(ForEachLine(path, [&](absl::string_view line) { return TakeLine(line, /*writes=*/true); }));
  GPUMEM_RETURN_IF_ERROR(writer_.End());
  result.events = writer_.events();
  return result;
}

}  // namespace

bool IsRmmLog(absl::string_view begin) { return absl::StartsWith(begin, kHeading); }

absl::StatusOr<ImportResult> ImportRmmLog(const std::string& path, TraceWriter::Sink sink) {
  return RmmImport(std::move(sink)).Run(path);
}

}  // namespace gpumem
