// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// MomentIndex: the memory of a device by category at any moment of a trace, without a replay. Kept in a saved file:
// when each event happened, when totals changed, and from which event to which each piece of memory was alive, in
// chunks of 65,536 entries. A moment reads the chunks that may have something of it; most lives are short, so these are
// few. Memory is bounded by the sorts of use and by one chunk of each.
//
//   MomentIndexWriter lives(writer.get());
//   request.lives = &lives;                  // while an Attributor replays
//   archive(lives.data());
//
//   const MomentIndex index(&saved, &data);
//   index.Fill(*index.EventAt(time_ns), &moment);

#ifndef GPUMEM_ANALYZER_LEDGER_SAVED_MOMENT_INDEX_H_
#define GPUMEM_ANALYZER_LEDGER_SAVED_MOMENT_INDEX_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ledger/attribution/life_sink.h"
#include "ledger/attribution/use_sums.h"
#include "ledger/saved/saved_file.h"

namespace gpumem {

struct MomentChunk {
  uint64_t from = 0, to = 0;  // first event and latest time; first event and last; least `born` and greatest `end`
  SavedBlock block;
};

struct MarkedEvent {
  uint64_t event = 0, time_ns = 0;
  uint32_t text = 0;
};

struct MomentIndexData {
  bool is_exact = false;  // false: moments cannot be told from this
  uint64_t events = 0;
  std::vector<MomentChunk> times, totals, lives;
  std::vector<AttributedUse> uses;  // one of each sort
  std::vector<MarkedEvent> marks;
};

// Not thread-safe. The writer of the file must outlive it.
class MomentIndexWriter final : public LifeSink {
 public:
  static constexpr size_t kChunk = 1 << 16;
  static constexpr size_t kMostMarks = 1'000'000;  // with more the index is of no use

  explicit MomentIndexWriter(SavedFileWriter* file) : file_(file) {}

  void Happened(uint64_t index, uint64_t latest_ns) override;
  void Marked(uint64_t index, uint64_t time_ns, uint32_t text) override;
  void Totals(uint64_t index, const MomentTotals& totals) override;
  void Lived(uint64_t born, uint64_t end, const AttributedUse& use) override;
  void Ended(bool is_exact, const std::function<void(AttributedUse*)>& classify) override;

  const MomentIndexData& data() const { return data_; }  // after Ended

 private:
  // Entries that are not written yet.
  struct Open {
    std::string bytes;
    size_t count = 0;
    uint64_t from = 0, to = 0;
    uint64_t last = 0;  // of what is stored as differences
  };
  void Close(Open* open, std::vector<MomentChunk>* chunks);

  SavedFileWriter* file_;
  MomentIndexData data_;
  Open times_, totals_, lives_;
  MomentTotals last_totals_;
  absl::flat_hash_map<UseKey, uint32_t> numbers_;  // of data_.uses
  bool is_complete_ = true;
};

// Thread-safe. All return nothing where the file has been damaged.
class MomentIndex {
 public:
  // Both must outlive it; data->is_exact.
  MomentIndex(const SavedFile* file, const MomentIndexData* data) : file_(file), data_(data) {}

  // The last event at or before a time; also nothing where there is none.
  std::optional<uint64_t> EventAt(uint64_t time_ns) const;
  // The latest time of an event and those before it.
  std::optional<uint64_t> TimeOf(uint64_t event) const;
  const std::vector<MarkedEvent>& marks() const { return data_->marks; }
  uint64_t events() const { return data_->events; }

  // What was alive behind the moment's event: its values, categories and uses.
  bool Fill(Moment* moment) const;

 private:
  std::optional<std::vector<uint64_t>> Times(const MomentChunk& chunk) const;
  std::optional<MomentTotals> TotalsAt(uint64_t event) const;

  const SavedFile* file_;
  const MomentIndexData* data_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_SAVED_MOMENT_INDEX_H_
