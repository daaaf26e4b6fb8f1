// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Callbacks: what the user wants done at a warning: a command, a webhook, a signal to the program. Fire starts all of
// them and returns at once; Poll says which ended, and how. One of each kind runs at a time: where the one before still
// runs, the next is left out, and that is reported.
//
// A signal is sent only to a process that has a handler for it, since the usual answer to SIGUSR1 is to die.
//
// Not thread-safe. Failure: a report whose is_fine is false; nothing is thrown away silently.
//
//   Callbacks callbacks({.command = "./checkpoint.sh"});
//   callbacks.Fire({pid, json, variables}, now_ns);
//   for (const CallbackReport& report : callbacks.Poll(now_ns)) Complain(report.action, report.text);

#ifndef GPUMEM_ANALYZER_LIVE_WATCH_CALLBACKS_H_
#define GPUMEM_ANALYZER_LIVE_WATCH_CALLBACKS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "live/watch/callback_process.h"

namespace gpumem {

struct CallbackSettings {
  std::string command;  // for /bin/sh; "" = none
  std::string webhook;
  std::vector<std::string> hosts;  // that it may go to
  int signal = 0;                  // 0 = none
  double timeout_s = 30;
};

struct CallbackCall {
  int pid = 0;       // the program; 0 = not on this machine, or it has ended
  std::string json;  // one line
  std::vector<std::string> variables;
};

struct CallbackReport {
  std::string action;  // "exec", "webhook", "signal"
  bool is_fine = false;
  std::string text;  // "exited with code 3"
};

// "USR1", "SIGUSR2", "HUP", "34" as a number. InvalidArgument for others, and for those that no program can handle.
absl::StatusOr<int> SignalOf(const std::string& name);

class Callbacks {
 public:
  explicit Callbacks(const CallbackSettings& settings) : settings_(settings) {}

  void Fire(const CallbackCall& call, uint64_t now_ns);
  // What ended, or could not be done, since the last time.
  std::vector<CallbackReport> Poll(uint64_t now_ns);
  bool are_running() const;

 private:
  enum Kind : uint8_t { kExec, kWebhook };
  void StartOne(Kind kind, const std::vector<std::string>& command, const std::vector<std::string>& variables,
                const std::string& input, uint64_t now_ns);
  void Signal(int pid);

  const CallbackSettings settings_;
  std::array<CallbackProcess, 2> processes_;  // by kind
  std::vector<CallbackReport> reports_;       // to be polled
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_WATCH_CALLBACKS_H_
