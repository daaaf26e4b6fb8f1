// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RunPool: several runs at once. A Python program is imported once and forked for each run (fork_server.h), one server
// for each environment; all else, and whatever servers cannot do, is started afresh each time. What a run measures is
// the same either way.
//
//   RunPool pool(tools, folder, RunPool::Start::kForked);
//   pool.Begin(1, run);
//   for (EndedRun& ended : *pool.Wait(0.1)) ended.outcome.traces
//
// Thread-safety: none. Its destructor ends all that runs. A signal that SignalGuard notes: Wait fails with Cancelled.
// Failure: where nothing could be started; all that happens to programs is in the outcomes.

#ifndef GPUMEM_PLANNER_LAUNCH_RUN_POOL_H_
#define GPUMEM_PLANNER_LAUNCH_RUN_POOL_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/launch/fork_server.h"
#include "planner/launch/program.h"
#include "planner/launch/simulated_run.h"

namespace gpumem::plan {

struct EndedRun {
  int id = 0;
  RunOutcome outcome;
  uint64_t rss_kib = 0;  // most host memory of its first process; 0 = not known
};

class RunPool {
 public:
  enum class Start { kForked, kFresh };

  // `folder`: for the servers' files; an empty one that exists.
  RunPool(SimulationTools tools, std::string folder, Start start);
  ~RunPool();
  RunPool(const RunPool&) = delete;
  RunPool& operator=(const RunPool&) = delete;

  // `run.folder` is its own and exists. It may wait for its server to be ready.
  absl::Status Begin(int id, const RunRequest& run);

  // The runs that ended by now. Waits for up to so many seconds where there is none.
  absl::StatusOr<std::vector<EndedRun>> Wait(double seconds);

  size_t running() const { return runs_.size(); }

  // What somebody who wonders why it is slow should know: "peft is imported by each run: it starts threads ...".
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct OneRun {
    RunRequest run;
    std::string server;      // key; "" = started afresh
    pid_t pid = 0;           // 0: it waits for its server
    double begun = 0;        // when it was asked for
    double started = 0;      // when it had a process
    bool timed_out = false;  // it was killed for that
  };
  struct OneServer {
    std::unique_ptr<ForkServer> server;
    PythonCommand program;
    std::vector<std::string> skip;  // modules that are left to each run
    bool is_ready = false;
    double started = 0;
    double imported_s = 0;
  };

  absl::Status BeginFresh(OneRun* one);
  absl::Status StartServer(const RunRequest& like, OneServer* one);
  absl::Status Send(int id, OneRun* one, OneServer* server);
  // All that servers and processes did since the last look.
  absl::Status Look(std::vector<EndedRun>* ended);
  absl::Status LookAtServer(const std::string& key, OneServer* one, std::vector<EndedRun>* ended);
  void LookAtFresh(std::vector<EndedRun>* ended);
  // Its runs begin again: with a server that leaves `unfit.module` to them; or, given up, each for itself.
  absl::Status Replace(const std::string& key, const ServerMessage& unfit, OneServer* one);
  absl::Status GiveUp(const std::string& key, const std::string& why);
  void EndLate();
  void End(int id, int status, uint64_t rss_kib, std::vector<EndedRun>* ended);

  const SimulationTools tools_;
  const std::string folder_;
  const Start start_;
  std::map<int, OneRun> runs_;
  std::map<std::string, OneServer> servers_;  // by key: interpreter, program, environment
  std::set<std::string> hopeless_;            // keys of programs that no server can run
  std::vector<std::string> notes_;
  int servers_started_ = 0;
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_LAUNCH_RUN_POOL_H_
