// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/run_pool.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/launch/program.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

constexpr int kLookMs = 5;
constexpr size_t kMaxSkipped = 8;  // modules, before a program counts as hopeless

std::string KeyOf(const PythonCommand& program, const RunRequest& run) {
  std::string key = absl::StrCat(absl::StrJoin(program.interpreter, "\n"), "\n", program.script, "\n", program.module);
  for (const auto& [name, value] : run.environment) absl::StrAppend(&key, "\n", name, "=", value);
  return key;
}

// What a run left that was ended before its time and begins again.
void Empty(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) fs::remove_all(entry.path(), error);
}

}  // namespace

RunPool::RunPool(SimulationTools tools, std::string folder, Start start)
    : tools_(std::move(tools)), folder_(std::move(folder)), start_(start) {}

RunPool::~RunPool() {
  for (const auto& [id, one] : runs_) {
    if (one.pid == 0) continue;
    kill(-one.pid, SIGKILL);
    if (one.server.empty()) waitpid(one.pid, nullptr, 0);
  }
}

absl::Status RunPool::Begin(int id, const RunRequest& run) {
  OneRun& one = runs_[id];
  one = OneRun{run, "", 0, MonotonicSeconds(), 0, false};
  const std::optional<PythonCommand> program = ParsePythonCommand(run.command);
  if (start_ == Start::kFresh || !program.has_value() || !run.directory.empty()) return BeginFresh(&one);
  const std::string key = KeyOf(*program, run);
  if (hopeless_.contains(key)) return BeginFresh(&one);
  OneServer& server = servers_[key];
  if (server.server == nullptr) {
    server.program = *program;
    GPUMEM_RETURN_IF_ERROR(StartServer(run, &server));
  }
  one.server = key;
  return Send(id, &one, &server);
}

absl::Status RunPool::BeginFresh(OneRun* one) {
  one->server.clear();
  GPUMEM_ASSIGN_OR_RETURN(const std::string injected_script, WriteInjectedScript(one->run.folder));
  GPUMEM_ASSIGN_OR_RETURN(
      one->pid, StartProgram({ProgramWords(tools_, one->run.on_gpu, one->run.command),
                              ProgramEnvironment(tools_, one->run, injected_script),
                              absl::StrCat(one->run.folder, "/output"), one->run.input, -1, one->run.directory}));
  one->started = MonotonicSeconds();
  return absl::OkStatus();
}

absl::Status RunPool::StartServer(const RunRequest& like, OneServer* one) {
  RunRequest run = like;
  run.folder = absl::StrCat(folder_, "/server", ++servers_started_);
  std::error_code error;
  fs::create_directories(run.folder, error);
  one->is_ready = false;
  one->started = MonotonicSeconds();
  GPUMEM_ASSIGN_OR_RETURN(one->server, ForkServer::Start(tools_, run, one->program, one->skip));
  return absl::OkStatus();
}

