// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LifeTable: the lives of a trace in a saved file: each piece of memory of every device with what it was for, the
// totals of the devices, and when each event happened, in chunks of 65,536 entries. Moments are told from it, and
// whatever else stands on lives (ledger/stacks/lives.h), without a replay. A moment reads the chunks that may have
// something of it; most lives are short, so these are few. Memory is bounded by the sorts of lives and by one chunk of
// each kind. About 9 bytes a life with all that belongs to it (1 M lives of a training, 2 M events: 8.8 MB).
//
//   LifeTableWriter lives(writer.get());
//   request.lives = &lives;                  // while an Attributor replays
//   archive(lives.data());
//
//   const LifeTable table(&saved, &data);
//   table.Fill(*table.EventAt(time_ns), &moment);
//   table.ReadLives([](const Life& life, const AttributedUse& use) { ... });

#ifndef GPUMEM_ANALYZER_LEDGER_SAVED_LIFE_TABLE_H_
#define GPUMEM_ANALYZER_LEDGER_SAVED_LIFE_TABLE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ledger/attribution/life_pass.h"
#include "ledger/attribution/life_sink.h"
#include "ledger/attribution/use_sums.h"
#include "ledger/saved/saved_file.h"

namespace gpumem {

struct LifeChunk {
  uint64_t from = 0, to = 0;  // first event and latest time; first event and last; least `born` and greatest `end`
  SavedBlock block;
  SavedBlock rest;  // of lives: what no moment asks for
};

struct MarkedEvent {
  uint64_t event = 0, time_ns = 0;
  uint32_t text = 0;
};

// What many lives have in common.
struct LifeSort {
  Life life;          // without when, where and how large
  AttributedUse use;  // without its sums
};

struct LifeTableData {
  bool is_exact = false;  // false: moments cannot be told from this
  uint32_t slot = 0;      // whose moments
  uint64_t events = 0;
  uint64_t end_event = 0;  // the last of the program's own code
  std::vector<LifeChunk> times, totals, lives;
  std::vector<LifeSort> sorts;
  std::vector<MarkedEvent> marks;
  std::vector<uint64_t> stacks;  // that events and lives name
  std::vector<uint32_t> apis;    // the same of functions
};

// Not thread-safe. The writer of the file must outlive it.
class LifeTableWriter final : public LifeSink {
 public:
  static constexpr size_t kChunk = 1 << 16;
  static constexpr size_t kMostMarks = 1'000'000;  // with more, no moment is read from it

  // `slot`: whose moments are told.
  LifeTableWriter(SavedFileWriter* file, uint32_t slot) : file_(file) { data_.slot = slot; }

  void Happened(uint64_t index, uint64_t latest_ns, uint64_t stack, uint32_t api) override;
  void Marked(uint64_t index, uint64_t time_ns, uint32_t text) override;
  void Totals(const TotalsAfter& totals) override;
  void Lived(const Life& life, const AttributedUse& use) override;
  void Ended(uint64_t events, uint64_t end_event, bool is_exact,
             const std::function<void(AttributedUse*)>& classify) override;

  const LifeTableData& data() const { return data_; }  // after Ended

 private:
  using SortKey = std::tuple<UseKey, uint8_t, uint32_t, uint32_t, uint32_t, uint64_t>;
  // Entries that are not written yet.
  struct Open {
    std::string bytes, rest;
    size_t count = 0;
    uint64_t from = 0, to = 0;
    std::array<uint64_t, 3> last{};  // of what is stored as differences
  };
  void Close(Open* open, std::vector<LifeChunk>* chunks);
  uint32_t SortOf(const Life& life, const AttributedUse& use);

  SavedFileWriter* file_;
  LifeTableData data_;
  Open times_, totals_, lives_;
  std::vector<MomentTotals> last_totals_;           // by slot, in this chunk
  absl::flat_hash_map<SortKey, uint32_t> numbers_;  // of data_.sorts
  NamedIds named_;
  uint64_t happened_ = 0;
  bool is_complete_ = true;
};

// Thread-safe. All return nothing where the file has been damaged.
class LifeTable {
 public:
  // Both must outlive it.
  LifeTable(const SavedFile* file, const LifeTableData* data) : file_(file), data_(data) {}

  // The last event at or before a time; also nothing where there is none.
  std::optional<uint64_t> EventAt(uint64_t time_ns) const;
  // The latest time of an event and those before it.
  std::optional<uint64_t> TimeOf(uint64_t event) const;
  const LifeTableData& data() const { return *data_; }

  // What was alive after the moment's event: its values, categories and uses. data().is_exact.
  bool Fill(Moment* moment) const;

  // Whether all its bytes are those that were written.
  bool IsIntact() const;
  // All of them, as they were written.
  bool ReadTotals(const std::function<void(const TotalsAfter&)>& take) const;
  bool ReadLives(const std::function<void(const Life&, const AttributedUse&)>& take) const;
  // Those that were alive after an event.
  bool ReadAliveAt(uint64_t event, const std::function<void(const Life&, const AttributedUse&)>& take) const;

 private:
  std::optional<std::vector<uint64_t>> Times(const LifeChunk& chunk) const;
  bool ReadTotals(const LifeChunk& chunk, const std::function<void(const TotalsAfter&)>& take) const;
  bool ReadLives(const LifeChunk& chunk, const std::function<void(const Life&, const AttributedUse&)>& take) const;
  std::optional<MomentTotals> TotalsAt(uint64_t event) const;

  const SavedFile* file_;
  const LifeTableData* data_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_SAVED_LIFE_TABLE_H_
