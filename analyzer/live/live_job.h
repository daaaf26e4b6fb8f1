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

#include <map>
#include <memory>
#include <string>
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

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_LIVE_JOB_H_
