// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The forecast of a trace: for each GPU the levels of its steps, the limit they run into, and what makes them grow, as
// one sentence and as text (outlook_json.h: as JSON).
//
//   const std::vector<Outlook> outlooks = OutlooksOf(input);   // steps and leaks of the input are needed
//   outlooks[0].sentence;  // "at this rate out of memory in 41 to 55 min (step 8,200 to 9,900), 90 % sure, because
//   ..."

#ifndef GPUMEM_ANALYZER_ANSWERS_OUTLOOK_OUTLOOK_H_
#define GPUMEM_ANALYZER_ANSWERS_OUTLOOK_OUTLOOK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "answers/outlook/forecast.h"
#include "answers/outlook/phase.h"
#include "ledger/load/input.h"
#include "render/document.h"

namespace gpumem {

// How soon, in steps of the stretch that was seen growing.
enum class RiskLevel : uint8_t { kLow, kMedium, kHigh, kCritical };

absl::string_view RiskLevelName(RiskLevel risk);  // "critical"

struct Outlook {
  int device = -1;  // -1: no GPU memory
  Forecast forecast;
  Phase phase = Phase::kWarmUp;
  RiskLevel risk = RiskLevel::kLow;
  uint64_t steps = 0, last_step = 0;
  uint64_t level = 0;          // the last step's peak, bytes
  ForecastLimit limit;         // of what is counted in the levels; 0 = not known
  uint64_t overhead = 0;       // of the device: context, libraries, other processes
  uint64_t beside = 0;         // of `overhead`: what StepLevels::beside has at the end
  bool counts_beside = false;  // levels and limit are of PyTorch's blocks and of what is beside them, which grows
  double step_ns = 0;          // median of the last ones
  std::string cause;           // the line that grows most; "" = none does
  bool has_cause = true;       // false: lines were not judged
  bool misses_events = false;  // of the trace: levels are unsure
  std::string sentence;
};

// At the peaks of the complete steps, bytes.
struct StepLevels {
  std::vector<double> allocated, reserved;
  std::vector<double> beside;  // other CUDA memory of this process; empty = not known
};

// What the outlook has of steps, level, limit and pace is taken from it; forecast, risk and sentence are set. Where
// PyTorch reserves more than its blocks grow by, since they do not fill its segments, the limit's lower end is what the
// rest has room for at that ratio. What lies beside PyTorch's blocks is counted where it grows.
void JudgeOutlook(StepLevels levels, Outlook* outlook);

// What is said of it, from all that it has but `sentence`.
std::string SentenceOf(const Outlook& outlook);

// Median of the newest, of how long steps took (ns); 0 where there is none.
double StepPace(std::vector<double> took);

// Of the device whose steps were attributed. `input` needs attribution with steps, and leaks.
Outlook OutlookOf(const ReportInput& input);

// Of pinned and managed memory, in what RAM the machine has left; device -1. Without a sentence where none of it grows.
Outlook HostOutlookOf(const ReportInput& input);

// All of it, without the head of an answer about a trace.
// `host`: of HostOutlookOf, where the trace was read for it.
Document OutlookAnswer(const Outlook& outlook, const Outlook& host = Outlook());

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_OUTLOOK_OUTLOOK_H_
