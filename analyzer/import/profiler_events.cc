// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/profiler_events.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "import/json_source.h"

namespace gpumem {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostEvents = size_t{3} << 20;
constexpr size_t kLongestProfilerName = 4096, kMostNames = size_t{128} << 20;  // bytes, of one and of all

uint64_t Nanoseconds(double microseconds) {
  return microseconds > 0 && microseconds < 9e15 ? static_cast<uint64_t>(std::llround(microseconds * 1000)) : 0;
}

// An event is an object at the second level below "traceEvents", or below the list that the whole file is; its "args"
// are one level deeper.
class EventHandler final : public nlohmann::json_sax<Json> {
 public:
  explicit EventHandler(const ByteSource* source) : source_(source) {}

  ProfilerEvents events;
  std::string wrong;
  uint64_t token = 0;  // how far the source was when one came last

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
    token = source_->unpacked_bytes();
    if (depth_ != event_depth_ || event_depth_ == 0) return true;
    if (key_ == "name") name_ = value;
    if (key_ == "cat") category_ = value;
    if (key_ == "ph") phase_ = value;
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    token = source_->unpacked_bytes();
    if (++depth_ > kDeepestJson) return Wrong("is nested too deeply");
    if (event_depth_ == 0 && in_list_ && depth_ == list_depth_ + 1) {
      event_depth_ = depth_;
      name_.clear();
      category_.clear();
      phase_.clear();
      memory_ = {};
      time_ = duration_ = 0;
    }
    return true;
  }
  bool end_object() override {
    if (depth_ == event_depth_) {
      event_depth_ = 0;
      if (!Finish()) return false;
    }
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    token = source_->unpacked_bytes();
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
    token = source_->unpacked_bytes();
    key_.swap(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Wrong(absl::StrCat("is no JSON, or cut short, at byte ", position));
  }

 private:
  bool Wrong(std::string what) {
    if (wrong.empty()) wrong = std::move(what);
    return false;
  }
  bool Number(double value, int64_t whole) {
    token = source_->unpacked_bytes();
    if (depth_ == 1 && key_ == "baseTimeNanoseconds" && whole > 0) events.base_ns = static_cast<uint64_t>(whole);
    if (event_depth_ == 0) return true;
    if (depth_ == event_depth_) {
      if (key_ == "ts") time_ = value;
      if (key_ == "dur") duration_ = value;
      if (key_ == "tid") memory_.thread = static_cast<uint64_t>(whole);
    } else if (depth_ == event_depth_ + 1) {
      Argument(whole);
    }
    return true;
  }
  void Argument(int64_t value) {
    if (key_ == "Addr") memory_.address = static_cast<uint64_t>(value);
    if (key_ == "Bytes") memory_.bytes = value;
    if (key_ == "Device Id") memory_.device = value;
    if (key_ == "Device Type") memory_.device_type = value;
    if (key_ == "Total Allocated") memory_.total_allocated = static_cast<uint64_t>(value);
    if (key_ == "Total Reserved") memory_.total_reserved = static_cast<uint64_t>(value);
  }
  bool Finish() {
    if (events.memory.size() + events.annotations.size() > kMostEvents || names_ > kMostNames) {
      return Wrong(absl::StrCat("has more than ", kMostEvents, " memory events and ranges, or very long names. ",
                                "Profile fewer steps"));
    }
    if (name_ == "[memory]") {
      memory_.time_ns = Nanoseconds(time_);
      events.memory.push_back(memory_);
    } else if (category_ == "user_annotation" && phase_ == "X") {
      events.annotations.push_back({name_.substr(0, kLongestProfilerName), Nanoseconds(time_), Nanoseconds(duration_)});
      names_ += events.annotations.back().name.size();
    }
    return true;
  }

  const ByteSource* source_;
  size_t depth_ = 0, event_depth_ = 0, list_depth_ = 0, names_ = 0;
  bool in_list_ = false;
  std::string key_, name_, category_, phase_;
  double time_ = 0, duration_ = 0;
  ProfilerMemoryEvent memory_;
};

}  // namespace

absl::StatusOr<ProfilerEvents> ReadProfilerEvents(ByteSource* source) {
  EventHandler handler(source);
  const bool parsed = Json::sax_parse(JsonBytes(source, &handler.token), JsonBytes(), &handler);
  if (!source->status().ok()) return source->status();
  if (!parsed) {
    return absl::DataLossError(
        absl::StrCat(handler.wrong.empty() ? "is no JSON" : handler.wrong, ". Export the profile anew"));
  }
  return std::move(handler.events);
}

}  // namespace gpumem
