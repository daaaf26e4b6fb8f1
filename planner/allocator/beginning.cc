// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/beginning.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "replay/state/batch_stream.h"

namespace gpumem::plan {
namespace {

constexpr uint64_t kMostSmall = 1 << 20;  // in one request for a small pool
constexpr uint64_t kSmallSegment = 2 << 20, kLargePage = 20 << 20;

// What a snapshot of live things says of PyTorch's allocator.
class Collector {
 public:
  void Take(const LiveSnapshotBatch& part) {
    std::vector<bool> is_torch(part.batch.count());
    for (const uint32_t event : part.torch_segments) {
      if (event < is_torch.size()) is_torch[event] = true;
    }
    for (size_t i = 0; i < part.batch.count(); ++i) Take(part.batch.Row(i), is_torch[i]);
  }

  std::vector<BeginningRange> Finish();

 private:
  void Take(const EventRow& row, bool is_torch);
  BeginningRange* RangeAt(uint64_t address);

  std::map<uint64_t, uint64_t> reserved_;  // from, to
  std::map<uint64_t, BeginningRange> ranges_;
  std::vector<EventRow> blocks_;
};

void Collector::Take(const EventRow& row, bool is_torch) {
  if (row.kind == trace::ALLOC && row.layer == trace::TORCH) {
    blocks_.push_back(row);
    return;
  }
  if (row.kind == trace::ADDRESS_RESERVE && is_torch) reserved_[row.address] = row.address + row.size;
  bool belongs = is_torch;
  if (const auto after = reserved_.upper_bound(row.address); !belongs && after != reserved_.begin())
    belongs = row.address < std::prev(after)->second;
  if (!belongs || (row.kind != trace::ALLOC && row.kind != trace::MAP)) return;
  BeginningRange range;
  range.device = std::max(row.device, 0);
  range.address = row.address;
  range.size = row.size;
  range.stream = row.stream;
  range.is_expandable = row.kind == trace::MAP;
  range.is_small = range.size == kSmallSegment;
  ranges_[row.address] = range;
}

BeginningRange* Collector::RangeAt(uint64_t address) {
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return nullptr;
  BeginningRange& range = std::prev(after)->second;
  return address < range.end() ? &range : nullptr;
}

std::vector<BeginningRange> Collector::Finish() {
  for (auto at = ranges_.begin(); at != ranges_.end();) {  // pages side by side are one range
    const auto next = std::next(at);
    const bool joins = next != ranges_.end() && at->second.is_expandable && next->second.is_expandable &&
                       at->second.end() == next->first && at->second.device == next->second.device;
    if (!joins) {
      at = next;
      continue;
    }
    at->second.size += next->second.size;
    ranges_.erase(next);
  }
  std::sort(blocks_.begin(), blocks_.end(), [](const EventRow& a, const EventRow& b) { return a.address < b.address; });
  for (const EventRow& block : blocks_) {
    BeginningRange* const range = RangeAt(block.address);
    if (range == nullptr || block.address + block.size > range->end()) continue;
    if (!range->blocks.empty() && range->blocks.back().address + range->blocks.back().size > block.address) continue;
    range->blocks.push_back({block.address, block.size});
    range->stream = block.stream;  // a mapping does not say
    if (block.handle != 0) range->pool = block.handle;
  }
  std::vector<BeginningRange> all;
  for (auto& [address, range] : ranges_) {
    if (range.is_expandable) {
      range.is_small = range.blocks.empty() ? range.size % kLargePage != 0
                                            : std::all_of(range.blocks.begin(), range.blocks.end(),
                                                          [](const auto& block) { return block.size <= kMostSmall; });
    }
    all.push_back(std::move(range));
  }
  return all;
}

class Writer {
 public:
  Writer(const absl::flat_hash_map<uint64_t, uint64_t>& blocks, const RequestNames& names, Numbers* numbers,
         const std::function<void(const Request&)>& write)
      : blocks_(blocks), names_(names), numbers_(numbers), write_(write) {}

