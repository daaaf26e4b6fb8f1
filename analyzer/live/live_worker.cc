// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/live_worker.h"

#include <utility>

namespace gpumem {

LiveWorker::LiveWorker(LiveJob* job, std::chrono::milliseconds interval)
    : job_(job), interval_(interval), thread_([this] { Run(); }) {}

LiveWorker::~LiveWorker() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LiveWorker::Run() {
  for (;;) {
    const auto next = std::chrono::steady_clock::now() + interval_;
    job_->Poll(false);
    const bool is_through = job_->is_through();
    auto frame = std::make_shared<const LiveFrame>(job_->Frame());
    std::unique_lock lock(mutex_);
    frame_ = std::move(frame);
    ++frames_;
    changed_.notify_all();
    // While a long trace is read for the first time there is no waiting.
    if (is_through) changed_.wait_until(lock, next, [this] { return stops_; });
    if (stops_) return;
  }
}

std::shared_ptr<const LiveFrame> LiveWorker::frame() const {
  const std::lock_guard lock(mutex_);
  return frame_;
}

uint64_t LiveWorker::frames() const {
  const std::lock_guard lock(mutex_);
  return frames_;
}

bool LiveWorker::WaitFor(uint64_t more_than, std::chrono::milliseconds most) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, most, [&] { return frames_ > more_than; });
}

}  // namespace gpumem
