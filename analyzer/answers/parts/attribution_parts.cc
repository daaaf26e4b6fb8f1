// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/attribution_parts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ledger/attribution/component.h"

namespace gpumem {

std::vector<ModuleBytes> BytesByModule(const Moment& moment) {
  std::map<uint32_t, ModuleBytes> rows;
  for (const AttributedUse& use : moment.uses) {
    if (use.module == 0) continue;
    ModuleBytes& row = rows[use.module];
    row.module = use.module;
    row.bytes += use.bytes;
    row.by_category[Index(use.category)] += use.bytes;
  }
  std::vector<ModuleBytes> sorted;
  for (const auto& [module, row] : rows) sorted.push_back(row);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ModuleBytes& a, const ModuleBytes& b) { return a.bytes > b.bytes; });
  return sorted;
}

std::vector<const Moment*> SnapshotsOf(const Attribution* attribution) {
  std::vector<const Moment*> snapshots;
  for (size_t i = 1; attribution != nullptr && i < attribution->moments.size(); ++i) {
    if (attribution->moments[i].found) snapshots.push_back(&attribution->moments[i]);
  }
  return snapshots;
}

size_t CountSnapshots(const Analysis& analysis) {
  const std::vector<MarkEntry>& entries = analysis.marks.entries();
  return static_cast<size_t>(std::count_if(entries.begin(), entries.end(), IsSnapshot));
}

std::string StageLabel(const StageRow& row, absl::string_view word) {
  if (row.is_named) return row.user;
  return row.user.empty() ? std::string(word) : absl::StrCat(row.user, " > ", word);
}

std::vector<NamedBytes> BytesByName(const Moment& moment, const Attribution& attribution) {
  std::map<std::string, NamedBytes> rows;
  for (const AttributedUse& use : moment.uses) {
    const auto name = attribution.names.find(use.name);
    if (name == attribution.names.end()) continue;
    NamedBytes& row = rows[name->second];
    row.name = name->second;
    row.bytes += use.bytes;
    row.tensor_bytes += use.tensor_bytes;
    row.count += use.count;
    row.by_category[Index(use.category)] += use.bytes;
  }
  std::vector<NamedBytes> sorted;
  for (auto& [name, row] : rows) sorted.push_back(std::move(row));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const NamedBytes& a, const NamedBytes& b) { return a.bytes > b.bytes; });
  return sorted;
}

std::string ComponentName(const AttributedUse& use, const Attribution& attribution) {
  return std::string(ComponentOf(attribution.modules[use.module].component, use.is_loss, use.category, use.stage));
}

std::map<std::string, uint64_t> BytesByComponent(const Moment& moment, const Attribution& attribution) {
  std::map<std::string, uint64_t> bytes;
  for (const AttributedUse& use : moment.uses) {
    bytes[ComponentName(use, attribution)] += use.bytes;
  }
  return bytes;
}

std::vector<ComponentBytes> DetailsByComponent(const Moment& moment, const Attribution& attribution) {
  std::map<std::string, ComponentBytes> rows;
  for (const AttributedUse& use : moment.uses) {
    const std::string component = ComponentName(use, attribution);
    ComponentBytes& row = rows[component];
    row.component = component;
    row.bytes += use.bytes;
    row.by_category[Index(use.category)] += use.bytes;
    row.by_stage[static_cast<size_t>(use.stage)] += use.bytes;
  }
  std::vector<ComponentBytes> sorted;
  for (auto& [component, row] : rows) sorted.push_back(std::move(row));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ComponentBytes& a, const ComponentBytes& b) { return a.bytes > b.bytes; });
  return sorted;
}

std::array<uint64_t, kStages> BytesByStage(const Moment& moment) {
  std::array<uint64_t, kStages> bytes{};
  for (const AttributedUse& use : moment.uses) bytes[static_cast<size_t>(use.stage)] += use.bytes;
  return bytes;
}

std::map<std::string, uint64_t> BytesByStagePath(const Moment& moment, const Attribution& attribution) {
  std::map<std::string, uint64_t> bytes;
  for (const AttributedUse& use : moment.uses)
    bytes[StagePath(attribution.user_stages[use.user_stage], use.stage)] += use.bytes;
  return bytes;
}

std::string ModuleLabel(const ModuleRow& row) {
  if (row.class_name.empty() && row.fqn.empty()) return "(no module)";
  if (row.fqn.empty()) return row.class_name;
  return row.class_name.empty() ? row.fqn : absl::StrCat(row.fqn, " (", row.class_name, ")");
}

}  // namespace gpumem
