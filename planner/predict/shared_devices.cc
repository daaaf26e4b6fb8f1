// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <map>
#include <set>

#include "planner/predict/forecast.h"

namespace gpumem::plan {
namespace {

struct Member {
  size_t process = 0;
  const DeviceHistory* history = nullptr;
};

uint64_t UseAt(const DeviceHistory& history, uint64_t time_ns) {
  if (time_ns < history.begin_ns || time_ns > history.end_ns) return 0;
  const auto after = std::upper_bound(history.uses.begin(), history.uses.end(), time_ns,
                                      [](uint64_t time, const auto& use) { return time < use.first; });
  return after == history.uses.begin() ? 0 : std::prev(after)->second;
}

// At every instant at which one of them changes.
SharedDevice Together(int device, std::vector<Member> members) {
  SharedDevice shared;
  shared.device = device;
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return a.history->peaks.process > b.history->peaks.process;
  });
  std::set<uint64_t> times;
  for (const Member& member : members) {
    shared.processes.push_back(member.process);
    times.insert(member.history->begin_ns);
    for (const auto& [time_ns, bytes] : member.history->uses) times.insert(time_ns);
  }
  for (const uint64_t time_ns : times) {
    uint64_t in_time = 0, at_once = 0;
    for (const Member& member : members) {
      in_time += UseAt(*member.history, time_ns);
      const bool lives = time_ns >= member.history->begin_ns && time_ns <= member.history->end_ns;
      if (lives) at_once += member.history->peaks.process;
    }
    shared.in_time = std::max(shared.in_time, in_time);
    shared.at_once = std::max(shared.at_once, at_once);
  }
  // Where the clock has a process's peak between two points.
  for (const Member& member : members) shared.in_time = std::max(shared.in_time, member.history->peaks.process);
  shared.at_once = std::max(shared.at_once, shared.in_time);
  return shared;
}

}  // namespace

std::vector<SharedDevice> SharedDevices(const std::vector<PlannedProcess>& processes) {
  std::map<int, std::vector<Member>> by_device;
  for (size_t i = 0; i < processes.size(); ++i) {
    for (const DeviceHistory& history : processes[i].devices) by_device[history.peaks.device].push_back({i, &history});
  }
  std::vector<SharedDevice> shared;
  for (const auto& [device, members] : by_device) shared.push_back(Together(device, members));
  std::stable_sort(shared.begin(), shared.end(),
                   [](const SharedDevice& a, const SharedDevice& b) { return a.in_time > b.in_time; });
  return shared;
}

}  // namespace gpumem::plan
