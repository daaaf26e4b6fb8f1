// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/saved/moment_index.h"

#include <algorithm>
#include <array>
#include <utility>

#include "trace/event_batch.h"
#include "trace/wire.h"

namespace gpumem {
namespace {

void Put(uint64_t value, std::string* bytes) {
  for (; value >= 0x80; value >>= 7) bytes->push_back(static_cast<char>(value | 0x80));
  bytes->push_back(static_cast<char>(value));
}

// A difference of either sign: 0, -1, 1, -2 as 0, 1, 2, 3.
void PutDifference(uint64_t value, uint64_t from, std::string* bytes) {
  const uint64_t difference = value - from;
  Put((difference << 1) ^ (0 - (difference >> 63)), bytes);
}

// Numbers of a chunk, one after the other.
class Numbers {
 public:
  explicit Numbers(absl::string_view bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}
  bool done() const { return at_ == end_; }
  bool ok() const { return ok_; }
  uint64_t Next() {
    uint64_t value = 0;
    if (!ok_ || !ReadVarint(&at_, end_, &value)) {
      ok_ = false;
      at_ = end_;
    }
    return value;
  }
  uint64_t NextFrom(uint64_t from) { return from + static_cast<uint64_t>(ZigZagDecode(Next())); }

 private:
  const char* at_;
  const char* end_;
  bool ok_ = true;
};

// What Totals tells, in the order of a chunk; `allocated` is not of it.
std::array<uint64_t*, 5> PartsOf(MomentTotals* totals) {
  return {&totals->values.reserved, &totals->values.other, &totals->values.total, &totals->context, &totals->graphs};
}

// The last chunk whose `from` is not beyond `event`; null where there is none.
const MomentChunk* ChunkAt(const std::vector<MomentChunk>& chunks, uint64_t event) {
  const auto behind = std::upper_bound(chunks.begin(), chunks.end(), event,
                                       [](uint64_t asked, const MomentChunk& chunk) { return asked < chunk.from; });
  return behind == chunks.begin() ? nullptr : &*std::prev(behind);
}

}  // namespace

void MomentIndexWriter::Close(Open* open, std::vector<MomentChunk>* chunks) {
  if (open->count == 0) return;
  chunks->push_back({open->from, open->to, file_->Append(open->bytes)});
  *open = {};
}

void MomentIndexWriter::Happened(uint64_t index, uint64_t latest_ns) {
  is_complete_ &= index == data_.events;
  ++data_.events;
  if (times_.count == 0) times_.from = index;
  Put(latest_ns - times_.last, &times_.bytes);
  times_.to = times_.last = latest_ns;
  if (++times_.count == kChunk) Close(&times_, &data_.times);
}

void MomentIndexWriter::Marked(uint64_t index, uint64_t time_ns, uint32_t text) {
  is_complete_ &= data_.marks.size() < kMostMarks;
  if (is_complete_) data_.marks.push_back({index, time_ns, text});
}

void MomentIndexWriter::Totals(uint64_t index, const MomentTotals& totals) {
  if (totals_.count == 0) {
    totals_.from = index;
    last_totals_ = {};
  }
  Put(index - totals_.last, &totals_.bytes);
  MomentTotals now = totals;
  const auto parts = PartsOf(&now), before = PartsOf(&last_totals_);
  for (size_t i = 0; i < parts.size(); ++i) PutDifference(*parts[i], *before[i], &totals_.bytes);
  last_totals_ = now;
  totals_.to = totals_.last = index;
  if (++totals_.count == kChunk) Close(&totals_, &data_.totals);
}

void MomentIndexWriter::Lived(uint64_t born, uint64_t end, const AttributedUse& use) {
  if (born >= end) return;
  const auto [it, is_new] = numbers_.try_emplace(KeyOf(use), static_cast<uint32_t>(data_.uses.size()));
  if (is_new) data_.uses.push_back(use);
  if (lives_.count == 0) lives_.from = born;
  PutDifference(end, lives_.last, &lives_.bytes);
  Put(end - born, &lives_.bytes);
  Put(it->second, &lives_.bytes);
  Put(use.bytes, &lives_.bytes);
  Put(use.tensor_bytes, &lives_.bytes);
  Put(use.count, &lives_.bytes);
  lives_.last = end;
  lives_.from = std::min(lives_.from, born);
  lives_.to = std::max(lives_.to, end);
  if (++lives_.count == kChunk) Close(&lives_, &data_.lives);
}

void MomentIndexWriter::Ended(bool is_exact, const std::function<void(AttributedUse*)>& classify) {
  Close(&times_, &data_.times);
  Close(&totals_, &data_.totals);
  Close(&lives_, &data_.lives);
  for (AttributedUse& use : data_.uses) {
    classify(&use);
    use.bytes = use.tensor_bytes = use.count = use.smallest = use.largest = 0;
  }
  data_.is_exact = is_exact && is_complete_;
}

std::optional<std::vector<uint64_t>> MomentIndex::Times(const MomentChunk& chunk) const {
  const std::optional<std::string> bytes = file_->Block(chunk.block);
  if (!bytes) return std::nullopt;
  std::vector<uint64_t> times;
  Numbers numbers(*bytes);
  for (uint64_t time = 0; !numbers.done();) times.push_back(time += numbers.Next());
  if (!numbers.ok() || times.empty()) return std::nullopt;
  return times;
}

std::optional<uint64_t> MomentIndex::EventAt(uint64_t time_ns) const {
  // The first chunk that ends later.
  const auto chunk = std::upper_bound(data_->times.begin(), data_->times.end(), time_ns,
                                      [](uint64_t asked, const MomentChunk& each) { return asked < each.to; });
  if (chunk == data_->times.end()) return data_->events == 0 ? std::nullopt : std::optional(data_->events - 1);
  const auto times = Times(*chunk);
  if (!times) return std::nullopt;
  const auto behind = static_cast<uint64_t>(std::upper_bound(times->begin(), times->end(), time_ns) - times->begin());
  if (chunk->from + behind == 0) return std::nullopt;
  return chunk->from + behind - 1;
}

std::optional<uint64_t> MomentIndex::TimeOf(uint64_t event) const {
  const MomentChunk* const chunk = ChunkAt(data_->times, event);
  if (chunk == nullptr) return std::nullopt;
  const auto times = Times(*chunk);
  if (!times || event - chunk->from >= times->size()) return std::nullopt;
  return (*times)[event - chunk->from];
}

std::optional<MomentTotals> MomentIndex::TotalsAt(uint64_t event) const {
  MomentTotals totals, next;
  const MomentChunk* const chunk = ChunkAt(data_->totals, event);
  if (chunk == nullptr) return totals;
  const std::optional<std::string> bytes = file_->Block(chunk->block);
  if (!bytes) return std::nullopt;
  Numbers numbers(*bytes);
  for (uint64_t index = 0; !numbers.done();) {
    index += numbers.Next();
    for (uint64_t* const part : PartsOf(&next)) *part = numbers.NextFrom(*part);
    if (index > event) break;
    totals = next;
  }
  if (!numbers.ok()) return std::nullopt;
  return totals;
}

bool MomentIndex::Fill(Moment* moment) const {
  const uint64_t event = moment->event_index;
  std::optional<MomentTotals> totals = TotalsAt(event);
  if (!totals) return false;
  UseSums sums;
  CategoryBytes categories{};
  for (const MomentChunk& chunk : data_->lives) {
    if (chunk.from > event || chunk.to <= event) continue;
    const std::optional<std::string> bytes = file_->Block(chunk.block);
    if (!bytes) return false;
    Numbers numbers(*bytes);
    for (uint64_t end = 0; !numbers.done();) {
      end = numbers.NextFrom(end);
      const uint64_t born = end - numbers.Next(), number = numbers.Next();
      const uint64_t size = numbers.Next(), tensor_bytes = numbers.Next(), count = numbers.Next();
      if (!numbers.ok() || number >= data_->uses.size()) return false;
      if (born > event || end <= event) continue;
      AttributedUse use = data_->uses[number];
      use.bytes = size;
      use.tensor_bytes = tensor_bytes;
      use.count = count;
      sums.Add(use);
      categories[Index(use.category)] += size;
      if (use.layer == trace::TORCH) totals->values.allocated += size;
    }
  }
  moment->values = totals->values;
  moment->categories = WithTotals(categories, *totals);
  sums.Fill(nullptr, moment);
  return true;
}

}  // namespace gpumem
