// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/profiler_events.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "import/json_source.h"

namespace gpumem {

uint32_t ProfilerNames::IdOf(absl::string_view text) {
  constexpr uint64_t kEntryBytes = 128;
  const auto known = ids_.find(text);
  if (known != ids_.end()) return known->second;
  const auto id = static_cast<uint32_t>(texts_.size());
  texts_.emplace_back(text);
  ids_.emplace(texts_.back(), id);
  bytes_ += kEntryBytes + text.size();
  return id;
}

namespace {

constexpr size_t kMostThreads = 1 << 20, kMostProfilerDevices = 1024;
constexpr size_t kLongestProfilerName = 4096, kLongestCallStack = 64 << 10;

uint64_t Nanoseconds(double microseconds) {
  return microseconds > 0 && microseconds < 9e15 ? static_cast<uint64_t>(std::llround(microseconds * 1000)) : 0;
}

// Annotations that PyTorch itself makes around what a frame of Python would tell as well.
bool IsOfPyTorch(absl::string_view annotation) {
  return absl::StartsWith(annotation, "Optimizer.") || absl::StartsWith(annotation, "enumerate(DataLoader)#");
}

// One event of the file while it is read.
struct RawEvent {
  std::string name, category, phase, call_stack, modules;
  double time = 0, duration = 0;
  uint64_t process = 0, thread = 0, id = 0;
  uint32_t python_id = 0, python_parent = 0;
  ProfilerMemoryEvent memory;

  void Clear() {
    name.clear();
    category.clear();
    phase.clear();
    call_stack.clear();
    modules.clear();
    time = duration = 0;
    process = thread = id = 0;
    python_id = python_parent = 0;
    memory = {};
  }
};

// Puts events into ProfilerEvents.
class EventCollector {
 public:
  explicit EventCollector(ImportMemory* memory) : memory_(memory) {}

  ProfilerEvents events;

  // False where there is no memory for it.
  bool Add(RawEvent* raw) {
    if (raw->name == "[memory]" || raw->name == "[OutOfMemory]") return AddMemory(raw);
    if (raw->phase == "X") return AddSpan(*raw);
    if (raw->category != "fwdbwd" || (raw->phase != "s" && raw->phase != "f")) return true;
    events.links.push_back({Nanoseconds(raw->time), raw->id, ThreadOf(*raw), raw->phase == "f"});
    return Spend(sizeof(ProfilerLink));
  }

 private:
  // A vector that grows is there twice meanwhile.
  bool Spend(uint64_t bytes) {
    const uint64_t names = events.names.bytes();
    return memory_->Spend(2 * bytes + names - std::exchange(spent_for_names_, names));
  }

  bool AddMemory(RawEvent* raw) {
    raw->memory.failed = raw->name == "[OutOfMemory]";
    raw->memory.time_ns = Nanoseconds(raw->time);
    raw->memory.thread = ThreadOf(*raw);
    events.memory.push_back(raw->memory);
    return Spend(sizeof(ProfilerMemoryEvent));
  }

  bool AddSpan(const RawEvent& raw) {
    const absl::string_view name = absl::string_view(raw.name).substr(0, kLongestProfilerName);
    const bool is_operator = raw.category == "cpu_op" || raw.category == "Operator";  // the latter in older ones
    const bool is_step = is_operator && absl::StartsWith(name, "ProfilerStep#");
    if (is_step || (raw.category == "user_annotation" && !IsOfPyTorch(name))) {
      events.annotations.push_back({events.names.IdOf(name), Nanoseconds(raw.time), Nanoseconds(raw.duration)});
      return Spend(3 * sizeof(ProfilerAnnotation));  // and its two ends
    }
    ProfilerSpan span;
    if (raw.category == "python_function") {
      span.kind = ProfilerSpan::Kind::kPython;
    } else if (raw.category == "user_annotation" || (is_operator && IsOfPyTorch(name))) {
      span.kind = ProfilerSpan::Kind::kAnnotation;
    } else if (is_operator) {
      span.kind = ProfilerSpan::Kind::kOperator;
    } else {
      return true;
    }
    span.begin_ns = Nanoseconds(raw.time);
    span.end_ns = span.begin_ns + Nanoseconds(raw.duration);
    span.name = events.names.IdOf(name);
    span.thread = ThreadOf(raw);
    span.order = static_cast<uint32_t>(events.spans.size());
    span.call_stack = events.names.IdOf(absl::string_view(raw.call_stack).substr(0, kLongestCallStack));
    span.modules = events.names.IdOf(absl::string_view(raw.modules).substr(0, kLongestCallStack));
    span.python_id = raw.python_id;
    span.python_parent = raw.python_parent;
    events.spans.push_back(span);
    return Spend(sizeof(ProfilerSpan));
  }

