// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ForecastWatch: the forecast of programs that run, made again as their steps go by, and what is done when it becomes
// bad. It reads traces as they grow (live/trace_follower.h), in a process of its own: nothing that a callback does can
// reach the program, and callbacks are never waited for, but at the end.
//
//   trace grows -> brief frame -> Alarm -> cause (the whole trace is read once a warning)
//                                       -> line on stdout, mark in the trace, callbacks
//   callbacks end, crash, hang          -> line, mark, and the counts at the end
//
// Not thread-safe; one at a time. Errors: as LiveJob::Open. What cannot be noted in a trace is complained about.
//
//   ForecastWatch watch({.place = "4242"}, &console);
//   GPUMEM_ASSIGN_OR_RETURN(const WatchTotals totals, watch.Run());   // until the programs have ended

#ifndef GPUMEM_ANALYZER_LIVE_WATCH_FORECAST_WATCH_H_
#define GPUMEM_ANALYZER_LIVE_WATCH_FORECAST_WATCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "answers/outlook/outlook.h"
#include "base/console.h"
#include "live/live_job.h"
#include "live/watch/callbacks.h"
#include "live/watch/watch_line.h"

namespace gpumem {

// Alarm: when the forecast of one program is worth a warning. The first time that memory is to run out at this rate
// with at least a given risk; then when the risk is higher than ever before; then again after a pause. So a forecast
// that comes and goes warns once a pause, and never more than two times beyond. Pure; time is the caller's.
//
//   Alarm alarm({RiskLevel::kHigh, 600'000'000'000});
//   if (alarm.Sees(outlook, now_ns)) Warn(alarm.is_first());

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

struct WatchSettings {
  std::string place;  // as LiveJob::Open has it
  int device = -1;
  double interval_s = 1;
  AlarmLimits alarm;
  CallbackSettings callbacks;
  bool marks = true;  // warnings and failed callbacks are noted in the trace
  bool json = false;
};

class ForecastWatch {
 public:
  ForecastWatch(const WatchSettings& settings, Console* console) : settings_(settings), console_(console) {}

  // Until no program may grow any more, or SIGINT or SIGTERM ends it, and no callback runs: each has until its
  // deadline.
  absl::StatusOr<WatchTotals> Run();

 private:
  struct Watched {
    explicit Watched(const WatchSettings& settings) : alarm(settings.alarm), callbacks(settings.callbacks) {}
    LiveProcess process;  // as it was seen last
    Alarm alarm;
    Callbacks callbacks;
    bool complained = false;  // that a mark could not be made
  };

  absl::StatusOr<std::unique_ptr<LiveJob>> Open();
  // Whether a program may still grow.
  bool Look(LiveJob* job);
  void Warn(Watched* watched);
  void Mark(const char* request, const std::string& text, Watched* watched);
  // Whether a callback still runs.
  bool TakeReports();
  void Rest(double seconds) const;

  const WatchSettings settings_;
  Console* const console_;
  std::map<std::string, std::unique_ptr<Watched>> watched_;  // by file
  WatchTotals totals_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_WATCH_FORECAST_WATCH_H_
