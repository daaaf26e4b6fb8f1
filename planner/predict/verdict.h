// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The verdict of a forecast: a range of what the device must hold, and what makes it a range. "fits" is said only where
// the upper end fits and nothing without an upper end is open.
//
//   need     |----[ low . likely ....... high ]----|          bytes, as nvidia-smi shows them
//   fits                                   high <= capacity, all doubts bounded
//   fits unless                            high <= capacity, but a doubt has no upper end
//   too close            low <= capacity < high
//   does not fit         capacity < low
//
//   const Assessment assessment = Assess(forecast);
//   assessment.verdict; assessment.high;
//
// Thread-safety: pure functions.

#ifndef GPUMEM_PLANNER_PREDICT_VERDICT_H_
#define GPUMEM_PLANNER_PREDICT_VERDICT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/predict/forecast.h"

namespace gpumem::plan {

enum class Verdict : uint8_t { kFits, kFitsUnless, kTooClose, kDoesNotFit, kUnknown };

// Something that is open, and what it may change.
struct Doubt {
  enum class Kind : uint8_t {
    kLaterSteps,  // the program was ended before its end
    kValues,      // values that no kernel computed decide what it does
    kData,        // they decide how large something is
    kWorkspaces,  // of libraries, not measured
    kContext,     // a guess
    kStreams,     // kernels that lag behind the host
    kProcesses,   // when several are at their peaks
    kManaged,     // which managed memory lies on the device
    kLostEvents,  // the run's recorder could not keep all events
  };
  Kind kind = Kind::kContext;
  std::string what;             // "the size of CUDA's context is a guess"
  std::string unless;           // "a later batch needs more": what would break the promise, of doubts without an end
  std::string settle;           // "--steps all"; may be empty
  uint64_t less = 0, more = 0;  // bytes below and above the likely need
  bool bounded = true;          // false: `more` is not an upper end
};

struct Assessment {
  Verdict verdict = Verdict::kUnknown;
  uint64_t low = 0, likely = 0, high = 0;  // of the device that is fullest
  std::vector<Doubt> doubts;               // largest first; those without an end before them
  bool steps_differ = false;  // those that were run: one that is still to come may need more than each of them
  bool bounded() const;
  // Whether `high` is an upper bound of what was run: later steps that are like the others are not in it, but nothing
  // in it may be larger.
  bool has_upper() const;
};

Assessment Assess(const Forecast& forecast);

// "fits", "fits_unless", "too_close", "does_not_fit", "unknown".
absl::string_view VerdictName(Verdict verdict);
// "later_steps", ...
absl::string_view DoubtName(Doubt::Kind kind);

// "7.75 GiB to 8.5 GiB, likely 8 GiB"; one number where there is no range, no upper one where that is not a bound.
std::string RangeText(const Assessment& assessment);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_VERDICT_H_
