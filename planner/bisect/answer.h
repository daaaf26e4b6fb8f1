// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// BisectAnswer: which commit, version, file or settings made a program need more (or less), as plain values, and what
// is said of it. docs/commands/bisect.md has the fields.
//
//   console->Print(json ? ToJson(BisectDocument(answer)) : ToText(BisectDocument(answer), console->out_style()));
//
// Pure functions; the answer outlives its document.

#ifndef GPUMEM_PLANNER_BISECT_ANSWER_H_
#define GPUMEM_PLANNER_BISECT_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/bisect/history.h"
#include "planner/bisect/looks.h"
#include "planner/bisect/search.h"
#include "planner/bisect/settings.h"
#include "render/document.h"

namespace gpumem::plan {

enum class BisectKind : uint8_t { kCommits, kVersions, kFiles, kSettings };

// One state that was looked at.
struct BisectLook {
  size_t index = 0;  // in the history
  HistoryState state;
  std::optional<uint64_t> bytes;  // none: it does not run
  std::string reason;             // why not: one line
  std::string trace;              // "" = none
  uint64_t unknown_reads = 0;     // of its run: values that nobody computed
};

// What a step is where values that nobody computed are others than in the first runs of the two beside it; none: such
// a run did not end well.
struct OtherValues {
  bool tried = false;  // there are such values
  std::optional<uint64_t> before, after;
};

struct BisectStep {
  size_t before = 0, after = 0;  // indexes of looks
  int64_t change = 0;
  std::vector<std::string> failed;  // names of states between them that do not run
  size_t unlooked = 0;              // states between them that were not looked at
  StepCause cause;                  // of the first step alone
  OtherValues other;                // of the first step alone
};

// Settings that together make the difference.
struct BisectSettings {
  std::vector<SettingsChange> changes;  // all that differ
  std::vector<size_t> found;            // indexes of those that matter
  std::vector<std::optional<uint64_t>>
      alone;  // bytes with one of them alone, in the order of `found`; none: it does not run
  std::optional<uint64_t> good, bad, with_found;  // bytes of the ends, and of the good one with those that matter
  std::string good_reason, bad_reason;            // why an end does not run
  StepCause cause;
  OtherValues other;
};

struct BisectAnswer {
  BisectKind kind = BisectKind::kCommits;
  std::string subject;                // the package's name; "" for others
  std::string good, bad;              // as they were given
  std::string measure = "allocated";  // "reserved", "process"
  std::vector<std::string> command;   // secrets masked
  std::string device;
  std::optional<uint64_t> above;  // what --above says, in bytes
  size_t states = 0;              // of the history, ends included
  std::vector<BisectLook> looks;  // in the history's order
  std::vector<BisectStep> steps;  // that count, largest change first; of --above the one that crosses it
  BisectSettings settings;        // kSettings
  size_t runs = 0;                // that were made now; the others were there from an earlier time
  std::string directory;          // where the traces are
  std::vector<std::string> notes;

  // Whether the question has an answer.
  bool found() const { return kind == BisectKind::kSettings ? !settings.found.empty() : !steps.empty(); }
};

Document BisectDocument(const BisectAnswer& answer);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_BISECT_ANSWER_H_
