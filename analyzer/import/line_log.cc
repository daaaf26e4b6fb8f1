// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/line_log.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "import/byte_source.h"
#include "import/import.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

constexpr absl::string_view kHeading = "Thread,Time,Action,Pointer,Size,Stream";
constexpr size_t kLongestLine = 4096, kMostThreads = 65536;
constexpr uint64_t kSecond = 1000000000, kDay = 86400 * kSecond;
constexpr int kOutOfMemory = 2;            // cudaErrorMemoryAllocation
constexpr uint64_t kMostBlocks = 4000000;  // without an address, alive at once
constexpr uint64_t kNoTime = UINT64_MAX;

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
          absl::StrCat("line ", lines + 1, " is longer than ", kLongestLine, " bytes. Is it a log of RMM or CuPy?"));
    }
    rest.append(piece.data(), piece.size());
  }
  GPUMEM_RETURN_IF_ERROR(source.status());
  return take(rest);
}

enum class LineKind : uint8_t { kEvent, kOther, kOdd };  // kOther: belongs to the log, and says nothing of memory

// What a line says.
struct LogLine {
  EventRow row;
  absl::string_view thread;
  uint64_t time_ns = kNoTime;  // of the day
  bool has_address = true;     // false: allocations have none
  std::string api;
};

LineKind ReadRmmCsv(absl::string_view line, LogLine* to) {
  if (line == kHeading) return LineKind::kOther;
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  if (fields.size() != 6) return LineKind::kOdd;
  const std::optional<uint64_t> time = TimeOf(fields[1]);
  EventRow& row = to->row;
  if (!time || !HexOf(fields[3], &row.address) || !absl::SimpleAtoi(fields[4], &row.size) ||
      !HexOf(fields[5], &row.stream))
    return LineKind::kOdd;
  to->time_ns = *time;
  to->thread = fields[0];
  if (fields[2] == "allocate") {
    row.kind = trace::ALLOC;
  } else if (fields[2] == "free" || fields[2] == "deallocate") {
    row.kind = trace::FREE;
  } else if (fields[2] == "allocate failure") {
    row.kind = trace::ALLOC_FAILED;
    row.address = 0;
  } else {
    return LineKind::kOdd;
  }
  to->api = row.kind == trace::FREE ? "rmm deallocate" : "rmm allocate";
  return LineKind::kEvent;
}

// "[a] [b][c]" as a, b, c; none where it is anything else.
std::vector<absl::string_view> Brackets(absl::string_view line) {
  std::vector<absl::string_view> parts;
  while (!(line = absl::StripLeadingAsciiWhitespace(line)).empty()) {
    const size_t end = line.find(']');
    if (line[0] != '[' || end == absl::string_view::npos) return parts;
    parts.push_back(absl::StripAsciiWhitespace(line.substr(1, end - 1)));
    line.remove_prefix(end + 1);
  }
  return parts;
}

// "1048576B", "Upstream 1048576B".
bool BytesOf(absl::string_view text, uint64_t* bytes) {
  absl::ConsumePrefix(&text, "Upstream ");
  return absl::ConsumeSuffix(&text, "B") && absl::SimpleAtoi(text, bytes);
}

LineKind ReadRmmDebug(absl::string_view line, LogLine* to) {
  const std::vector<absl::string_view> parts = Brackets(line);
  const auto found =
      std::find_if(parts.begin(), parts.end(), [](absl::string_view part) { return part == "A" || part == "D"; });
  if (parts.end() - found < 3) return LineKind::kOther;
  EventRow& row = to->row;
  absl::string_view stream = found[1];
  if (!absl::ConsumePrefix(&stream, "Stream ")) absl::ConsumePrefix(&stream, "stream ");
  if (!HexOf(stream, &row.stream)) row.stream = 0;  // by a name: "per-thread"
  if (!BytesOf(found[2], &row.size)) return LineKind::kOther;
  if (parts.size() > 2 && found - parts.begin() >= 2) {
    to->thread = parts[0];
    to->time_ns = TimeOf(parts[1]).value_or(kNoTime);
  }
  const absl::string_view last = parts.back();
  to->has_address = absl::StartsWith(last, "0x") && HexOf(last, &row.address);
  if (*found == "D") {
    row.kind = trace::FREE;
    to->api = "rmm deallocate";
  } else if (absl::StartsWith(last, "FAILURE")) {
    row.kind = trace::ALLOC_FAILED;
    to->api = absl::StrCat("rmm allocate (", absl::StripAsciiWhitespace(last.substr(7)), ")");
  } else if (!absl::StartsWith(found[2], "Upstream") && (found + 3 == parts.end() || to->has_address)) {
    row.kind = trace::ALLOC;
    to->api = "rmm allocate";
  } else {
    return LineKind::kOther;
  }
  return LineKind::kEvent;
}

