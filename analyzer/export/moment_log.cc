// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/moment_log.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "export/exporter.h"
#include "replay/mark_log.h"
#include "replay/state/accounts.h"
#include "trace/mark_ranges.h"

namespace gpumem {
namespace {

// Stages inside stages that are followed; a program that never ends one cannot fill memory with them.
constexpr size_t kDeepest = 64;

void Raise(const MeasureValues& now, MeasureValues* highest) {
  highest->allocated = std::max(highest->allocated, now.allocated);
  highest->reserved = std::max(highest->reserved, now.reserved);
  highest->other = std::max(highest->other, now.other);
  highest->total = std::max(highest->total, now.total);
}

}  // namespace

MomentLog::MomentLog(LoadedTrace* loaded, int device) : loaded_(loaded) {
  for (const DeviceAnalysis& each : loaded->analysis.devices) {
    if (device >= 0 && each.device != device) continue;
    DeviceHistory& history = devices_.emplace_back();
    history.last.device = each.device;
    history.last.capacity = each.capacity;
  }
  initial_.devices = Now();
}

void MomentLog::Begin() {
  for (const AttributedStep& each : StepsOf(loaded_)) {
    if (each.step.complete) step_ends_.push_back({each.step.end.event_index, each.step.number});
  }
}

void MomentLog::Take(const ExportedEvent& event) {
  if (!has_begun_) {  // the highest values count from what the window began with
    for (DeviceHistory& device : devices_) {
      device.last.highest = device.at_peak = device.last.now;
      device.at_peak_ns = last_ns_;
    }
    initial_.devices = Now();
    initial_.since_ns = last_ns_;
  }
  has_begun_ = true;
  EndSteps(event.index);
  Observe(event);
  if (event.row.kind == trace::ALLOC_FAILED && event.row.layer == trace::TORCH) Add(MomentKind::kFailedRequest, "");
  TakeMark(event);
}

void MomentLog::End(const LiveState&) {
  if (has_begun_) EndSteps(last_event_ + 1);
}

// A step's end is the state behind its last event: the one before `next_event`.
void MomentLog::EndSteps(uint64_t next_event) {
  for (; next_step_ < step_ends_.size() && step_ends_[next_step_].event < next_event; ++next_step_)
    Add(MomentKind::kStepEnd, "", step_ends_[next_step_].number);
}

void MomentLog::Follow(const ExportedEvent& event) {
  while (next_step_ < step_ends_.size() && step_ends_[next_step_].event < event.index) ++next_step_;
  for (DeviceHistory& device : devices_) {
    const uint32_t slot = SlotOfDevice(device.last.device);
    if (slot < event.state.slots()) device.last.now = event.state.values(slot);
  }
  last_ns_ = event.since_ns;
}

void MomentLog::Observe(const ExportedEvent& event) {
  const uint64_t passed = event.since_ns - std::min(event.since_ns, last_ns_);
  last_ns_ = std::max(last_ns_, event.since_ns);
  last_event_ = event.index;
  for (DeviceHistory& device : devices_) {
    DeviceMoment& last = device.last;
    device.total_byte_ns += static_cast<double>(last.now.total) * static_cast<double>(passed);
    device.observed_ns += passed;
    const uint32_t slot = SlotOfDevice(last.device);
    if (slot != event.slot || slot >= event.state.slots()) continue;
    const MeasureValues& now = event.state.values(slot);
    if (now.allocated != last.now.allocated || now.reserved != last.now.reserved || now.other != last.now.other)
      ++device.changes;
    if (now.total > last.highest.total) device.highest_total_ns = event.since_ns;
    if (now.allocated > last.highest.allocated) {
      device.at_peak = now;
      device.at_peak_ns = event.since_ns;
    }
    last.now = now;
    Raise(now, &last.highest);
  }
}

void MomentLog::TakeMark(const ExportedEvent& event) {
  const EventRow& row = event.row;
  const std::string& text = loaded_->stacks.string(row.text);
  const auto tid = static_cast<uint32_t>(row.stream != 0 ? row.stream : row.thread);
  switch (row.kind) {
    case trace::MARK:
      if (row.handle != kProgramEndMark) Add(MomentKind::kMark, text);
      break;
    case trace::RANGE_PUSH:
      if (stages_[tid].size() < kDeepest) stages_[tid].push_back(text);
      if (!IsLibraryRange(text)) Add(MomentKind::kStageBegin, text);
      break;
    case trace::RANGE_POP: {
      std::vector<std::string>& open = stages_[tid];
      if (open.empty()) break;
      if (!IsLibraryRange(open.back())) Add(MomentKind::kStageEnd, open.back());
      open.pop_back();
      break;
    }
    default:
      break;
  }
}

std::vector<DeviceMoment> MomentLog::Now() const {
  std::vector<DeviceMoment> now;
  for (const DeviceHistory& device : devices_) now.push_back(device.last);
  return now;
}

void MomentLog::Add(MomentKind kind, const std::string& text, uint64_t number) {
  LoggedMoment& moment = moments_.emplace_back();
  moment.kind = kind;
  moment.name = text;
  moment.number = number;
  moment.since_ns = last_ns_;
  const size_t info = text.find(" (");  // as gpumemshim.mark writes fields behind the name
  if (kind == MomentKind::kMark && info != std::string::npos && absl::EndsWith(text, ")")) {
    moment.name = text.substr(0, info);
    moment.info = text.substr(info + 2, text.size() - info - 3);
  }
  moment.devices = Now();
}

}  // namespace gpumem
