// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TraceFollower::Frame: what was counted, as it is shown.

#include <time.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "ledger/stacks/symbolized_stacks.h"
#include "live/trace_follower.h"

namespace gpumem {
namespace {

constexpr uint64_t kCompared = 60'000'000'000;  // changes are since so long ago, or since the first frame
constexpr size_t kMaxLines = 200;

// A process of this machine has our clock; of another one the two agree about the time of day.
std::optional<uint64_t> HeartbeatAge(const ProcessInfo& process, uint64_t newest_ns, bool is_local) {
  const auto since = [](clockid_t clock, uint64_t then_ns) {
    timespec now{};
    clock_gettime(clock, &now);
    const uint64_t now_ns = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
    return now_ns - std::min(now_ns, then_ns);
  };
  if (is_local) return since(CLOCK_MONOTONIC, newest_ns);
  if (process.anchor_realtime_ns == 0) return std::nullopt;
  return since(CLOCK_REALTIME, process.anchor_realtime_ns + (newest_ns - process.anchor_monotonic_ns));
}

}  // namespace

absl::string_view LiveStateName(LiveProcess::State state) {
  switch (state) {
    case LiveProcess::State::kRunning:
      return "running";
    case LiveProcess::State::kEnded:
      return "ended";
    case LiveProcess::State::kKilled:
      return "killed";
    case LiveProcess::State::kUnknown:
      break;
  }
  return "unknown";
}

LiveProcess::State TraceFollower::StateNow() const {
  if (tally_.complete()) return LiveProcess::State::kEnded;
  if (reader_.process() == ProcessState::kEnded) return LiveProcess::State::kKilled;
  return reader_.process() == ProcessState::kRunning ? LiveProcess::State::kRunning : LiveProcess::State::kUnknown;
}

LiveDevice TraceFollower::DeviceOf(uint32_t slot) const {
  LiveDevice device;
  device.device = DeviceOfSlot(slot);
  if (const auto it = reader_.stacks().devices().find(device.device); it != reader_.stacks().devices().end()) {
    device.name = it->second.name;
    device.capacity = it->second.total_bytes;
  }
  const bool is_over = at_program_end_ && slot < at_program_end_->values.size();
  device.now = is_over ? at_program_end_->values[slot] : replay_.state().values(slot);
  device.is_unsure = !replay_.state().IsSure(slot);
  if (const DeviceSeries* const series = tally_.series(slot)) {
    device.peak = {series->peak_allocated().bytes, series->peak_reserved().bytes, series->peak_other().bytes,
                   series->peak_total().bytes};
    if (tally_.losses().MissesEvents() || replay_.state().has_gap() || series->is_raised())
      device.bound = series->is_about() ? PeakBound::kAbout : PeakBound::kAtLeast;
    Timeline curve = series->timeline();
    curve.Finish(tally_.now_ns(), replay_.replay().index());
    device.curve = curve.Points();
  }
  if (const DeviceStatement* const said = tally_.statement(slot)) {
    device.used = said->used;
    device.own = said->own;
    device.others = said->others;
    device.said_ns = said->time_ns;
  }
  return device;
}

void TraceFollower::AddDevices(LiveProcess* frame) const {
  const LiveState& state = replay_.state();
  for (uint32_t slot = 0; slot < state.slots(); ++slot) {
    if (!state.accounts().devices[slot].seen) continue;
    const DeviceSeries* const series = tally_.series(slot);
    // "No device" matters only where device memory came without one.
    const bool has_memory = series != nullptr && series->peak_total().bytes + series->peak_allocated().bytes > 0;
    if (slot != 0 || has_memory) frame->devices.push_back(DeviceOf(slot));
  }
}

void TraceFollower::AddLines(const Detail& detail, LiveProcess* frame) {
  absl::flat_hash_map<uint64_t, std::pair<uint64_t, Category>> largest;  // by stack: of its uses
  for (const AttributedUse& use : detail.moment.uses) {
    auto& of_stack = largest[use.stack_id];
    if (use.bytes > of_stack.first) of_stack = {use.bytes, use.category};
  }
  Analysis analysis;
  analysis.process = process_;
  SymbolizedStacks names(&reader_.stacks(), symbolizer_.get());
  ReportInput input;
  input.analysis = &analysis;
  input.stacks = &names;
  for (const StackGroup& group : GroupStacks(detail.stacks, input, false)) {
    frame->lines_bytes += group.use.bytes;
    if (frame->lines.size() >= kMaxLines) continue;
    LiveLine line;
    line.site = group.view.site;
    line.through = group.view.through;
    line.bytes = group.use.bytes;
    line.blocks = group.use.count;
    if (const auto use = largest.find(group.use.stack_id); use != largest.end()) line.category = use->second.second;
    frame->lines.push_back(std::move(line));
  }
  CompareWithEarlier(frame);
}

void TraceFollower::CompareWithEarlier(LiveProcess* frame) {
  while (earlier_.size() > 1 && earlier_[1].time_ns + kCompared <= tally_.now_ns()) earlier_.pop_front();
  if (!earlier_.empty() && earlier_.front().time_ns < tally_.now_ns()) {
    const Lines& before = earlier_.front();
    frame->changes_since_ns = frame->now_ns - (tally_.now_ns() - before.time_ns);
    for (LiveLine& line : frame->lines) {
      const auto found = before.bytes.find(line.site);
      line.change =
          static_cast<int64_t>(line.bytes) - static_cast<int64_t>(found == before.bytes.end() ? 0 : found->second);
    }
  }
  if (!earlier_.empty() && earlier_.back().time_ns == tally_.now_ns()) return;
  Lines& kept = earlier_.emplace_back();
  kept.time_ns = tally_.now_ns();
  for (const LiveLine& line : frame->lines) kept.bytes[line.site] = line.bytes;
}

void TraceFollower::AddSteps(LiveProcess* frame) const {
  StepLevels levels;
  std::vector<double> took;
  Outlook& outlook = frame->outlook;
  for (const Step& step : tally_.index().steps().steps()) {
    took.push_back(static_cast<double>(step.end.time_ns - step.start.time_ns));
    if (!step.complete) continue;
    levels.allocated.push_back(static_cast<double>(step.peak.values.allocated));
    levels.reserved.push_back(static_cast<double>(step.peak.values.reserved));
    levels.beside.push_back(static_cast<double>(step.peak.values.other));
    outlook.level = step.peak.values.allocated;
    outlook.last_step = step.number;
  }
  outlook.device = frame->device;
  outlook.steps = levels.allocated.size();
  outlook.step_ns = StepPace(std::move(took));
  outlook.has_cause = false;
  outlook.misses_events = frame->losses.MissesEvents() || replay_.state().has_gap();
  frame->steps = {outlook.steps, outlook.last_step, outlook.step_ns, outlook.level, 0};
  const auto device = std::find_if(frame->devices.begin(), frame->devices.end(),
                                   [&](const LiveDevice& each) { return each.device == frame->device; });
  if (device == frame->devices.end()) {
    outlook.sentence = "not known: there is no GPU memory in this trace";
    return;
  }
  outlook.overhead = outlook.beside = device->now.other;
  if (const DeviceStatement* const said = tally_.statement(SlotOfDevice(device->device))) {
    if (said->own && *said->own > said->reserved) outlook.overhead = *said->own - said->reserved;
    for (const OtherProcess& other : said->others) outlook.overhead += other.bytes == kNotStated ? 0 : other.bytes;
  }
  if (device->capacity > outlook.overhead)
    outlook.limit.low = outlook.limit.high = static_cast<double>(device->capacity - outlook.overhead);
  JudgeOutlook(std::move(levels), &outlook);
  frame->steps.per_step = outlook.forecast.per_step;
}

LiveProcess TraceFollower::Begin() const {
  LiveProcess frame;
  frame.file = path_;
  frame.process = process_;
  frame.state = StateNow();
  frame.is_local = reader_.process() == ProcessState::kRunning;
  frame.file_bytes = reader_.file_bytes();
  frame.read = is_through_ || frame.file_bytes == 0
                   ? 1
                   : static_cast<double>(reader_.position()) / static_cast<double>(frame.file_bytes);
  frame.origin_ns = tally_.origin_ns();
  frame.now_ns = tally_.now_ns() - tally_.origin_ns();
  frame.events = tally_.calls();
  frame.failed_requests = tally_.failed_requests();
  frame.losses = tally_.losses();
  frame.losses.missing_packets = reader_.missing_packets();
  frame.losses.missing_events = reader_.missing_events();
  frame.problem = reader_.damage();
  frame.losses.damaged_bytes = frame.problem.empty() ? 0 : reader_.damaged_bytes();
  for (const MarkEntry& mark : tally_.marks().entries()) {
    if (mark.kind == trace::MARK) frame.last_mark = mark.text;
  }
  AddDevices(&frame);
  if (MayGrow(frame) && frame.read >= 1 && frame.origin_ns != 0)
    frame.heartbeat_age_ns = HeartbeatAge(frame.process, tally_.now_ns(), frame.is_local);
  return frame;
}

LiveProcess TraceFollower::BriefFrame() const {
  LiveProcess frame = Begin();
  const uint32_t slot = tally_.focus().slot;
  if (tally_.series(slot) != nullptr) {
    frame.device = DeviceOfSlot(slot);
    frame.measure = tally_.focus().measure;
  }
  AddSteps(&frame);
  return frame;
}

LiveProcess TraceFollower::Frame() {
  LiveProcess frame = Begin();
  const Detail detail = at_program_end_ ? *at_program_end_ : TakeDetail();
  frame.at_program_end = at_program_end_.has_value();
  if (detail.found) {
    frame.device = DeviceOfSlot(tally_.focus().slot);
    frame.measure = tally_.focus().measure;
    frame.has_categories = tally_.index().has_tensors() || tally_.index().has_saved();
    frame.categories = detail.moment.categories;
    AddLines(detail, &frame);
  }
  AddSteps(&frame);
  return frame;
}

}  // namespace gpumem