// Where it is gone, its next message says so.
absl::Status RunPool::Send(int id, OneRun* one, OneServer* server) {
  one->pid = 0;
  GPUMEM_ASSIGN_OR_RETURN(const std::string injected_script, WriteInjectedScript(one->run.folder));
  server->server->Send(id, one->run, injected_script, ParsePythonCommand(one->run.command)->arguments);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<EndedRun>> RunPool::Wait(double seconds) {
  std::vector<EndedRun> ended;
  const double until = MonotonicSeconds() + seconds;
  while (true) {
    if (SignalGuard::Noted() != 0) return absl::CancelledError("a signal came");
    GPUMEM_RETURN_IF_ERROR(Look(&ended));
    if (!ended.empty() || runs_.empty() || MonotonicSeconds() >= until) return ended;
    const timespec pause{0, long{kLookMs} * 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

absl::Status RunPool::Look(std::vector<EndedRun>* ended) {
  std::vector<std::string> keys;
  for (const auto& [key, server] : servers_) keys.push_back(key);
  for (const std::string& key : keys) {
    if (const auto found = servers_.find(key); found != servers_.end() && found->second.server != nullptr)
      GPUMEM_RETURN_IF_ERROR(LookAtServer(key, &found->second, ended));
  }
  LookAtFresh(ended);
  EndLate();
  return absl::OkStatus();
}

absl::Status RunPool::LookAtServer(const std::string& key, OneServer* one, std::vector<EndedRun>* ended) {
  for (const ServerMessage& message : one->server->Poll()) {
    const auto found = runs_.find(message.id);
    switch (message.kind) {
      case ServerMessage::Kind::kReady:
        one->is_ready = true;
        one->imported_s = message.seconds;
        break;
      case ServerMessage::Kind::kUnfit:
        return Replace(key, message, one);
      case ServerMessage::Kind::kGone:
        return GiveUp(key, "its imports ended the process");
      case ServerMessage::Kind::kStarted:
        if (found == runs_.end()) break;
        found->second.pid = message.pid;
        found->second.started = MonotonicSeconds();
        break;
      case ServerMessage::Kind::kEnded:
        if (found != runs_.end()) End(message.id, message.status, message.rss_kib, ended);
        break;
    }
  }
  const double limit = runs_.empty() ? 1e9 : runs_.begin()->second.run.timeout_s;
  if (!one->is_ready && MonotonicSeconds() - one->started > limit) return GiveUp(key, "its imports take too long");
  return absl::OkStatus();
}

absl::Status RunPool::Replace(const std::string& key, const ServerMessage& unfit, OneServer* one) {
  if (one->skip.size() >= kMaxSkipped) return GiveUp(key, absl::StrCat(unfit.module, ": ", unfit.why));
  notes_.push_back(absl::StrCat(unfit.module, " is imported by each run again: ", unfit.why));
  one->skip.push_back(unfit.module);
  one->server.reset();      // ends what it runs
  bool has_server = false;  // where nothing waits for one, the next run starts it
  for (auto& [id, run] : runs_) {
    if (run.server != key) continue;
    Empty(run.run.folder);
    if (!has_server) GPUMEM_RETURN_IF_ERROR(StartServer(run.run, one));
    has_server = true;
    GPUMEM_RETURN_IF_ERROR(Send(id, &run, one));
  }
  return absl::OkStatus();
}

absl::Status RunPool::GiveUp(const std::string& key, const std::string& why) {
  notes_.push_back(absl::StrCat("each run is started afresh: ", why));
  hopeless_.insert(key);
  servers_.erase(key);
  for (auto& [id, run] : runs_) {
    if (run.server != key) continue;
    Empty(run.run.folder);
    GPUMEM_RETURN_IF_ERROR(BeginFresh(&run));
  }
  return absl::OkStatus();
}

void RunPool::LookAtFresh(std::vector<EndedRun>* ended) {
  std::vector<int> ids;
  for (const auto& [id, one] : runs_) {
    if (one.server.empty() && one.pid != 0) ids.push_back(id);
  }
  for (const int id : ids) {
    int status = 0;
    rusage usage{};
    if (wait4(runs_[id].pid, &status, WNOHANG, &usage) == runs_[id].pid)
      End(id, status, static_cast<uint64_t>(usage.ru_maxrss), ended);
  }
}

// Its end is then seen as any other.
void RunPool::EndLate() {
  const double now = MonotonicSeconds();
  for (auto& [id, one] : runs_) {
    if (one.pid == 0 || one.timed_out || now < one.started + one.run.timeout_s + kGraceSeconds) continue;
    one.timed_out = true;
    kill(-one.pid, SIGKILL);
  }
}

void RunPool::End(int id, int status, uint64_t rss_kib, std::vector<EndedRun>* ended) {
  const OneRun& one = runs_[id];
  if (one.server.empty()) kill(-one.pid, SIGKILL);  // what it left behind
  ended->push_back({id, OutcomeOf(one.run, status, one.timed_out, MonotonicSeconds() - one.started), rss_kib});
  RunOutcome& outcome = ended->back().outcome;
  outcome.started = one.started;
  outcome.forked = !one.server.empty();
  outcome.waited_s = outcome.forked ? one.started - one.begun : 0;
  if (const auto server = servers_.find(one.server); server != servers_.end() && outcome.forked)
    outcome.imported_s = std::min(server->second.imported_s, outcome.waited_s);
  runs_.erase(id);
}

}  // namespace gpumem::plan
