// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/fork_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/json_reader.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "planner/launch/embedded.h"
#include "planner/launch/program.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kLongestLine = 1 << 20;

json ProgramJson(const PythonCommand& program, const std::vector<std::string>& skip) {
  json words = {{"skip", skip}};
  if (program.script.empty()) {
    words["module"] = program.module;
  } else {
    std::error_code error;
    words["script"] = fs::absolute(program.script, error).string();
    words["shown"] = program.script;  // what it finds in sys.argv[0]
  }
  return words;
}

}  // namespace

absl::StatusOr<ServerMessage> ParseServerMessage(absl::string_view line) {
  GPUMEM_ASSIGN_OR_RETURN(const json words, ParseJson(line));
  JsonReader reader(words);
  ServerMessage message;
  reader.ReadIfThere("id", &message.id);
  if (reader.Has("ready")) {
    message.kind = ServerMessage::Kind::kReady;
    reader.Read("ready", &message.seconds);
  } else if (reader.Has("unfit")) {
    message.kind = ServerMessage::Kind::kUnfit;
    reader.Read("unfit", &message.module);
    reader.ReadIfThere("why", &message.why);
  } else if (reader.Has("pid")) {
    message.kind = ServerMessage::Kind::kStarted;
    reader.Read("pid", &message.pid);
    if (message.pid < 2) reader.Fail("pid", "is no process of its own");  // kill(-1) ends whatever the user runs
  } else {
    message.kind = ServerMessage::Kind::kEnded;
    reader.Read("status", &message.status);
    reader.ReadIfThere("rss_kib", &message.rss_kib);
  }
  if (!reader.ok()) return absl::DataLossError(reader.problem());
  return message;
}

absl::StatusOr<std::unique_ptr<ForkServer>> ForkServer::Start(const SimulationTools& tools, const RunRequest& run,
                                                              const PythonCommand& program,
                                                              const std::vector<std::string>& skip) {
  GPUMEM_ASSIGN_OR_RETURN(const std::string injected_script, WriteInjectedScript(run.folder));
  const std::string path = absl::StrCat(run.folder, "/fork_server.py");
  GPUMEM_RETURN_IF_ERROR(WriteOutput(path, EmbeddedForkServer(), {.hint = ""}));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::UnavailableError(absl::StrCat("cannot make a socket: ", strerror(errno)));
  std::vector<std::string> command = program.interpreter;
  command.push_back(path);
  ProgramStart start;
  start.words = ProgramWords(tools, run.on_gpu, command);
  start.variables = ProgramEnvironment(tools, run, injected_script);
  start.variables.emplace_back("GPUMEMSHIM_PLAN_MODULES", "1");
  start.variables.emplace_back("GPUMEMSHIM_SWEEP_CHANNEL", absl::StrCat(ends[1]));
  start.variables.emplace_back("GPUMEMSHIM_SWEEP_PROGRAM", ProgramJson(program, skip).dump());
  start.output = absl::StrCat(run.folder, "/output");
  start.inherited = ends[1];
  const absl::StatusOr<pid_t> pid = StartProgram(start);
  close(ends[1]);
  if (!pid.ok()) {
    close(ends[0]);
    return pid.status();
  }
  return std::unique_ptr<ForkServer>(new ForkServer(*pid, ends[0]));
}

ForkServer::~ForkServer() {
  close(channel_);
  kill(-pid_, SIGKILL);  // its runs have groups of their own, and die with it
  waitpid(pid_, nullptr, 0);
}

bool ForkServer::Send(int id, const RunRequest& run, const std::string& injected_script,
                      const std::vector<std::string>& arguments) {
  std::error_code error;
  json job = {{"id", id},
              {"arguments", arguments},
              {"folder", run.folder},
              {"input", run.input},
              {"directory", fs::current_path(error).string()},
              {"timeout", run.timeout_s},
              {"environment", json::object()}};
  for (const auto& [name, value] : RunVariables(run, injected_script)) job["environment"][name] = value;
  const std::string line = job.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t count = send(channel_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    sent += static_cast<size_t>(count);
  }
  return true;
}

std::vector<ServerMessage> ForkServer::Poll() {
  std::vector<ServerMessage> messages;
  char part[4096];
  while (!is_gone_) {
    const ssize_t count = recv(channel_, part, sizeof part, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count <= 0) {
      is_gone_ = true;
      break;
    }
    unread_.append(part, static_cast<size_t>(count));
  }
  for (size_t end; (end = unread_.find('\n')) != std::string::npos; unread_.erase(0, end + 1)) {
    // Anything else is of a program that found our socket and wrote into it.
    if (absl::StatusOr<ServerMessage> message = ParseServerMessage(absl::string_view(unread_).substr(0, end));
        message.ok())
      messages.push_back(*std::move(message));
  }
  if (unread_.size() > kLongestLine) unread_.clear();
  if (is_gone_) messages.emplace_back();
  return messages;
}

}  // namespace gpumem::plan
