// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RunRequest: one run of a program on simulated CUDA, as a value: what is started, on which device, for how long.

#ifndef GPUMEM_PLANNER_LAUNCH_RUN_REQUEST_H_
#define GPUMEM_PLANNER_LAUNCH_RUN_REQUEST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/launch/device_profile.h"

namespace gpumem::plan {

// Where the parts are that a run needs.
struct SimulationTools {
  std::string recorder;   // libgpumemshim.so
  std::string launcher;   // simcuda/run
  std::string libraries;  // lib/simcuda
};

struct RunRequest {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // set besides
  DeviceProfile device;
  int device_count = 1;
  int world_size = 0;  // where one process simulates `rank` of so many (ranks.h); 0 = it is what it is
  int rank = 0;
  int local_world_size = 1;              // ranks on its machine
  bool overcommit = true;                // the device gives more than it has, to see how much is wanted
  uint64_t others_mib = 0;               // memory of each device that somebody else holds
  std::string data_dependent = "upper";  // SIMCUDA_DATA_DEPENDENT
  std::string steps = "stable";          // or "stable:N" (N at least), "all", or a number
  enum class Lingers : uint8_t { kNo, kYes, kWhileItFits };
  Lingers lingers = Lingers::kNo;  // whether it goes on after that for some steps, to see whether it ends
  double timeout_s = 300;
  std::string workspaces = "measured";  // SIMCUDA_WORKSPACES
  bool late_events = false;             // events are ready when somebody waits, and not at once
  uint64_t most_reads = 0;  // of device memory by the host, beyond which the program waits for ever; 0 = no limit
  std::string what_if;      // changes.py: "foreach,checkpointing:6"
  std::string pins = "[]";  // injected_script.py
  enum class Values : uint8_t {
    kComputed,  // values that decide are computed where that can be (values.py)
    kOther,     // and where it cannot, reading one gives another than else
    kAllTrue,   // the same, but each condition holds
    kAllFalse,  // or does not
    kNone,      // nothing is computed
  } values = Values::kComputed;
  std::string shares = "[]";  // JSON: [["train.py:57", 0.3]]: which share nonzero and its like find there
  std::string routing;        // which experts unknown routers choose: "balanced", "worst", a seed; "" = not said
  std::string input;          // a file that is standard input; "" = there is none
  std::string folder;         // an empty one, for traces and what the processes say
  bool on_gpu = false;        // the machine's own, not a simulated one: all that describes a device is without meaning
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_LAUNCH_RUN_REQUEST_H_
