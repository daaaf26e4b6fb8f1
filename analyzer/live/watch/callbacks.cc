// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/watch/callbacks.h"

#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/format.h"
#include "base/process.h"

namespace gpumem {
namespace {

// A file in memory with the text, read from its beginning; -1: none to be had.
int FileOf(const std::string& text) {
  const int file = memfd_create("gpumemshim-callback", MFD_CLOEXEC);
  if (file < 0) return -1;
  const bool is_whole = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (is_whole && lseek(file, 0, SEEK_SET) == 0) return file;
  close(file);
  return -1;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Ours without the recorder's preload: a command that is called is none of the program's.
std::vector<std::string> Environment(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** each = environ; *each != nullptr; ++each) {
    if (std::strncmp(*each, "LD_PRELOAD=", 11) != 0) all.emplace_back(*each);
  }
  return all;
}

// In a group of its own, with the signals that a shell expects.
int Spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment, int input, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  sigset_t none, usual;
  sigemptyset(&none);
  sigfillset(&usual);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(pid, command[0].c_str(), &actions, &attributes, Pointers(command).data(),
                                 Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

void CallbackProcess::Start(const std::vector<std::string>& command, const std::vector<std::string>& variables,
                            const std::string& input, uint64_t now_ns, uint64_t deadline_ns) {
  started_ns_ = now_ns;
  deadline_ns_ = deadline_ns;
  const int file = FileOf(input);
  const int error = file < 0 ? errno : Spawn(command, Environment(variables), file, &pid_);
  if (file >= 0) close(file);
  if (error == 0) return;
  pid_ = 0;
  problem_ = absl::StrCat("could not be started: ", command[0], ": ", strerror(error));
}

std::optional<CallbackEnd> CallbackProcess::Poll(uint64_t now_ns) {
  if (!problem_.empty()) return CallbackEnd{false, std::exchange(problem_, "")};
  if (pid_ == 0) return std::nullopt;
  int status = 0;
  const pid_t waited = waitpid(pid_, &status, WNOHANG);
  if (waited == 0 && now_ns < deadline_ns_) return std::nullopt;
  if (waited == 0) {
    Kill();
    return CallbackEnd{false, absl::StrCat("ran longer than ", FormatTime(deadline_ns_ - started_ns_), ", killed")};
  }
  pid_ = 0;
  if (waited < 0) return CallbackEnd{false, "ended, and nobody knows how"};
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return CallbackEnd{false, absl::StrCat("crashed: ", strsignal(number), " (signal ", number, ")")};
  }
  const int code = WEXITSTATUS(status);
  return CallbackEnd{code == 0, absl::StrCat("exited with code ", code)};
}

void CallbackProcess::Kill() {
  if (pid_ == 0) return;
  // The leader is not reaped before, so the group's number is nobody else's.
  kill(-pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  pid_ = 0;
}

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

namespace {

constexpr absl::string_view kThisMachine[] = {"localhost", "127.0.0.1", "[::1]"};

bool IsHostCharacter(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-'; }

bool IsPort(absl::string_view port) {
  uint32_t number = 0;
  return absl::SimpleAtoi(port, &number) && number >= 1 && number <= 65535;
}

bool IsPrintable(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f && c != '\\'; });
}

// As curl reads a value of its configuration.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\"");
}

}  // namespace

std::string WebhookHost(absl::string_view url) {
  const std::string lower = absl::AsciiStrToLower(url);
  absl::string_view rest = lower;
  if (absl::StartsWith(rest, "http://")) {
    rest.remove_prefix(7);
  } else if (absl::StartsWith(rest, "https://")) {
    rest.remove_prefix(8);
  } else {
    return "";
  }
  if (!IsPrintable(rest)) return "";
  absl::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  // An address with a user in it can look like another host's.
  if (absl::StrContains(authority, "@")) return "";
  if (absl::StartsWith(authority, "[")) {
    const size_t end = authority.find(']');
    if (end == absl::string_view::npos) return "";
    const absl::string_view port = authority.substr(end + 1);
    const bool is_fine = port.empty() || (port[0] == ':' && IsPort(port.substr(1)));
    return is_fine ? std::string(authority.substr(0, end + 1)) : "";
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(authority, ':');
  if (parts.size() > 2 || (parts.size() == 2 && !IsPort(parts[1]))) return "";
  const bool is_host = !parts[0].empty() && std::all_of(parts[0].begin(), parts[0].end(), IsHostCharacter);
  return is_host ? std::string(parts[0]) : "";
}

absl::Status CheckWebhook(absl::string_view url, const std::vector<std::string>& hosts) {
  const std::string host = WebhookHost(url);
  if (host.empty())
    return absl::InvalidArgumentError("--webhook takes an http:// or https:// address without a user in it.");
  for (const absl::string_view own : kThisMachine) {
    if (host == own) return absl::OkStatus();
  }
  for (const std::string& allowed : hosts) {
    if (absl::AsciiStrToLower(allowed) == host) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--webhook may not go to ", host, ". Allow it: --allow-host ", host, "."));
}

// -q: no file of the user's home may add anything, for instance redirects.
std::vector<std::string> WebhookCommand() { return {"curl", "-q", "--config", "-"}; }

std::string WebhookInput(absl::string_view url, absl::string_view json, double timeout_s) {
  return absl::StrCat(
      "silent\nshow-error\nfail\ngloboff\nproto = \"=http,https\"\nmax-redirs = 0\nmax-time = ", timeout_s,
      "\noutput = \"/dev/null\"\nheader = \"Content-Type: application/json\"\nurl = ", Quoted(url),
      "\ndata-raw = ", Quoted(json), "\n");
}

}  // namespace gpumem