// Before and after its events stands whatever else the program prints.
LineKind ReadCupy(absl::string_view line, LogLine* to) {
  if (!absl::StartsWith(line, "{\"hook\":")) return LineKind::kOther;
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return LineKind::kOdd;
  const auto number = [&json](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
  };
  const auto hook = json.find("hook");
  if (!hook->is_string() || number("device_id") >= kMostGpus) return LineKind::kOdd;
  if (*hook == "alloc") return LineKind::kOther;  // the pool's own, of which arrays get parts
  if (*hook != "malloc" && *hook != "free") return LineKind::kOdd;
  EventRow& row = to->row;
  row.kind = *hook == "free" ? trace::FREE : trace::ALLOC;
  row.device = static_cast<int>(number("device_id"));
  row.address = number("mem_ptr");
  row.size = number("mem_size");
  row.requested_size = number("size");
  if (row.kind == trace::ALLOC && row.address == 0) row.kind = trace::ALLOC_FAILED;
  to->api = row.kind == trace::FREE ? "cupy free" : "cupy malloc";
  return LineKind::kEvent;
}

struct LogKind {
  absl::string_view format, recorder;
  LineKind (*read)(absl::string_view line, LogLine* to);
  absl::string_view record;  // how to make one
  absl::string_view note;
};

constexpr LogKind kRmmCsv = {"RMM log", "RMM", ReadRmmCsv, "Record with rmm.reinitialize(logging=True)",
                             "The log has no stacks and no date, and knows only what was allocated through RMM."};
constexpr LogKind kRmmDebug = {
    "RMM debug log", "RMM", ReadRmmDebug, "Set RMM_DEBUG_LOG_FILE",
    "RMM's debug log has no stacks and no date, and knows only what was allocated through RMM: failures always, "
    "allocations and frees only where RMM was built to log at the level trace."};
constexpr LogKind kCupy = {
    "CuPy log", "CuPy", ReadCupy, "Record with cupy.cuda.memory_hooks.DebugPrintHook",
    "CuPy's DebugPrintHook states no times, no threads and no stacks, and knows only what arrays got from CuPy's pool, "
    "not what the pool holds beyond it."};

const LogKind* LogKindOf(absl::string_view begin) {
  if (absl::StartsWith(begin, kHeading)) return &kRmmCsv;
  const bool begins_line = absl::StartsWith(begin, "[");
  if (absl::StrContains(begin, "RMM LOG BEGIN") ||
      (begins_line && absl::StrContains(begin, "[A][") &&
       (absl::StrContains(begin, "[stream ") || absl::StrContains(begin, "[Stream "))))
    return &kRmmDebug;
  if (absl::StartsWith(begin, "{\"hook\":") || absl::StrContains(begin, "\n{\"hook\":\"")) return &kCupy;
  return nullptr;
}

// "rmm_log.dev1.csv" is of device 1.
int DeviceNamedIn(const std::string& path) {
  for (const absl::string_view part : absl::StrSplit(path.substr(path.rfind('/') + 1), '.')) {
    absl::string_view number = part;
    uint32_t device = 0;
    if (absl::ConsumePrefix(&number, "dev") && absl::SimpleAtoi(number, &device) && device < kMostGpus)
      return static_cast<int>(device);
  }
  return -1;
}

// Twice through the file: the header comes first and says how many lines could not be read.
class LineLogImport {
 public:
  LineLogImport(const LogKind* kind, const std::string& path, TraceWriter::Sink sink)
      : kind_(kind), path_(path), named_device_(DeviceNamedIn(path)), writer_(std::move(sink)) {}

  absl::StatusOr<ImportResult> Run();

 private:
  absl::Status TakeLine(absl::string_view text, bool writes);
  absl::Status Count(const LogLine& line);
  absl::Status Write(LogLine line);
  bool GiveAddress(EventRow* row);
  std::vector<std::string> Notes() const;
  uint32_t ThreadOf(absl::string_view name);

  const LogKind* kind_;
  const std::string& path_;
  const int named_device_;
  TraceWriter writer_;
  absl::flat_hash_map<std::string, uint32_t> threads_;
  std::map<uint64_t, std::vector<uint64_t>> without_address_;  // addresses that were made, by size
  std::set<int> devices_;
  uint64_t next_address_ = 0x700000000000, blocks_ = 0;
  uint64_t days_ = 0, last_ns_ = 0, lines_ = 0, odd_lines_ = 0;
  bool has_times_ = true, has_addresses_ = false;
};

// 0, which is none, beyond the most that are told apart.
uint32_t LineLogImport::ThreadOf(absl::string_view name) {
  if (name.empty() || (threads_.size() >= kMostThreads && !threads_.contains(name))) return 0;
  const auto [it, is_new] = threads_.try_emplace(std::string(name), 0);
  uint32_t tid = 0;
  if (is_new) it->second = writer_.definitions().Thread(absl::SimpleAtoi(name, &tid) ? tid : 0);
  return it->second;
}

absl::Status LineLogImport::Count(const LogLine& line) {
  has_addresses_ |= line.row.kind == trace::ALLOC && line.has_address;
  has_times_ &= line.time_ns != kNoTime;
  devices_.insert(line.row.device);
  return absl::OkStatus();
}

