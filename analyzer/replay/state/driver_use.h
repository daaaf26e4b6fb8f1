// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// DriverUseTable: the contexts, modules and graphs that are alive, with what each was measured to take of its device.
// Keeps Accounts' DriverUse up to date. Copyable value, so that a replay can go on from a copy. Not thread-safe.
//
//   if (DriverUseTable::Concerns(row.kind)) table.Apply(row, &accounts);

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_DRIVER_USE_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_DRIVER_USE_H_

#include <cstdint>
#include <map>
#include <tuple>

#include "replay/state/accounts.h"
#include "trace/event_batch.h"

namespace gpumem {

class DriverUseTable {
 public:
  static bool Concerns(uint32_t kind);
  void Apply(const EventRow& row, Accounts* accounts);

 private:
  enum class Sort : uint8_t { kContext, kModule, kGrowth };  // growth: of the context of that handle
  using Key = std::tuple<uint32_t, Sort, uint64_t>;          // slot, sort, handle

  void Add(Sort sort, uint32_t slot, const EventRow& row, Accounts* accounts);
  void Remove(std::map<Key, uint64_t>::iterator it, Accounts* accounts);
  void RemoveDevice(uint32_t slot, Accounts* accounts);
  static void Count(Sort sort, uint64_t size, int64_t sign, DriverUse* use);

  std::map<Key, uint64_t> alive_;  // to the size; 0 = not measured
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_DRIVER_USE_H_
