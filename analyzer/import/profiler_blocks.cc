// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/profiler_blocks.h"

#include <algorithm>
#include <iterator>

#include "base/status_macros.h"

namespace gpumem {
namespace {

constexpr int32_t kMostDevices = 1024;
// Where nothing lies: blocks whose address is not stated.
constexpr uint64_t kMadeAddress = 0xfff0000000000000, kMadeRange = uint64_t{1} << 47, kMadeStep = 512;
constexpr uint64_t kBlockBytes = 96;  // of an entry of the tables here, at the most

constexpr absl::string_view kKindNames[] = {"",     "CUDA", "",    "OpenGL", "OpenCL", "",     "HIP",
                                            "FPGA", "MAIA", "XLA", "Vulkan", "Metal",  "XPU",  "MPS",
                                            "",     "HPU",  "VE",  "Lazy",   "IPU",    "MTIA", "PrivateUse1"};

}  // namespace

absl::string_view DeviceKindName(int32_t device_type) {
  const auto kind = static_cast<size_t>(device_type);
  return kind < std::size(kKindNames) ? kKindNames[kind] : "device of a newer PyTorch";
}

// Gives each device its number in the trace.
void ProfilerBlocks::Number() {
  std::map<int32_t, uint64_t> events;  // by kind
  std::map<std::pair<int32_t, int32_t>, int> numbers;
  for (const ProfilerMemoryEvent& event : events_) {
    ++events[event.device_type];
    numbers[{event.device_type, event.device}] = 0;
  }
  const auto most =
      std::max_element(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  int next = 0;
  for (auto& [device, number] : numbers) {
    if (device.first == most->first) next = std::max(next, (number = device.second) + 1);
  }
  for (auto& [device, number] : numbers) {
    if (device.first != most->first) number = next++;
    devices_[number].kind = device.first;
    devices_[number].id = device.second;
  }
  for (ProfilerMemoryEvent& event : events_) event.device = numbers[{event.device_type, event.device}];
}

// One that no block had before.
uint64_t ProfilerBlocks::NewAddress(const SizeKey& key) {
  const uint64_t address = kMadeAddress + next_address_;
  const uint64_t step = std::min(key.second, kMadeRange) / kMadeStep * kMadeStep + kMadeStep;
  next_address_ += next_address_ + step < kMadeRange ? step : kMadeStep;
  return address;
}

absl::Status ProfilerBlocks::MakeAddress(ProfilerMemoryEvent* event, ProfilerDeviceUse* device) {
  if (!memory_.Spend(kBlockBytes)) return memory_.TooMuch();
  const SizeKey key(event->device, SizeOf(*event));
  if (event->bytes >= 0) {
    std::vector<uint64_t>& free = free_[key];
    event->address = free.empty() ? NewAddress(key) : free.back();
    if (!free.empty()) free.pop_back();
    held_[key].push_back(event->address);
    return absl::OkStatus();
  }
  ++device->matched_by_size;
  std::vector<uint64_t>& held = held_[key];
  if (held.empty()) {
    event->address = NewAddress(key);
  } else {
    event->address = held.back();
    held.pop_back();
  }
  free_[key].push_back(event->address);
  return absl::OkStatus();
}

void ProfilerBlocks::Count(const ProfilerMemoryEvent& event, size_t i, ProfilerDeviceUse* device) {
  const bool is_first = seen_.insert({event.device, event.address}).second;
  if (is_first && event.bytes < 0) device->freed.push_back(i);
  if (!device->has_totals) {
    if (is_first && event.bytes < 0) device->before += SizeOf(event);
    return;
  }
  const auto bytes = static_cast<uint64_t>(event.bytes);
  const auto [total, is_new] = total_.try_emplace(event.device, event.total_allocated - bytes);
  if (is_new) {
    const auto before = static_cast<int64_t>(total->second);
    device->before = before > 0 ? static_cast<uint64_t>(before) : 0;
  }
  total->second += bytes;
  if (total->second == event.total_allocated) return;
  if (device->disagreeing++ == 0) device->first_wrong_ns = event.time_ns;
}

absl::Status ProfilerBlocks::Find() {
  std::erase_if(events_, [this](const ProfilerMemoryEvent& event) {
    const bool is_of_device =
        !DeviceKindName(event.device_type).empty() && event.device >= 0 && event.device < kMostDevices;
    of_host_ += is_of_device ? 0 : 1;
    return !is_of_device;
  });
  if (events_.empty()) return absl::OkStatus();
  // stable_sort takes half of them once more.
  if (!memory_.Spend(events_.size() * (sizeof(ProfilerMemoryEvent) / 2 + kBlockBytes))) return memory_.TooMuch();
  std::stable_sort(events_.begin(), events_.end(), [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  Number();
  for (const ProfilerMemoryEvent& event : events_) {
    ProfilerDeviceUse& device = devices_[event.device];
    device.has_totals |= event.has_total && event.total_allocated != 0;
    device.has_reserved |= event.has_reserved && event.total_reserved != 0;
  }
  for (size_t i = 0; i < events_.size(); ++i) {
    ProfilerMemoryEvent& event = events_[i];
    ProfilerDeviceUse& device = devices_[event.device];
    if (event.failed) continue;
    if (event.address == 0) GPUMEM_RETURN_IF_ERROR(MakeAddress(&event, &device));
    Count(event, i, &device);
  }
  return absl::OkStatus();
}

}  // namespace gpumem
