// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Alarm: when the forecast of one program is worth a warning. The first time that memory is to run out at this rate
// with at least a given risk; then when the risk is higher than ever before; then again after a pause. So a forecast
// that comes and goes warns once a pause, and never more than two times beyond. Pure; time is the caller's.
//
//   Alarm alarm({RiskLevel::kHigh, 600'000'000'000});
//   if (alarm.Sees(outlook, now_ns)) Warn(alarm.is_first());

#ifndef GPUMEM_ANALYZER_LIVE_WATCH_ALARM_H_
#define GPUMEM_ANALYZER_LIVE_WATCH_ALARM_H_

#include <cstdint>

#include "answers/outlook/outlook.h"

namespace gpumem {

struct AlarmLimits {
  RiskLevel least = RiskLevel::kMedium;  // below: no warning
  uint64_t pause_ns = 600'000'000'000;   // until the same is said again
};

class Alarm {
 public:
  explicit Alarm(const AlarmLimits& limits) : limits_(limits) {}

  // Whether to warn now. True counts as a warning that was given.
  bool Sees(const Outlook& outlook, uint64_t now_ns);

  uint64_t warnings() const { return warnings_; }
  bool is_first() const { return warnings_ == 1; }  // the warning given last

 private:
  AlarmLimits limits_;
  uint64_t warnings_ = 0;
  uint64_t last_ns_ = 0;
  RiskLevel highest_ = RiskLevel::kLow;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_WATCH_ALARM_H_
