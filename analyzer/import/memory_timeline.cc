// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/memory_timeline.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "import/json_source.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

// In the profiler's order, as category.h names them. "Detail of autograd" is what a backward pass makes on its way to a
// gradient.
constexpr std::array<absl::string_view, 8> kTimelineCategories = {
    "parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "temporary", ""};
constexpr size_t kNoCategory = kTimelineCategories.size() - 1;
constexpr size_t kColumns = kTimelineCategories.size() + 1;  // of a row of totals, the first of which is always 0
constexpr size_t kMostColumns = 64;
enum RawAction : int64_t { kPreexisting = 1, kCreate = 2, kNewVersion = 3, kDestroy = 4 };

// All numbers of the file: a first list, and all lists behind it, of which a row of totals is one level deeper.
struct TimelineNumbers {
  std::vector<int64_t> first;
  std::vector<int64_t> rest;
  size_t row_size = 0;  // of all rows; of raw events 4
  bool is_raw = false;
};

class TimelineHandler final : public JsonHandler {
 public:
  TimelineHandler(ByteSource* source, ImportMemory* memory) : JsonHandler(source), memory_(memory) {}

  TimelineNumbers numbers;

  bool null() override { return Wrong("holds something that is not a number"); }
  bool boolean(bool) override { return null(); }
  bool string(string_t&) override { return null(); }
  bool binary(binary_t&) override { return null(); }
  bool start_object(std::size_t) override { return null(); }
  bool key(string_t&) override { return null(); }
  bool end_object() override { return null(); }
  bool number_integer(number_integer_t value) override { return Number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return value > INT64_MAX ? Wrong("holds a number that is too large") : Number(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return std::abs(value) < 9e18 ? Number(static_cast<int64_t>(value)) : Wrong("holds a number that is too large");
  }
  bool start_array(std::size_t) override {
    Advance();
    if (++depth_ > 3 || (depth_ == 3 && lists_ != 2)) return Wrong("is nested otherwise than a memory timeline");
    if (depth_ == 2) ++lists_;
    row_ = 0;
    return true;
  }
  bool end_array() override {
    Advance();
    const bool ends_row = depth_ == 3 || (depth_ == 2 && lists_ > 1 && row_ != 0);
    --depth_;
    if (!ends_row) return true;
    numbers.is_raw |= depth_ == 1;
    if (numbers.row_size == 0) numbers.row_size = row_;
    if (row_ != numbers.row_size) return Wrong("has rows of different lengths");
    row_ = 0;
    return true;
  }

 private:
  bool Number(int64_t value) {
    Advance();
    if (depth_ < 2) return Wrong("is no memory timeline");
    // A vector that grows is there one and a half times meanwhile.
    if (!memory_->Spend(2 * sizeof(int64_t))) return false;
    ++row_;
    (lists_ == 1 ? numbers.first : numbers.rest).push_back(value);
    return true;
  }

  ImportMemory* memory_;
  size_t depth_ = 0, lists_ = 0, row_ = 0;
};

// Blocks without addresses: each gets one that no other has.
class TimelineImport {
 public:
  TimelineImport(TimelineNumbers numbers, TraceWriter::Sink sink)
      : numbers_(std::move(numbers)), writer_(std::move(sink)) {}

  absl::StatusOr<ImportResult> Run(const std::string& path);

 private:
  struct Block {
    uint64_t address, size;
  };
  // What is alive of one category: of raw events by size, of totals in the order of making.
  struct Live {
    absl::flat_hash_map<uint64_t, std::vector<Block>> by_size;
    std::vector<Block> all;
  };

  absl::Status CheckShape() const;
  std::vector<std::string> Notes() const;
  EventRow RowOf(bool allocates, size_t category, Block block);
  Block Make(uint64_t size);
  absl::Status Add(const EventRow& row) {
    return is_before_ ? (before_.push_back(row), absl::OkStatus()) : writer_.Add(row);
  }

  absl::Status WriteTotals();
  absl::Status Shrink(size_t category, uint64_t bytes);
  absl::Status WriteRaw();
  absl::Status Free(size_t category, uint64_t size);
  absl::Status WriteRawEvent(int64_t action, int64_t bytes, size_t category);

  size_t rows() const { return numbers_.row_size == 0 ? 0 : numbers_.rest.size() / numbers_.row_size; }
  const int64_t* row(size_t i) const { return numbers_.rest.data() + i * numbers_.row_size; }

  TimelineNumbers numbers_;
  TraceWriter writer_;
  std::array<Live, kMostColumns> live_;
  std::vector<EventRow> before_;
  uint64_t now_ns_ = 0, begin_ns_ = 0, unmatched_ = 0;
  uint64_t next_address_ = 0x700000000000;
  size_t old_category_ = kNoCategory;
  bool is_before_ = false, states_categories_ = true;
};

absl::Status TimelineImport::CheckShape() const {
  const bool is_right = numbers_.is_raw ? numbers_.row_size == 4 && numbers_.first.size() == 4
                                        : rows() == numbers_.first.size() && numbers_.row_size <= kMostColumns;
  if (is_right || (rows() == 0 && numbers_.first.empty())) return absl::OkStatus();
  return absl::DataLossError(
      "is a list of lists, but no memory timeline: that is [times, sizes by category], or raw events of four numbers. "
      "Write one with torch.profiler's export_memory_timeline");
}

std::vector<std::string> TimelineImport::Notes() const {
  std::vector<std::string> notes = {
      numbers_.is_raw
          ? "A memory timeline has no addresses: which block a free was of follows from sizes and categories. Totals "
            "and peaks are exact, lives of blocks are not, so what grows is not judged."
          : "A memory timeline has totals by category and no blocks: each rise is shown as a block. Totals and peaks "
            "are exact at its times, which are microseconds; numbers of blocks, sizes and lives mean nothing, so what "
            "grows is not judged.",
      "It has no stacks, no reserved memory and does not name its device, which may be the CPU: all is shown as "
      "GPU 0. What "
      "torch.profiler calls a detail of autograd is a temporary here."};
  if (!states_categories_)
    notes.push_back(absl::StrCat("Its rows have ", numbers_.row_size, " columns, not ", kColumns,
                                 ": which categories they are is not known."));
  return notes;
}

EventRow TimelineImport::RowOf(bool allocates, size_t category, Block block) {
  EventRow row;
  row.kind = allocates ? trace::ALLOC : trace::FREE;
  row.layer = trace::TORCH;
  row.time_ns = now_ns_;
  row.device = 0;
  row.address = block.address;
  row.size = block.size;
  const absl::string_view name =
      states_categories_ && category < kNoCategory ? kTimelineCategories[category] : "unknown";
  row.stack = writer_.definitions().Stack(0, StatedFrame(name, &writer_.definitions()));
  return row;
}

TimelineImport::Block TimelineImport::Make(uint64_t size) {
  return {std::exchange(next_address_, next_address_ + 512), size};
}

absl::Status TimelineImport::Shrink(size_t category, uint64_t bytes) {
  std::vector<Block>& blocks = live_[category].all;
  while (bytes != 0 && !blocks.empty()) {
    const Block block = blocks.back();
    blocks.pop_back();
    GPUMEM_RETURN_IF_ERROR(Add(RowOf(false, category, block)));
    const uint64_t taken = std::min(bytes, block.size);
    bytes -= taken;
    if (taken == block.size) continue;
    blocks.push_back(Make(block.size - taken));
    GPUMEM_RETURN_IF_ERROR(Add(RowOf(true, category, blocks.back())));
  }
  return absl::OkStatus();
}

// Times in microseconds; the first row is what was there, and what happened at that time.
absl::Status TimelineImport::WriteTotals() {
  std::vector<int64_t> before(numbers_.row_size, 0);
  const size_t first = states_categories_ ? 1 : 0;
  for (size_t i = 0; i < rows(); ++i) {
    now_ns_ =
        std::max(now_ns_, static_cast<uint64_t>(std::clamp<int64_t>(numbers_.first[i], 0, INT64_MAX / 1000)) * 1000);
    is_before_ = i == 0;
    for (size_t k = first; k < numbers_.row_size; ++k) {
      if (row(i)[k] < before[k])
        GPUMEM_RETURN_IF_ERROR(Shrink(k - first, static_cast<uint64_t>(before[k] - std::max<int64_t>(row(i)[k], 0))));
    }
    for (size_t k = first; k < numbers_.row_size; ++k) {
      const int64_t now = std::max<int64_t>(row(i)[k], 0);
      if (now > before[k]) {
        live_[k - first].all.push_back(Make(static_cast<uint64_t>(now - before[k])));
        GPUMEM_RETURN_IF_ERROR(Add(RowOf(true, k - first, live_[k - first].all.back())));
      }
      before[k] = now;
    }
    if (is_before_ && !before_.empty()) GPUMEM_RETURN_IF_ERROR(writer_.AddLiveSnapshot(before_, {}));
  }
  return absl::OkStatus();
}

absl::Status TimelineImport::Free(size_t category, uint64_t size) {
  const auto take = [&](size_t from) -> absl::Status {
    std::vector<Block>& blocks = live_[from].by_size[size];
    const Block block = blocks.back();
    blocks.pop_back();
    return Add(RowOf(false, from, block));
  };
  const auto has = [&](size_t from) {
    const auto found = live_[from].by_size.find(size);
    return found != live_[from].by_size.end() && !found->second.empty();
  };
  if (has(category)) return take(category);
  for (size_t other = 0; other < kTimelineCategories.size(); ++other) {
    if (has(other)) return take(other);
  }
  ++unmatched_;
  return absl::OkStatus();
}

// A new version of a tensor is the same memory, which may have become something else. It is stated by two events: less
// of its old category, then more of the new one.
absl::Status TimelineImport::WriteRawEvent(int64_t action, int64_t bytes, size_t category) {
  const uint64_t size = bytes < 0 ? uint64_t{0} - static_cast<uint64_t>(bytes) : static_cast<uint64_t>(bytes);
  if (action == kDestroy) return Free(category, size);
  if (action == kNewVersion && bytes < 0) {
    old_category_ = category;
    return absl::OkStatus();
  }
  if (action == kNewVersion) {
    const uint64_t unmatched = unmatched_;
    GPUMEM_RETURN_IF_ERROR(Free(std::exchange(old_category_, kNoCategory), size));
    if (unmatched != unmatched_) return absl::OkStatus();
  }
  live_[category].by_size[size].push_back(Make(size));
  return Add(RowOf(true, category, live_[category].by_size[size].back()));
}

absl::Status TimelineImport::WriteRaw() {
  // The first list is the first event.
  numbers_.rest.insert(numbers_.rest.begin(), numbers_.first.begin(), numbers_.first.end());
  for (const bool before : {true, false}) {
    is_before_ = before;
    for (size_t i = 0; i < rows(); ++i) {
      const int64_t time_ns = row(i)[0], action = row(i)[1], bytes = row(i)[2], category = row(i)[3];
      if ((time_ns < 0) != before) continue;
      if (action < kPreexisting || action > kDestroy || category < 0 || category > static_cast<int64_t>(kNoCategory) ||
          std::abs(bytes) > int64_t{1} << 50)
        return absl::DataLossError(absl::StrCat("event ", i + 1, " of the memory timeline is none: [", time_ns, ", ",
                                                action, ", ", bytes, ", ", category, "]"));
      now_ns_ = std::max(now_ns_, before ? begin_ns_ : static_cast<uint64_t>(time_ns));
      GPUMEM_RETURN_IF_ERROR(WriteRawEvent(action, bytes, static_cast<size_t>(category)));
    }
    if (before && !before_.empty()) GPUMEM_RETURN_IF_ERROR(writer_.AddLiveSnapshot(before_, {}));
  }
  return absl::OkStatus();
}

absl::StatusOr<ImportResult> TimelineImport::Run(const std::string& path) {
  GPUMEM_RETURN_IF_ERROR(CheckShape());
  states_categories_ = numbers_.is_raw || numbers_.row_size == kColumns;
  int64_t first = INT64_MAX;
  for (size_t i = 0; i < (numbers_.is_raw ? rows() : numbers_.first.size()); ++i) {
    const int64_t time = numbers_.is_raw ? row(i)[0] : numbers_.first[i];
    if (time >= 0) first = std::min(first, time);
  }
  if (numbers_.is_raw && numbers_.first[0] >= 0) first = std::min(first, numbers_.first[0]);
  const int64_t unit = numbers_.is_raw ? 1 : 1000;
  begin_ns_ = first > INT64_MAX / unit ? kMadeTimeNs : static_cast<uint64_t>(first * unit);
  ImportResult result;
  result.format = "torch.profiler memory timeline";
  result.covers = numbers_.first.empty() ? "nothing" : "window";
  result.devices = numbers_.first.empty() ? 0 : 1;
  result.has_stacks = result.has_failures = result.has_lives = false;
  result.has_categories = states_categories_;
  result.notes = Notes();
  trace::Header header = ImportHeader(path, result, "torch.profiler");
  header.set_anchor_monotonic_ns(begin_ns_);
  if (begin_ns_ > kYear2001Ns) header.set_anchor_realtime_ns(begin_ns_);
  GPUMEM_RETURN_IF_ERROR(writer_.Begin(std::move(header)));
  GPUMEM_RETURN_IF_ERROR(numbers_.is_raw ? WriteRaw() : WriteTotals());
  GPUMEM_RETURN_IF_ERROR(writer_.End());
  result.events = writer_.events();
  return result;
}

}  // namespace

bool IsMemoryTimeline(absl::string_view begin) {
  begin = absl::StripLeadingAsciiWhitespace(begin);
  return absl::ConsumePrefix(&begin, "[") && absl::StartsWith(absl::StripLeadingAsciiWhitespace(begin), "[");
}

absl::StatusOr<ImportResult> ImportMemoryTimeline(ByteSource* source, const std::string& path, TraceWriter::Sink sink) {
  ImportMemory memory = ImportMemory::OfProcess();
  TimelineHandler handler(source, &memory);
  const absl::Status parsed = handler.Parse("Is it what torch.profiler's export_memory_timeline wrote?");
  if (source->status().ok() && memory.is_over()) return memory.TooMuch();
  GPUMEM_RETURN_IF_ERROR(parsed);
  return TimelineImport(std::move(handler.numbers), std::move(sink)).Run(path);
}

}  // namespace gpumem
