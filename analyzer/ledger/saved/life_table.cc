// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/saved/life_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "replay/state/accounts.h"
#include "trace/wire.h"

namespace gpumem {
namespace {

void Put(uint64_t value, std::string* bytes) {
  for (; value >= 0x80; value >>= 7) bytes->push_back(static_cast<char>(value | 0x80));
  bytes->push_back(static_cast<char>(value));
}

// A difference of either sign: 0, -1, 1, -2 as 0, 1, 2, 3.
uint64_t ZigZag(uint64_t difference) { return (difference << 1) ^ (0 - (difference >> 63)); }

void PutDifference(uint64_t value, uint64_t from, std::string* bytes) { Put(ZigZag(value - from), bytes); }

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

constexpr size_t kTotals = 6;
constexpr uint64_t kMostSlots = kMaxDevices + 1;  // more is damage

std::array<uint64_t*, kTotals> PartsOf(MomentTotals* totals) {
  return {&totals->values.allocated, &totals->values.reserved, &totals->values.other,
          &totals->values.total,     &totals->context,         &totals->graphs};
}

// The last chunk whose `from` is not beyond `event`; null where there is none.
const LifeChunk* ChunkAt(const std::vector<LifeChunk>& chunks, uint64_t event) {
  const auto behind = std::upper_bound(chunks.begin(), chunks.end(), event,
                                       [](uint64_t asked, const LifeChunk& chunk) { return asked < chunk.from; });
  return behind == chunks.begin() ? nullptr : &*std::prev(behind);
}

}  // namespace

void LifeTableWriter::Close(Open* open, std::vector<LifeChunk>* chunks) {
  if (open->count == 0) return;
  LifeChunk& chunk = chunks->emplace_back(LifeChunk{open->from, open->to, file_->Append(open->bytes), {}});
  if (!open->rest.empty()) chunk.rest = file_->Append(open->rest);
  *open = {};
}

void LifeTableWriter::Happened(uint64_t index, uint64_t latest_ns, uint64_t stack, uint32_t api) {
  named_.Add(stack, api);
  is_complete_ &= index == happened_;
  ++happened_;
  if (times_.count == 0) times_.from = index;
  Put(latest_ns - times_.last[0], &times_.bytes);
  times_.to = times_.last[0] = latest_ns;
  if (++times_.count == kChunk) Close(&times_, &data_.times);
}

void LifeTableWriter::Marked(uint64_t index, uint64_t time_ns, uint32_t text) {
  is_complete_ &= data_.marks.size() < kMostMarks;
  if (is_complete_) data_.marks.push_back({index, time_ns, text});
}

void LifeTableWriter::Totals(const TotalsAfter& totals) {
  if (totals_.count == 0) {
    totals_.from = totals.event;
    last_totals_.clear();
  }
  if (totals.slot >= last_totals_.size()) last_totals_.resize(totals.slot + 1);
  MomentTotals now = totals.totals;
  const auto parts = PartsOf(&now), before = PartsOf(&last_totals_[totals.slot]);
  uint64_t changed = 0;
  for (size_t i = 0; i < kTotals; ++i) changed |= uint64_t{*parts[i] != *before[i]} << i;
  Put(totals.event - totals_.last[0], &totals_.bytes);
  PutDifference(totals.time_ns, totals_.last[1], &totals_.bytes);
  Put((uint64_t{totals.slot} << 1 | uint64_t{totals.is_own}) << kTotals | changed, &totals_.bytes);
  for (size_t i = 0; i < kTotals; ++i) {
    if ((changed >> i & 1) != 0) PutDifference(*parts[i], *before[i], &totals_.bytes);
  }
  last_totals_[totals.slot] = now;
  totals_.to = totals_.last[0] = totals.event;
  totals_.last[1] = totals.time_ns;
  if (++totals_.count == kChunk) Close(&totals_, &data_.totals);
}

uint32_t LifeTableWriter::SortOf(const Life& life, const AttributedUse& use) {
  const auto flags =
      static_cast<uint8_t>(static_cast<unsigned>(life.kind) << 2 | unsigned{life.kept} << 1 | unsigned{life.saved});
  const SortKey key{KeyOf(use), flags, life.slot, life.thread, life.api, life.stream};
  const auto [it, is_new] = numbers_.try_emplace(key, static_cast<uint32_t>(data_.sorts.size()));
  if (!is_new) return it->second;
  LifeSort& sort = data_.sorts.emplace_back(LifeSort{life, use});
  sort.life.born = sort.life.time_ns = sort.life.end = sort.life.end_ns = 0;
  sort.life.address = sort.life.size = sort.life.requested = 0;
  return it->second;
}

void LifeTableWriter::Lived(const Life& life, const AttributedUse& use) {
  named_.Add(use.stack_id, life.api);
  if (lives_.count == 0) lives_.from = life.born;
  auto& [end, end_ns, address] = lives_.last;
  PutDifference(life.end, end, &lives_.bytes);
  Put(life.end - life.born, &lives_.bytes);
  Put(SortOf(life, use), &lives_.bytes);
  Put(life.size, &lives_.bytes);
  Put(use.tensor_bytes, &lives_.bytes);
  Put(life.end_ns == 0 ? 0 : 1 + ZigZag(life.end_ns - end_ns), &lives_.rest);
  PutDifference(life.time_ns, end_ns, &lives_.rest);
  PutDifference(life.address, address, &lives_.rest);
  PutDifference(life.requested, life.size, &lives_.rest);
  end = life.end;
  address = life.address;
  if (life.end_ns != 0) end_ns = life.end_ns;
  lives_.from = std::min(lives_.from, life.born);
  lives_.to = std::max(lives_.to, life.end);
  if (++lives_.count == kChunk) Close(&lives_, &data_.lives);
}

void LifeTableWriter::Ended(uint64_t events, uint64_t end_event, bool is_exact,
                            const std::function<void(AttributedUse*)>& classify) {
  Close(&times_, &data_.times);
  Close(&totals_, &data_.totals);
  Close(&lives_, &data_.lives);
  for (LifeSort& sort : data_.sorts) {
    classify(&sort.use);
    sort.use.bytes = sort.use.tensor_bytes = sort.use.smallest = sort.use.largest = 0;
    sort.use.count = 1;
  }
  data_.stacks = named_.Stacks();
  data_.apis = named_.Apis();
  data_.events = events;
  data_.end_event = end_event;
  data_.is_exact = is_exact && is_complete_;
}

std::optional<std::vector<uint64_t>> LifeTable::Times(const LifeChunk& chunk) const {
  const std::optional<std::string> bytes = file_->Block(chunk.block);
  if (!bytes) return std::nullopt;
  std::vector<uint64_t> times;
  Numbers numbers(*bytes);
  for (uint64_t time = 0; !numbers.done();) times.push_back(time += numbers.Next());
  if (!numbers.ok() || times.empty()) return std::nullopt;
  return times;
}

std::optional<uint64_t> LifeTable::EventAt(uint64_t time_ns) const {
  // The first chunk that ends later.
  const auto chunk = std::upper_bound(data_->times.begin(), data_->times.end(), time_ns,
                                      [](uint64_t asked, const LifeChunk& each) { return asked < each.to; });
  if (chunk == data_->times.end()) return data_->events == 0 ? std::nullopt : std::optional(data_->events - 1);
  const auto times = Times(*chunk);
  if (!times) return std::nullopt;
  const auto behind = static_cast<uint64_t>(std::upper_bound(times->begin(), times->end(), time_ns) - times->begin());
  if (chunk->from + behind == 0) return std::nullopt;
  return chunk->from + behind - 1;
}

std::optional<uint64_t> LifeTable::TimeOf(uint64_t event) const {
  const LifeChunk* const chunk = ChunkAt(data_->times, event);
  if (chunk == nullptr) return std::nullopt;
  const auto times = Times(*chunk);
  if (!times || event - chunk->from >= times->size()) return std::nullopt;
  return (*times)[event - chunk->from];
}

bool LifeTable::ReadTotals(const LifeChunk& chunk, const std::function<void(const TotalsAfter&)>& take) const {
  const std::optional<std::string> bytes = file_->Block(chunk.block);
  if (!bytes) return false;
  Numbers numbers(*bytes);
  std::vector<MomentTotals> last;  // by slot
  TotalsAfter totals;
  while (!numbers.done()) {
    totals.event += numbers.Next();
    totals.time_ns = numbers.NextFrom(totals.time_ns);
    const uint64_t what = numbers.Next();
    totals.is_own = (what >> kTotals & 1) != 0;
    const uint64_t slot = what >> (kTotals + 1);
    if (!numbers.ok() || slot > kMostSlots) return false;
    totals.slot = static_cast<uint32_t>(slot);
    if (slot >= last.size()) last.resize(slot + 1);
    const auto parts = PartsOf(&last[slot]);
    for (size_t i = 0; i < kTotals; ++i) {
      if ((what >> i & 1) != 0) *parts[i] = numbers.NextFrom(*parts[i]);
    }
    totals.totals = last[slot];
    if (!numbers.ok()) return false;
    take(totals);
  }
  return numbers.ok();
}

bool LifeTable::IsIntact() const {
  const auto is_intact = [this](const std::vector<LifeChunk>& chunks, bool has_rest) {
    return std::all_of(chunks.begin(), chunks.end(), [&](const LifeChunk& chunk) {
      return file_->IsIntact(chunk.block) && (!has_rest || file_->IsIntact(chunk.rest));
    });
  };
  return is_intact(data_->totals, false) && is_intact(data_->lives, true);
}

bool LifeTable::ReadTotals(const std::function<void(const TotalsAfter&)>& take) const {
  return std::all_of(data_->totals.begin(), data_->totals.end(),
                     [&](const LifeChunk& chunk) { return ReadTotals(chunk, take); });
}

bool LifeTable::ReadLives(const LifeChunk& chunk,
                          const std::function<void(const Life&, const AttributedUse&)>& take) const {
  const std::optional<std::string> bytes = file_->Block(chunk.block), rest = file_->Block(chunk.rest);
  if (!bytes || !rest) return false;
  Numbers numbers(*bytes), others(*rest);
  Life last;
  while (!numbers.done()) {
    const uint64_t end = numbers.NextFrom(last.end), born = end - numbers.Next();
    const uint64_t number = numbers.Next();
    if (!numbers.ok() || number >= data_->sorts.size()) return false;
    const LifeSort& sort = data_->sorts[number];
    Life life = sort.life;
    life.end = end;
    life.born = born;
    life.size = numbers.Next();
    AttributedUse use = sort.use;
    use.bytes = life.size;
    use.tensor_bytes = numbers.Next();
    const uint64_t ended = others.Next();
    life.end_ns = ended == 0 ? 0 : last.end_ns + static_cast<uint64_t>(ZigZagDecode(ended - 1));
    life.time_ns = others.NextFrom(last.end_ns);
    life.address = others.NextFrom(last.address);
    life.requested = others.NextFrom(life.size);
    if (!numbers.ok() || !others.ok()) return false;
    take(life, use);
    last.end = life.end;
    last.address = life.address;
    if (life.end_ns != 0) last.end_ns = life.end_ns;
  }
  return others.done();
}

bool LifeTable::ReadLives(const std::function<void(const Life&, const AttributedUse&)>& take) const {
  return std::all_of(data_->lives.begin(), data_->lives.end(),
                     [&](const LifeChunk& chunk) { return ReadLives(chunk, take); });
}

bool LifeTable::ReadAliveAt(uint64_t event, const std::function<void(const Life&, const AttributedUse&)>& take) const {
  return std::all_of(data_->lives.begin(), data_->lives.end(), [&](const LifeChunk& chunk) {
    if (chunk.from > event || chunk.to <= event) return true;
    return ReadLives(chunk, [&](const Life& life, const AttributedUse& use) {
      if (life.born <= event && event < life.end) take(life, use);
    });
  });
}

// Chunks begin anew, so one without an entry of the device says nothing of it.
std::optional<MomentTotals> LifeTable::TotalsAt(uint64_t event) const {
  const LifeChunk* chunk = ChunkAt(data_->totals, event);
  if (chunk == nullptr) return MomentTotals();
  std::optional<MomentTotals> found;
  for (;; --chunk) {
    const bool is_read = ReadTotals(*chunk, [&](const TotalsAfter& totals) {
      if (totals.slot == data_->slot && totals.event <= event) found = totals.totals;
    });
    if (!is_read) return std::nullopt;
    if (found || chunk == data_->totals.data()) return found.value_or(MomentTotals());
  }
}

bool LifeTable::Fill(Moment* moment) const {
  const uint64_t event = moment->event_index;
  const std::optional<MomentTotals> totals = TotalsAt(event);
  if (!totals) return false;
  UseSums sums;
  CategoryBytes categories{};
  for (const LifeChunk& chunk : data_->lives) {
    if (chunk.from > event || chunk.to <= event) continue;
    const std::optional<std::string> bytes = file_->Block(chunk.block);
    if (!bytes) return false;
    Numbers numbers(*bytes);
    for (uint64_t end = 0; !numbers.done();) {
      end = numbers.NextFrom(end);
      const uint64_t born = end - numbers.Next(), number = numbers.Next();
      const uint64_t size = numbers.Next(), tensor_bytes = numbers.Next();
      if (!numbers.ok() || number >= data_->sorts.size()) return false;
      if (born > event || end <= event) continue;
      const LifeSort& sort = data_->sorts[number];
      if (sort.life.slot != data_->slot || sort.life.kind == LifeKind::kSegment) continue;
      AttributedUse use = sort.use;
      use.bytes = size;
      use.tensor_bytes = tensor_bytes;
      sums.Add(use);
      categories[Index(use.category)] += size;
    }
  }
  moment->values = totals->values;
  moment->categories = WithTotals(categories, *totals);
  sums.Fill(nullptr, moment);
  return true;
}

}  // namespace gpumem
