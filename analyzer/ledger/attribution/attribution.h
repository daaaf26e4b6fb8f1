// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Attribution: what the memory of one device was for. Made by an Attributor (attributor.h).
//
// Two replays of the trace: the index pass finds the steps, the events that were asked for, and from which places
// blocks come whose role was said; the attribution pass then gives every block its category when it ends, and adds it
// to the moments at which it was alive. Memory is bounded by what is alive, by the stacks and by the steps.
// docs/attribution.md.
//
//   AttributionRequest request;
//   request.moments.push_back(MomentQuery::AtEvent(peak.event_index));
//   Attributor attributor(&analysis, &stacks, resolve, &rules, request);
//   GPUMEM_RETURN_IF_ERROR(RunTwoPasses(analysis.path, stacks.objects(), {&attributor}));
//   attributor.Take().moments[0].categories[Index(Category::kActivation)]

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ATTRIBUTION_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ATTRIBUTION_H_

#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "ledger/attribution/category.h"
#include "ledger/attribution/module_table.h"
#include "ledger/attribution/rules.h"
#include "ledger/attribution/stack_classification.h"
#include "ledger/attribution/stage_log.h"
#include "ledger/attribution/step_log.h"
#include "replay/analysis.h"
#include "replay/analyze.h"
#include "trace/stack_table.h"

namespace gpumem {

class LifeSink;

// An instant that somebody names.
struct MomentQuery {
  enum class Kind : uint8_t {
    kEvent,  // behind event `number`
    kTime,   // `number` ns of CLOCK_MONOTONIC
    kStep,   // the highest moment of step `number`
    kMark,   // the first mark with this text, or, where `number` is a time of CLOCK_MONOTONIC, the one of that time
  };
  Kind kind = Kind::kEvent;
  uint64_t number = 0;
  std::string text;
};

struct AttributionRequest {
  int device = 0;
  Measure measure = Measure::kAllocated;  // whose peaks steps have
  std::vector<MomentQuery> moments;
  bool steps = false;         // what each step's peak and end are made of
  bool modules = false;       // what each module did in each stage
  bool stages = false;        // the run's stages, with what their peaks and ends are made of
  LifeSink* lives = nullptr;  // receives what every moment is made of
};

// Live memory of one sort.
struct AttributedUse {
  uint64_t stack_id = 0;
  uint8_t layer = 0, memory = 0;
  Category category = Category::kUnknown;
  Evidence evidence = Evidence::kRule;
  Part part = Part::kWhole;
  uint32_t name = 0;    // string id: the program's own, 0 = none
  uint32_t module = 0;  // row of the module table: of a parameter (with its gradient and state) the one that holds it
  Stage stage = Stage::kNone;
  uint32_t user_stage = 0;  // Attribution::user_stages: what the program named, open when it was allocated
  bool recomputed = false;
  bool is_loss = false;  // ComponentOf
  uint64_t bytes = 0, tensor_bytes = 0, count = 0;
  uint64_t smallest = 0, largest = 0;  // of what was asked for, a block
};

// Memory by category at an instant. The sum of the categories is what the process had: reserved, other and context.
struct Moment {
  std::string asked;   // MomentQuery::text
  bool found = false;  // false: there is no such step or mark, or it is behind the end
  uint64_t event_index = 0, time_ns = 0;
  uint64_t step = 0;  // in which it lies; 0 = none
  MeasureValues values;
  CategoryBytes categories{};
  CategoryBytes tensor_bytes{};  // of the tensors themselves, where they are known: blocks are rounded up
  CategoryBytes counts{};        // blocks
  std::array<std::array<uint64_t, kEvidences>, kCategories> by_evidence{};  // bytes
  std::array<uint64_t, kParts> parts{};                                     // bytes
  std::vector<AttributedUse> uses;  // largest first; PyTorch's blocks and the memory of others

  uint64_t Total() const { return std::accumulate(categories.begin(), categories.end(), uint64_t{0}); }
};

struct AttributedStep {
  Step step;
  CategoryBytes at_peak{}, at_end{};
};

struct AttributedStage {
  StageRow row;
  CategoryBytes at_peak{}, at_end{};
};

// What calls of one module did in one stage.
struct ModuleUse {
  uint32_t module = 0;
  Stage stage = Stage::kNone;
  uint32_t user_stage = 0;
  uint64_t allocated_bytes = 0, count = 0;    // all of them, freed or not
  uint64_t recomputed_bytes = 0;              // of these: by a forward pass that ran again
  uint64_t loss_bytes = 0;                    // of these: by functions that compute a loss (ComponentOf)
  uint64_t peak_bytes = 0;                    // most at once
  uint64_t saved_bytes = 0, saved_count = 0;  // of these: kept by autograd
  uint64_t saved_peak_bytes = 0;
  uint64_t temporary_bytes = 0, temporary_count = 0;
};

struct ParameterRow {
  uint32_t tensor = 0;
  uint64_t bytes = 0;           // of its data
  uint64_t gradient_bytes = 0;  // when it had one last
  uint64_t state_bytes = 0;
  uint32_t module = 0;  // row of the module table: of the one that holds it
};

struct Attribution {
  int device = 0;
  Measure measure = Measure::kAllocated;  // as asked
  std::vector<Moment> moments;            // as asked
  std::vector<AttributedStep> steps;
  std::vector<AttributedStage> stages;  // in the order in which they began
  uint64_t unlisted_stages = 0;         // stretches of stages that found no room
  StepSource step_source = StepSource::kNone;
  std::vector<std::string> user_stages{""};  // "train > epoch", by number
  std::map<uint32_t, std::string> names;     // that the program gave memory, by AttributedUse::name
  std::vector<ModuleRow> modules;            // rows that others name
  std::vector<ModuleUse> module_uses;        // by allocated bytes
  std::vector<uint64_t> module_peaks;        // by row: most at once, all stages
  std::vector<uint64_t> inclusive_peaks;     // the same with all modules that it calls
  std::vector<ParameterRow> parameters;      // in the order of their ids
  bool has_tensors = false;                  // the program's tensors were looked at
  bool has_saved = false;
  uint64_t unplaced = 0;  // tensors said to lie where no block of PyTorch's was
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ATTRIBUTION_H_