// False where it frees what was never allocated.
bool LineLogImport::GiveAddress(EventRow* row) {
  if (row->kind == trace::ALLOC_FAILED) return true;
  std::vector<uint64_t>& alive = without_address_[row->size];
  if (row->kind == trace::ALLOC) {
    if (++blocks_ > kMostBlocks) return false;
    row->address = std::exchange(next_address_, next_address_ + (row->size / 512 + 1) * 512);
    alive.push_back(row->address);
    return true;
  }
  if (alive.empty()) return false;
  --blocks_;
  row->address = alive.back();
  alive.pop_back();
  return true;
}

absl::Status LineLogImport::Write(LogLine line) {
  EventRow& row = line.row;
  // A request is followed by what it got, where the log has that.
  if (has_addresses_ && row.kind == trace::ALLOC && !line.has_address) return absl::OkStatus();
  if (!has_addresses_ && !GiveAddress(&row)) return absl::OkStatus();
  row.layer = trace::RUNTIME;
  row.result = row.kind == trace::ALLOC_FAILED ? kOutOfMemory : 0;
  row.thread = ThreadOf(line.thread);
  row.api = writer_.definitions().String(line.api);
  if (!has_times_) {
    row.time_ns = last_ns_ += kMadeTimeNs;
  } else {
    if (days_ * kDay + line.time_ns + kDay / 2 < last_ns_) ++days_;  // midnight
    row.time_ns = last_ns_ = std::max(last_ns_, days_ * kDay + line.time_ns);
  }
  return writer_.Add(row);
}

absl::Status LineLogImport::TakeLine(absl::string_view text, bool writes) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) return absl::OkStatus();
  LogLine line;
  line.row.device = std::max(named_device_, 0);
  const LineKind kind = kind_->read(text, &line);
  if (kind == LineKind::kEvent && writes) return Write(std::move(line));
  if (kind == LineKind::kEvent) GPUMEM_RETURN_IF_ERROR(Count(line));
  lines_ += kind == LineKind::kEvent ? 1 : 0;
  odd_lines_ += kind == LineKind::kOdd ? 1 : 0;
  return absl::OkStatus();
}

std::vector<std::string> LineLogImport::Notes() const {
  std::vector<std::string> notes = {std::string(kind_->note)};
  if (kind_ == &kRmmDebug && !has_addresses_)
    notes.push_back("Its allocations have no address: frees are matched by size.");
  if (kind_ != &kCupy && named_device_ < 0) notes.push_back("It names no device: all is shown as GPU 0.");
  if (odd_lines_ != 0) {
    notes.push_back(absl::StrCat(FormatCountOf(odd_lines_, "line", "lines"), " that could not be read ",
                                 odd_lines_ == 1 ? "was" : "were", " passed over, so numbers may be off."));
  }
  return notes;
}

absl::StatusOr<ImportResult> LineLogImport::Run() {
  GPUMEM_RETURN_IF_ERROR(ForEachLine(path_, [&](absl::string_view line) { return TakeLine(line, /*writes=*/false); }));
  if (lines_ == 0 && odd_lines_ != 0)
    return absl::DataLossError(
        absl::StrCat("no line is an allocation or a free of ", kind_->recorder, ". ", kind_->record));
  if (lines_ == 0 && kind_ == &kRmmDebug) {
    return absl::DataLossError(
        "is RMM's debug log, but states no allocation and no failure. Allocations are in it where RMM was built to log "
        "at the level trace; or record with rmm.reinitialize(logging=True)");
  }
  ImportResult result;
  result.format = std::string(kind_->format);
  result.devices = static_cast<uint32_t>(devices_.size());
  result.covers = lines_ == 0 ? "nothing" : kind_ == &kRmmCsv ? "run" : "window";
  result.has_stacks = false;
  result.has_times = has_times_;
  result.has_lives = kind_ != &kRmmDebug || has_addresses_;
  result.notes = Notes();
  GPUMEM_RETURN_IF_ERROR(writer_.Begin(ImportHeader(path_, result, kind_->recorder)));
  GPUMEM_RETURN_IF_ERROR(ForEachLine(path_, [&](absl::string_view line) { return TakeLine(line, /*writes=*/true); }));
  GPUMEM_RETURN_IF_ERROR(writer_.End());
  result.events = writer_.events();
  return result;
}

}  // namespace

bool IsLineLog(absl::string_view begin) { return LogKindOf(begin) != nullptr; }

absl::StatusOr<ImportResult> ImportLineLog(const std::string& path, TraceWriter::Sink sink) {
  GPUMEM_ASSIGN_OR_RETURN(ByteSource source, ByteSource::Open(path));
  const LogKind* const kind = LogKindOf(source.Peek());
  if (kind == nullptr) return absl::DataLossError("is no log of RMM or CuPy");
  return LineLogImport(kind, path, std::move(sink)).Run();
}

}  // namespace gpumem
