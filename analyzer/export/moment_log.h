// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// MomentLog: the moments of a program at which other tools would have polled PyTorch's counters, with the exact totals
// of each GPU there: marks, beginnings and ends of stages, failed requests, and the ends of training steps. Each tool's
// format picks the kinds that it has. Memory: one record a moment. Not thread-safe; the trace must outlive it.
//
//   MomentLog log(loaded, /*device=*/-1);
//   GPUMEM_ASSIGN_OR_RETURN(const ExportResult result, RunExport(request, loaded, &log, more));
//   for (const LoggedMoment& moment : log.moments()) ...

#ifndef GPUMEM_ANALYZER_EXPORT_MOMENT_LOG_H_
#define GPUMEM_ANALYZER_EXPORT_MOMENT_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "export/exporter.h"

namespace gpumem {

// The totals of a GPU at a moment, and their highest values since the window's beginning.
struct DeviceMoment {
  int device = 0;
  uint64_t capacity = 0;  // 0 = not known
  MeasureValues now, highest;
};

enum class MomentKind : uint8_t { kMark, kStageBegin, kStageEnd, kStepEnd, kFailedRequest };

struct LoggedMoment {
  MomentKind kind = MomentKind::kMark;
  std::string name;     // of the mark or stage, "" of the others
  std::string info;     // what a mark has in parentheses: "loss=0.12"
  uint64_t number = 0;  // of the step
  uint64_t since_ns = 0;
  std::vector<DeviceMoment> devices;
};

// How a GPU's memory was used over the window.
struct DeviceHistory {
  DeviceMoment last;
  MeasureValues at_peak;  // when `allocated` was highest, at `at_peak_ns`
  uint64_t at_peak_ns = 0;
  uint64_t highest_total_ns = 0;  // when `last.highest.total` was reached, since the first event
  double total_byte_ns = 0;       // `total` integrated over time
  uint64_t observed_ns = 0;       // over so long
  uint64_t changes = 0;           // events that changed it
};

class MomentLog final : public Exporter {
 public:
  // `device` -1: all that the trace names.
  explicit MomentLog(LoadedTrace* loaded, int device = -1);

  void Begin() override;
  void Take(const ExportedEvent& event) override;
  void Skip(const ExportedEvent& event) override { Follow(event); }
  void End(const LiveState& state) override;

  const std::vector<LoggedMoment>& moments() const { return moments_; }
  const LoggedMoment& initial() const { return initial_; }                // the window's beginning
  const std::vector<DeviceHistory>& devices() const { return devices_; }  // by number
  uint64_t last_ns() const { return last_ns_; }                           // of the last event, since the first

 private:
  struct StepEnd {
    uint64_t event = 0, number = 0;
  };

  void Follow(const ExportedEvent& event);
  void Observe(const ExportedEvent& event);
  void EndSteps(uint64_t next_event);
  void TakeMark(const ExportedEvent& event);
  std::vector<DeviceMoment> Now() const;
  void Add(MomentKind kind, const std::string& text, uint64_t number = 0);

  LoadedTrace* loaded_;
  LoggedMoment initial_;
  std::vector<LoggedMoment> moments_;
  std::vector<DeviceHistory> devices_;
  std::vector<StepEnd> step_ends_;
  size_t next_step_ = 0;
  std::map<uint32_t, std::vector<std::string>> stages_;  // open ones by thread, outermost first
  uint64_t last_ns_ = 0, last_event_ = 0;
  bool has_begun_ = false;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_MOMENT_LOG_H_
