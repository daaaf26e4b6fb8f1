// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/watch/alarm.h"

namespace gpumem {

bool Alarm::Sees(const Outlook& outlook, uint64_t now_ns) {
  if (outlook.forecast.kind != ForecastKind::kReaches || outlook.risk < limits_.least) return false;
  const bool is_higher = warnings_ == 0 || outlook.risk > highest_;
  if (!is_higher && now_ns - last_ns_ < limits_.pause_ns) return false;
  if (is_higher) highest_ = outlook.risk;
  ++warnings_;
  last_ns_ = now_ns;
  return true;
}

}  // namespace gpumem
