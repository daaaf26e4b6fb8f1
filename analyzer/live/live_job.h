// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LiveJob: the processes that a user means by a process id, a trace or a folder, each followed while its trace grows
// (trace_follower.h). Traces that appear in the folder are taken in, a trace that was replaced is read from its
// beginning. Not thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(auto job, LiveJob::Open("runs/", options));
//   for (;;) { job->Poll(false); Show(job->Frame()); }

#ifndef GPUMEM_ANALYZER_LIVE_LIVE_JOB_H_
#define GPUMEM_ANALYZER_LIVE_LIVE_JOB_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "live/live_frame.h"
#include "live/trace_follower.h"
#include "symbols/symbolizer.h"

namespace gpumem {

class LiveJob {
 public:
  struct Options {
    SymbolizerOptions symbols;
    int device = -1;  // that categories, lines and steps are of; -1 = the one with the largest peak
  };
  // Traces of a folder that are followed at most; the newest ones.
  static constexpr size_t kMaxProcesses = 64;

  // `place`: a process id, a trace, or a folder; "" = the newest trace here whose process runs, else the newest one.
  // Errors name the next step.
  static absl::StatusOr<std::unique_ptr<LiveJob>> Open(const std::string& place, const Options& options);

  // Reads on; `to_the_end` as TraceFollower::Poll has it.
  void Poll(bool to_the_end);
  // Whether all that was there at the last Poll was read.
  bool is_through() const;
  LiveFrame Frame();
  // The same without categories and lines.
  LiveFrame BriefFrame() const;

 private:
  enum class Kind { kTrace, kFolder, kNewest };
  struct Followed {
    std::string path;
    std::unique_ptr<TraceFollower> follower;  // null: cannot be read, as `problem` says
    std::string problem;
  };

  static LiveProcess Unreadable(const Followed& followed);
  LiveJob(std::string place, const Options& options) : place_(std::move(place)), options_(options) {}
  void OpenFollower(Followed* followed, const LiveFocus& focus) const;
  void PollOne(bool to_the_end, Followed* followed) const;
  LiveFocus FirstFocus() const;
  void LookForTraces();
  void LookForNewer();

  const std::string place_;
  const Options options_;
  Kind kind_ = Kind::kTrace;
  std::string folder_;
  std::vector<Followed> followed_;
};

// LiveWorker: a thread that follows a LiveJob and keeps its newest frame for the screen.
// Thread-safe. The job must outlive it, and belongs to the thread until the worker is gone.
//
//   LiveWorker worker(job, std::chrono::seconds(1));
//   std::shared_ptr<const LiveFrame> frame = worker.frame();
class LiveWorker {
 public:
  LiveWorker(LiveJob* job, std::chrono::milliseconds interval);
  ~LiveWorker();
  LiveWorker(const LiveWorker&) = delete;
  LiveWorker& operator=(const LiveWorker&) = delete;

  // Never null: empty before the first one.
  std::shared_ptr<const LiveFrame> frame() const;
  uint64_t frames() const;  // so far

  // Waits until there are more frames than that, or so long. False: there are none.
  bool WaitFor(uint64_t more_than, std::chrono::milliseconds most) const;

 private:
  void Run();

  LiveJob* const job_;
  const std::chrono::milliseconds interval_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::shared_ptr<const LiveFrame> frame_ = std::make_shared<const LiveFrame>();
  uint64_t frames_ = 0;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_LIVE_JOB_H_
