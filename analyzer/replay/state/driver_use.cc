// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/driver_use.h"

namespace gpumem {
namespace {

// trace.proto's EventKind.
constexpr uint32_t kContextCreate = 20, kContextDestroy = 21, kModuleLoad = 22, kModuleUnload = 23, kGraphMemory = 26;
constexpr uint32_t kContextGrowth = 43;

}  // namespace

bool DriverUseTable::Concerns(uint32_t kind) {
  return (kind >= kContextCreate && kind <= kModuleUnload) || kind == kGraphMemory || kind == kContextGrowth ||
         kind == trace::DEVICE_RESET;
}

void DriverUseTable::Count(Sort sort, uint64_t size, int64_t sign, DriverUse* use) {
  const bool is_context = sort == Sort::kContext;
  const uint64_t one = static_cast<uint64_t>(sign);
  if (sort == Sort::kGrowth) {
    use->contexts += one * size;
    return;
  }
  (is_context ? use->contexts : use->modules) += one * size;
  (is_context ? use->context_count : use->module_count) += one;
  if (size == 0) (is_context ? use->contexts_not_measured : use->modules_not_measured) += one;
}

void DriverUseTable::Add(Sort sort, uint32_t slot, const EventRow& row, Accounts* accounts) {
  const auto [it, is_new] = alive_.try_emplace(Key(slot, sort, row.handle), row.size);
  if (!is_new) {  // its end was lost
    Count(sort, it->second, -1, &accounts->device(slot).driver);
    it->second = row.size;
  }
  Count(sort, row.size, 1, &accounts->device(slot).driver);
}

void DriverUseTable::Remove(std::map<Key, uint64_t>::iterator it, Accounts* accounts) {
  Count(std::get<Sort>(it->first), it->second, -1, &accounts->device(std::get<0>(it->first)).driver);
  alive_.erase(it);
}

void DriverUseTable::RemoveDevice(uint32_t slot, Accounts* accounts) {
  for (auto it = alive_.begin(); it != alive_.end();) {
    const auto at = it++;
    if (std::get<0>(at->first) == slot) Remove(at, accounts);
  }
}

void DriverUseTable::Apply(const EventRow& row, Accounts* accounts) {
  const uint32_t slot = SlotOfDevice(row.device);
  const auto remove = [&](Sort sort) {
    if (const auto it = alive_.find(Key(slot, sort, row.handle)); it != alive_.end()) Remove(it, accounts);
  };
  switch (static_cast<uint32_t>(row.kind)) {
    case kContextCreate:
      return Add(Sort::kContext, slot, row, accounts);
    case kContextDestroy:
      remove(Sort::kGrowth);
      return remove(Sort::kContext);
    case kContextGrowth:
      alive_[Key(slot, Sort::kGrowth, row.handle)] += row.size;
      return Count(Sort::kGrowth, row.size, 1, &accounts->device(slot).driver);
    case kModuleLoad:
      return Add(Sort::kModule, slot, row, accounts);
    case kModuleUnload:
      return remove(Sort::kModule);
    case kGraphMemory:
      accounts->device(slot).driver.graphs = row.size;
      return;
    case trace::DEVICE_RESET:
      accounts->device(slot).driver.graphs = 0;
      return RemoveDevice(slot, accounts);
    default:
      return;
  }
}

}  // namespace gpumem