  void Write(const std::vector<BeginningRange>& ranges) {
    std::vector<std::vector<uint64_t>> whole(ranges.size());
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].is_expandable) continue;
      write_({RequestKind::kPlace, static_cast<uint8_t>(ranges[i].device), 0, 0, 0, ranges[i].address});
      Fill(ranges[i], ranges[i].size, &whole[i]);
    }
    std::map<std::tuple<int, uint64_t, uint64_t, bool>, uint64_t> ends;  // of the range before
    for (size_t i = 0; i < ranges.size(); ++i) {
      const BeginningRange& range = ranges[i];
      Free(&whole[i]);
      if (range.is_expandable) {
        const auto [end, is_first] =
            ends.try_emplace({range.device, range.stream, range.pool, range.is_small}, range.address);
        if (!is_first) Fill(range, range.address - end->second, &gaps_);
        end->second = range.end();
      }
      FillRange(range);
    }
    if (!gaps_.empty()) {  // what lies between mapped ranges goes back to CUDA
      Free(&gaps_);
      write_({RequestKind::kEmptyCache});
    }
    Free(&fillers_);
    for (const uint64_t number : used_) numbers_->Return(number);
  }

 private:
  void Ask(const BeginningRange& range, uint64_t number, uint64_t size) {
    write_({RequestKind::kAlloc, static_cast<uint8_t>(range.device), names_.stream(range.stream),
            range.pool == 0 ? 0 : names_.pool(range.pool), number, size});
  }
  uint64_t AskFiller(const BeginningRange& range, uint64_t size) {
    const uint64_t number = numbers_->Take();
    used_.push_back(number);
    Ask(range, number, size);
    return number;
  }
  // Requests that stay in the pool of the range.
  void Fill(const BeginningRange& range, uint64_t size, std::vector<uint64_t>* to) {
    while (size != 0) {
      const uint64_t piece = range.is_small ? std::min(size, kMostSmall) : size;
      to->push_back(AskFiller(range, piece));
      size -= piece;
    }
  }
  void Free(std::vector<uint64_t>* numbers) {
    for (const uint64_t number : *numbers) write_({RequestKind::kFree, 0, 0, 0, number, 0});
    numbers->clear();
  }

  void FillRange(const BeginningRange& range) {
    uint64_t at = range.address;
    std::vector<std::pair<uint64_t, const BeginningBlock*>> later;  // a filler that holds the block's place
    for (size_t i = 0; i < range.blocks.size(); ++i) {
      const BeginningBlock& block = range.blocks[i];
      const uint64_t next = i + 1 < range.blocks.size() ? range.blocks[i + 1].address : range.end();
      const auto number = blocks_.find(block.address);
      if (number == blocks_.end()) continue;  // the range stays filled up to the next one
      Fill(range, block.address - at, &fillers_);
      at = block.address + block.size;
      // A filler for so small a hole would come from the small pool.
      if (const uint64_t hole = next - at; !range.is_small && hole != 0 && hole <= kMostSmall) {
        later.emplace_back(AskFiller(range, block.size + hole), &block);
        at = next;
      } else {
        Ask(range, number->second, block.size);
      }
    }
    Fill(range, range.end() - at, &fillers_);
    for (const auto& [filler, block] : later) {
      write_({RequestKind::kFree, 0, 0, 0, filler, 0});
      Ask(range, blocks_.at(block->address), block->size);
    }
  }

  const absl::flat_hash_map<uint64_t, uint64_t>& blocks_;
  const RequestNames& names_;
  Numbers* const numbers_;
  const std::function<void(const Request&)>& write_;
  std::vector<uint64_t> fillers_, gaps_, used_;
};

}  // namespace

std::vector<BeginningRange> BeginningOf(const std::vector<LiveSnapshotBatch>& snapshot) {
  Collector collector;
  for (const LiveSnapshotBatch& part : snapshot) collector.Take(part);
  return collector.Finish();
}

std::vector<BeginningRange> ReadBeginning(const std::string& path) {
  absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
  if (!reader.ok() || reader->Next() != ItemType::kHeader) return {};
  BatchStream stream(&*reader);
  return stream.Advance() ? BeginningOf(stream.entry().live_snapshot) : std::vector<BeginningRange>();
}

void WriteBeginning(const std::vector<BeginningRange>& ranges, const absl::flat_hash_map<uint64_t, uint64_t>& blocks,
                    const RequestNames& names, Numbers* numbers, const std::function<void(const Request&)>& write) {
  Writer(blocks, names, numbers, write).Write(ranges);
}

}  // namespace gpumem::plan