  // Beyond so many all are the first one's: nothing lies around what they do.
  uint32_t ThreadOf(const RawEvent& raw) {
    const std::pair<uint64_t, uint64_t> key(raw.process, raw.thread);
    if (!events.threads.empty() && events.threads[last_thread_] == key) return last_thread_;
    if (events.threads.size() >= kMostThreads && !threads_.contains(key)) return 0;
    const auto [it, is_new] = threads_.try_emplace(key, static_cast<uint32_t>(events.threads.size()));
    if (is_new) events.threads.push_back(key);
    return last_thread_ = it->second;
  }

  ImportMemory* memory_;
  uint64_t spent_for_names_ = 0;
  uint32_t last_thread_ = 0;
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, uint32_t> threads_;
};

// An event is an object at the second level below "traceEvents", or below the list that the whole file is; its "args"
// are one level deeper.
class EventHandler final : public JsonHandler {
 public:
  EventHandler(ByteSource* source, ImportMemory* memory) : JsonHandler(source), collector(memory) {}

  EventCollector collector;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return Number(static_cast<double>(value), value); }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(static_cast<double>(value), static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    const bool fits = std::abs(value) < 9e18;
    return Number(value, fits ? static_cast<int64_t>(value) : 0);
  }
  bool string(string_t& value) override {
    Advance();
    if (event_depth_ == 0) {
      if (IsInDevice() && key_ == "name") collector.events.devices.back().name = value.substr(0, kLongestProfilerName);
      return true;
    }
    if (depth_ == event_depth_) {
      if (key_ == "name") raw_.name = value;
      if (key_ == "cat") raw_.category = value;
      if (key_ == "ph") raw_.phase = value;
      if (key_ == "pid" || key_ == "tid") Number(0, NumberOf(value));
      double time = 0;
      if ((key_ == "ts" || key_ == "dur") && absl::SimpleAtod(value, &time)) Number(time, 0);
    } else if (depth_ == event_depth_ + 1) {
      int64_t number = 0;
      uint64_t address = 0;
      if (key_ == "Call stack") raw_.call_stack = value;
      if (key_ == "Module Hierarchy") raw_.modules = value;
      if (absl::SimpleAtoi(value, &number)) Argument(number);  // some writers quote numbers
      if (key_ == "Addr" && absl::StartsWith(value, "0x") && absl::SimpleHexAtoi(value, &address))
        raw_.memory.address = address;
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    Advance();
    if (++depth_ > kDeepestJson) return Wrong("is nested too deeply");
    if (event_depth_ == 0 && in_list_ && depth_ == list_depth_ + 1) {
      event_depth_ = depth_;
      raw_.Clear();
    } else if (depth_ == 3 && top_ == "deviceProperties" && collector.events.devices.size() < kMostProfilerDevices) {
      collector.events.devices.emplace_back();
    }
    return true;
  }
  bool end_object() override {
    if (depth_ == event_depth_) {
      event_depth_ = 0;
      if (!collector.Add(&raw_)) return false;
    }
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    Advance();
    if (++depth_ > kDeepestJson) return Wrong("is nested too deeply");
    if (!in_list_ && (depth_ == 1 || (depth_ == 2 && key_ == "traceEvents"))) {
      in_list_ = true;
      list_depth_ = depth_;
    }
    return true;
  }
  bool end_array() override {
    if (in_list_ && depth_ == list_depth_) in_list_ = false;
    --depth_;
    return true;
  }
  bool key(string_t& value) override {
    Advance();
    key_.swap(value);
    if (depth_ == 1) top_ = key_;
    return true;
  }

 private:
  // Threads that are named in words have a number of their own.
  static int64_t NumberOf(const std::string& text) {
    int64_t number = 0;
    if (absl::SimpleAtoi(text, &number)) return number;
    return static_cast<int64_t>(std::hash<std::string>()(text) | uint64_t{1} << 62);
  }
  bool IsInDevice() const { return depth_ == 3 && top_ == "deviceProperties" && !collector.events.devices.empty(); }
  bool Number(double value, int64_t whole) {
    Advance();
    if (event_depth_ == 0) {
      OfFile(whole);
    } else if (depth_ == event_depth_) {
      if (key_ == "ts") raw_.time = value;
      if (key_ == "dur") raw_.duration = value;
      if (key_ == "pid") raw_.process = static_cast<uint64_t>(whole);
      if (key_ == "tid") raw_.thread = static_cast<uint64_t>(whole);
      if (key_ == "id") raw_.id = static_cast<uint64_t>(whole);
    } else if (depth_ == event_depth_ + 1) {
      Argument(whole);
    }
    return true;
  }
  // What is said beside the events.
  void OfFile(int64_t value) {
    if (depth_ == 1 && key_ == "baseTimeNanoseconds" && value > 0)
      collector.events.base_ns = static_cast<uint64_t>(value);
    if (depth_ == 2 && top_ == "distributedInfo") {
      if (key_ == "rank") collector.events.rank = value;
      if (key_ == "world_size") collector.events.world_size = value;
    }
    if (!IsInDevice()) return;
    ProfilerDevice& device = collector.events.devices.back();
    if (key_ == "id") device.id = value;
    if (key_ == "totalGlobalMem" && value > 0) device.total_bytes = static_cast<uint64_t>(value);
    if (key_ == "computeMajor") device.compute_major = static_cast<uint32_t>(value);
    if (key_ == "computeMinor") device.compute_minor = static_cast<uint32_t>(value);
  }
  void Argument(int64_t value) {
    ProfilerMemoryEvent& memory = raw_.memory;
    if (key_ == "Addr") memory.address = static_cast<uint64_t>(value);
    if (key_ == "Bytes") memory.bytes = value;
    if (key_ == "Device Id") memory.device = static_cast<int32_t>(std::clamp<int64_t>(value, -1, INT32_MAX));
    if (key_ == "Device Type") memory.device_type = static_cast<int32_t>(std::clamp<int64_t>(value, 0, INT32_MAX));
    if (key_ == "Total Allocated") {
      memory.total_allocated = static_cast<uint64_t>(value);
      memory.has_total = true;
    }
    if (key_ == "Total Reserved") {
      memory.total_reserved = static_cast<uint64_t>(value);
      memory.has_reserved = true;
    }
    if (key_ == "Python id") raw_.python_id = static_cast<uint32_t>(value);
    if (key_ == "Python parent id") raw_.python_parent = static_cast<uint32_t>(value);
  }

  size_t depth_ = 0, event_depth_ = 0, list_depth_ = 0;
  bool in_list_ = false;
  std::string key_, top_;  // the last key; the last one of the file's own object
  RawEvent raw_;
};

}  // namespace

absl::StatusOr<ProfilerEvents> ReadProfilerEvents(ByteSource* source, ImportMemory* memory) {
  EventHandler handler(source, memory);
  const absl::Status parsed = handler.Parse("Export the profile anew");
  if (!parsed.ok() && source->status().ok() && memory->is_over()) return memory->TooMuch();
  GPUMEM_RETURN_IF_ERROR(parsed);
  return std::move(handler.collector.events);
}

}  // namespace gpumem
