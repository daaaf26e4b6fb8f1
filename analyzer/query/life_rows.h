// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LifeRows: the tables blocks and segments of an index: every piece of memory with what it was for; and stacks and
// frames, which they name. Not thread-safe; what it is given must outlive it.
//
//   LifeRows rows(loaded, &database);
//   GPUMEM_RETURN_IF_ERROR(ShowLives(loaded, &rows));
//   GPUMEM_RETURN_IF_ERROR(rows.Close());

#ifndef GPUMEM_ANALYZER_QUERY_LIFE_ROWS_H_
#define GPUMEM_ANALYZER_QUERY_LIFE_ROWS_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/string_view.h"
#include "ledger/stacks/lives.h"
#include "query/end_pools.h"
#include "query/row_texts.h"
#include "query/table_writer.h"

namespace gpumem {

class LifeRows final : public LifeReceiver {
 public:
  LifeRows(LoadedTrace* loaded, Database* database)
      : loaded_(loaded), database_(database), pools_(loaded->analysis.path) {}

  void Begin(const LivesFacts& facts) override;
  void Lived(const Life& life, const AttributedUse& use) override;
  void Ended(const LivesFacts& facts) override { end_event_ = facts.end_event; }

  // Once, after all lives.
  absl::Status Close();
  uint64_t end_event() const { return end_event_; }  // the last one of the program's own code

 private:
  void TakeBlock(const Life& life, const AttributedUse& use);
  void WriteBlock(const Life& life, const AttributedUse& use, absl::string_view state);
  void WritePendingFrees();
  void WriteSegment(const Life& life, const AttributedUse& use);
  void WriteBirthAndDeath(const Life& life, TableWriter* writer);
  absl::Status WriteStacks();

  LoadedTrace* loaded_;
  Database* database_;
  EndPools pools_;
  // The last that ended where a block waits to be free at the end: it is that block.
  absl::btree_map<EndPools::Place, std::pair<Life, AttributedUse>> pending_;
  std::optional<RowTexts> texts_;
  std::optional<TableWriter> blocks_, segments_;
  uint64_t end_event_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_LIFE_ROWS_H_
