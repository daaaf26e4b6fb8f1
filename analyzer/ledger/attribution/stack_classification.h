// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// StackClassifier: what a stack says about its memory: stage, module, node of the backward pass, what it is for by the
// names in it. Each frame is resolved once and each stack looked at once. Not thread-safe; what it is given must
// outlive it.
//
//   const StackClassification classification = classifier.Of(block.stack);
//   classification.module   // NnModule id of the innermost call

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STACK_CLASSIFICATION_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STACK_CLASSIFICATION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ledger/attribution/category.h"
#include "ledger/attribution/rules.h"
#include "ledger/attribution/stage.h"
#include "symbols/symbolizer.h"
#include "trace/stack_table.h"

namespace gpumem {

// How the operator that Python called came by its memory.
enum class Origin : uint8_t {
  kComputed,  // or not known
  kMade,      // zeros, randint and the like: of no other tensor
  kMoved,     // from another device
};

struct StackClassification {
  Stage stage = Stage::kNone;
  Origin origin = Origin::kComputed;
  bool by_allocator = false;  // PyTorch asked for it, through whatever allocator
  bool is_weak = false;       // a constructor alone tells the stage
  bool evaluates = false;     // it stands in a function that evaluates
  bool is_loss = false;     // of a function that computes a loss, or of its backward pass, inside no module of the loss
  bool recomputed = false;  // a forward pass that runs again for the backward pass
  bool accumulates = false;  // the node that adds up gradients made it
  std::optional<Category> category;
  std::optional<Category> stated;  // of an import
  uint32_t module = 0;             // StackTable::objects; 0 = none
  uint32_t node = 0;               // string id of the class of the backward pass's node; 0 = none
};

// Frames by id, the functions inlined into one first. Valid until the next call.
using FrameResolver = std::function<const std::vector<ResolvedFrame>&(uint32_t frame_id)>;

class StackClassifier {
 public:
  StackClassifier(const StackTable* stacks, const Rules* rules, FrameResolver resolve)
      : stacks_(stacks), rules_(rules), resolve_(std::move(resolve)) {}

  StackClassification Of(uint64_t stack_id);
  const StackTable* stacks() const { return stacks_; }
  const FrameResolver& resolve() const { return resolve_; }
  // The modules whose calls the stack stands in, innermost first, each once; of compiled code also the one of its line.
  std::vector<uint32_t> ModulePath(uint64_t stack_id);

 private:
  struct Frame {
    FrameClassification classification;
    std::optional<Category> category, stated;
    std::optional<Origin> origin;  // of an operator
    bool is_python = false, is_allocator = false;
    bool accumulates = false;
    uint32_t compiled_in = 0;  // the module of a line that compiled code computes
  };
  const Frame& FrameOf(uint32_t frame_id);
  StackClassification Make(uint64_t stack_id);
  uint32_t Innermost(uint32_t of_line, uint32_t seen) const;

  const StackTable* stacks_;
  const Rules* rules_;
  FrameResolver resolve_;
  absl::flat_hash_map<uint32_t, Frame> frames_;
  absl::flat_hash_map<uint64_t, StackClassification> classifications_;
  std::vector<FrameClassification> scratch_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STACK_CLASSIFICATION_H_
