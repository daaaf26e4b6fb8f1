// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ForkServer: a Python process (fork_server.py) that has imported what a program imports, and forks for each run of it:
// a run costs what the program does, without the seconds that its imports take.
//
//   absl::StatusOr<std::unique_ptr<ForkServer>> server = ForkServer::Start(tools, run, program, skip, folder);
//   (*server)->Send(1, run, program.arguments);
//   for (const ServerMessage& message : (*server)->Poll()) ...
//
// Thread-safety: none. Its destructor ends the server and all that it runs. Failure: a server that dies says kGone, and
// the runs that it had are lost; one whose imports do what must not be done before a fork says kUnfit and takes no
// more.

#ifndef GPUMEM_PLANNER_LAUNCH_FORK_SERVER_H_
#define GPUMEM_PLANNER_LAUNCH_FORK_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/launch/program.h"
#include "planner/launch/simulated_run.h"

namespace gpumem::plan {

struct ServerMessage {
  enum class Kind : uint8_t { kReady, kUnfit, kStarted, kEnded, kGone };
  Kind kind = Kind::kGone;
  int id = 0;            // kStarted, kEnded
  pid_t pid = 0;         // kStarted; the number of its process group too
  double seconds = 0;    // kReady: that imports took
  int status = 0;        // kEnded: of waitpid(2)
  uint64_t rss_kib = 0;  // kEnded: most host memory at once
  std::string module;    // kUnfit: what is not to be imported before a fork,
  std::string why;       // and why: "it starts threads when it is loaded"
};

// One line of what it says. DataLoss for anything else: the programs that it runs could write to its socket.
absl::StatusOr<ServerMessage> ParseServerMessage(absl::string_view line);

class ForkServer {
 public:
  // `run`: one like those that will be sent; its folder is the server's own. `skip`: modules that are left to each run.
  static absl::StatusOr<std::unique_ptr<ForkServer>> Start(const SimulationTools& tools, const RunRequest& run,
                                                           const PythonCommand& program,
                                                           const std::vector<std::string>& skip);
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  // What it answers comes by Poll. False: it is gone.
  bool Send(int id, const RunRequest& run, const std::string& injected_script,
            const std::vector<std::string>& arguments);

  // What it said since the last call; never waits.
  std::vector<ServerMessage> Poll();

  int descriptor() const { return channel_; }

 private:
  ForkServer(pid_t pid, int channel) : pid_(pid), channel_(channel) {}

  pid_t pid_;
  int channel_;
  std::string unread_;
  bool is_gone_ = false;
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_LAUNCH_FORK_SERVER_H_
