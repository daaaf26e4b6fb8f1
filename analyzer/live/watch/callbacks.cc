// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/watch/callbacks.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/process_status.h"
#include "live/watch/webhook.h"

namespace gpumem {
namespace {

constexpr const char* kNames[] = {"exec", "webhook"};

// Those that programs handle for purposes of their own.
struct Named {
  absl::string_view name;
  int number;
};
constexpr Named kSignals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"TERM", SIGTERM},   {"USR1", SIGUSR1},
                              {"USR2", SIGUSR2}, {"CONT", SIGCONT}, {"WINCH", SIGWINCH}, {"URG", SIGURG}};

std::string SignalName(int signal) {
  for (const Named& each : kSignals) {
    if (each.number == signal) return absl::StrCat("SIG", each.name);
  }
  return absl::StrCat("signal ", signal);
}

// A bit for each signal that it has a handler for (proc(5), SigCgt).
bool Handles(int pid, int signal) {
  uint64_t caught = 0;
  const std::string text = ProcessStatus(pid, "SigCgt");
  return absl::SimpleHexAtoi(text, &caught) && ((caught >> (signal - 1)) & 1) != 0;
}

}  // namespace

absl::StatusOr<int> SignalOf(const std::string& name) {
  int number = 0;
  const std::string upper = absl::AsciiStrToUpper(name);
  const std::string bare = absl::StartsWith(upper, "SIG") ? upper.substr(3) : upper;
  if (!absl::SimpleAtoi(bare, &number)) {
    for (const Named& each : kSignals) {
      if (bare == each.name) number = each.number;
    }
  }
  const bool can_be_handled = number >= 1 && number <= SIGRTMAX && number != SIGKILL && number != SIGSTOP;
  if (can_be_handled) return number;
  return absl::InvalidArgumentError(absl::StrCat(
      "--signal takes the name or number of a signal that a program can handle, such as USR1, not ", name, "."));
}

void Callbacks::StartOne(Kind kind, const std::vector<std::string>& command, const std::vector<std::string>& variables,
                         const std::string& input, uint64_t now_ns) {
  CallbackProcess& process = processes_[kind];
  if (process.is_running()) {
    reports_.push_back({kNames[kind], false, "not called: the one before still runs"});
    return;
  }
  const auto timeout_ns = static_cast<uint64_t>(settings_.timeout_s * 1e9);
  process.Start(command, variables, input, now_ns, now_ns + timeout_ns);
}

void Callbacks::Signal(int pid) {
  const std::string name = SignalName(settings_.signal);
  const auto report = [&](bool is_fine, std::string text) { reports_.push_back({"signal", is_fine, std::move(text)}); };
  if (pid <= 0 || HasEnded(pid)) return report(false, absl::StrCat(name, " not sent: the program does not run here"));
  if (!Handles(pid, settings_.signal))
    return report(false, absl::StrCat(name, " not sent: the program has no handler for it"));
  const bool is_sent = kill(pid, settings_.signal) == 0;
  report(is_sent, is_sent ? absl::StrCat(name, " sent") : absl::StrCat(name, " not sent: ", strerror(errno)));
}

void Callbacks::Fire(const CallbackCall& call, uint64_t now_ns) {
  if (!settings_.command.empty())
    StartOne(kExec, {"/bin/sh", "-c", settings_.command}, call.variables, call.json, now_ns);
  if (!settings_.webhook.empty())
    StartOne(kWebhook, WebhookCommand(), {}, WebhookInput(settings_.webhook, call.json, settings_.timeout_s), now_ns);
  if (settings_.signal != 0) Signal(call.pid);
}

std::vector<CallbackReport> Callbacks::Poll(uint64_t now_ns) {
  for (size_t kind = 0; kind < processes_.size(); ++kind) {
    if (const auto end = processes_[kind].Poll(now_ns)) reports_.push_back({kNames[kind], end->is_fine, end->text});
  }
  return std::exchange(reports_, {});
}

bool Callbacks::are_running() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const auto& each) { return each.is_running(); });
}

}  // namespace gpumem
