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

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// CallbackProcess: a command of the user's that runs beside us and can hold up nobody: it is never waited for, has a
// process group of its own, and is killed with all of it at its deadline. It reads a text on standard input; what it
// prints goes to our standard error. Time is the caller's, in ns of one clock.
//
// Not thread-safe. Failure: an end with a text that says what happened.
//
//   CallbackProcess process;
//   process.Start({"/bin/sh", "-c", command}, {"GPUMEMSHIM_RISK=high"}, json, now_ns + 30'000'000'000);
//   if (const auto end = process.Poll(now_ns)) end->text;    // "exited with code 3"

struct CallbackEnd {
  bool is_fine = false;
  std::string text;
};

class CallbackProcess {
 public:
  CallbackProcess() = default;
  CallbackProcess(const CallbackProcess&) = delete;
  CallbackProcess& operator=(const CallbackProcess&) = delete;
  ~CallbackProcess() { Kill(); }

  // Not while one runs. Where it cannot be started the next Poll says why. `variables`: "NAME=value", beside ours.
  void Start(const std::vector<std::string>& command, const std::vector<std::string>& variables,
             const std::string& input, uint64_t now_ns, uint64_t deadline_ns);

  bool is_running() const { return pid_ != 0; }
  // How it ended, once; kills it at its deadline.
  std::optional<CallbackEnd> Poll(uint64_t now_ns);
  // Ends it now, with all that it started in its group.
  void Kill();

 private:
  pid_t pid_ = 0;
  uint64_t started_ns_ = 0, deadline_ns_ = 0;
  std::string problem_;
};

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

// Where a webhook may go: an http or https address whose host is on a list that the user wrote. This machine itself is
// always on it. Redirects are not followed. The request is made by curl, so that TLS and proxies are as everywhere else
// on the machine. Pure functions.
//
//   GPUMEM_RETURN_IF_ERROR(CheckWebhook("https://hooks.example.org/T1", {"hooks.example.org"}));

// Lower case, without user, port and path; "" where it is not an http or https address.
std::string WebhookHost(absl::string_view url);

// InvalidArgument, with the flag to give, where it may not go there.
absl::Status CheckWebhook(absl::string_view url, const std::vector<std::string>& hosts);

// The command that posts, and what it reads on standard input: the address is a secret, and arguments are seen by
// everybody on the machine.
std::vector<std::string> WebhookCommand();
std::string WebhookInput(absl::string_view url, absl::string_view json, double timeout_s);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_WATCH_CALLBACKS_H_
