// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory by category, summed up for text and JSON alike: by module, component and stage. Pure
// functions.

#ifndef GPUMEM_ANALYZER_ANSWERS_PARTS_ATTRIBUTION_PARTS_H_
#define GPUMEM_ANALYZER_ANSWERS_PARTS_ATTRIBUTION_PARTS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ledger/attribution/attribution.h"
#include "replay/analysis.h"

namespace gpumem {

struct ModuleBytes {
  uint32_t module = 0;  // row
  uint64_t bytes = 0;
  CategoryBytes by_category{};
};
// What is alive at a moment, largest first. Without what belongs to no module.
// The moments behind the first: those that the program asked for. None where `attribution` is null.
std::vector<const Moment*> SnapshotsOf(const Attribution* attribution);
// All that the program asked for.
size_t CountSnapshots(const Analysis& analysis);

// "model load", "train > model load" with the part's word; of a named one its name.
std::string StageLabel(const StageRow& row, absl::string_view word);

// Memory that the program gave a name, by its name; largest first.
struct NamedBytes {
  std::string name;
  uint64_t bytes = 0, tensor_bytes = 0, count = 0;
  CategoryBytes by_category{};
};
std::vector<NamedBytes> BytesByName(const Moment& moment, const Attribution& attribution);

std::vector<ModuleBytes> BytesByModule(const Moment& moment);
// "attention"; docs/attribution.md lists them.
std::string ComponentName(const AttributedUse& use, const Attribution& attribution);

std::map<std::string, uint64_t> BytesByComponent(const Moment& moment, const Attribution& attribution);
// The same with what it is, and the stages in which it was allocated; largest first.
struct ComponentBytes {
  std::string component;
  uint64_t bytes = 0;
  CategoryBytes by_category{};
  std::array<uint64_t, kStages> by_stage{};
};
std::vector<ComponentBytes> DetailsByComponent(const Moment& moment, const Attribution& attribution);
std::array<uint64_t, kStages> BytesByStage(const Moment& moment);
// By StagePath.
std::map<std::string, uint64_t> BytesByStagePath(const Moment& moment, const Attribution& attribution);

// "transformer.h.0.attn (GPT2Attention)"; a root by its class; "(no module)" for row 0.
std::string ModuleLabel(const ModuleRow& row);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_PARTS_ATTRIBUTION_PARTS_H_
