// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LiveWorker: a thread that follows a LiveJob and keeps its newest frame for the screen.
// Thread-safe. The job must outlive it, and belongs to the thread until the worker is gone.
//
//   LiveWorker worker(job, std::chrono::seconds(1));
//   std::shared_ptr<const LiveFrame> frame = worker.frame();

#ifndef GPUMEM_ANALYZER_LIVE_LIVE_WORKER_H_
#define GPUMEM_ANALYZER_LIVE_LIVE_WORKER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "live/live_frame.h"
#include "live/live_job.h"

namespace gpumem {

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

#endif  // GPUMEM_ANALYZER_LIVE_LIVE_WORKER_H_
