// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/live_job.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "ledger/load/find_traces.h"
#include "ledger/load/load_trace.h"
#include "live/ctl_client.h"
#include "trace/process_state.h"
#include "trace/series.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

fs::file_time_type TimeOf(const std::string& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  return error ? fs::file_time_type::min() : time;
}

// One path for each trace of a folder, the newest first.
std::vector<std::string> NewestTraces(const std::string& folder) {
  std::vector<std::string> paths = FilesOfFolder(folder, ".gmtrace");
  std::stable_sort(paths.begin(), paths.end(),
                   [](const std::string& a, const std::string& b) { return TimeOf(a) > TimeOf(b); });
  return OneOfEachSeries(std::move(paths));
}

bool Runs(const std::string& path) {
  absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
  return reader.ok() && reader->Next() == ItemType::kHeader && StateOf(reader->header()) == ProcessState::kRunning;
}

std::string NewestHere(const std::string& folder) {
  constexpr size_t kMostAsked = 32;
  const std::vector<std::string> paths = NewestTraces(folder);
  for (size_t i = 0; i < std::min(paths.size(), kMostAsked); ++i) {
    if (Runs(paths[i])) return paths[i];
  }
  return paths.empty() ? "" : paths.front();
}

absl::StatusOr<std::string> TraceOfProcess(int pid) {
  absl::StatusOr<ControlAnswer> answer = AskProcess(pid, "status");
  if (absl::IsNotFound(answer.status())) {
    const std::vector<int> below = ListenersBelow(pid);
    if (below.size() > 1) {
      return absl::InvalidArgumentError(absl::StrCat("process ", pid, " is not recorded, but ", below.size(),
                                                     " that it started are: ", absl::StrJoin(below, ", "),
                                                     ". Give one of them, or the folder of their traces."));
    }
    if (below.size() == 1) answer = AskProcess(below[0], "status");
  }
  if (!answer.ok()) return answer.status();
  const std::string file = answer->Text("file");
  if (file.empty())
    return absl::NotFoundError(
        absl::StrCat("process ", pid, " writes no trace now. gpumemshim ctl ", pid, " start begins one."));
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LiveJob>> LiveJob::Open(const std::string& place, const Options& options) {
  std::unique_ptr<LiveJob> job(new LiveJob(place, options));
  std::error_code error;
  int pid = 0;
  const std::string folder = place.empty() ? "." : place;
  if (fs::is_directory(folder, error)) {
    GPUMEM_RETURN_IF_ERROR(FindTrace(place).status());
    job->folder_ = folder;
    job->kind_ = place.empty() ? Kind::kNewest : Kind::kFolder;
    job->LookForTraces();
    return job;
  }
  std::string path = place;
  if (!fs::exists(place, error) && absl::SimpleAtoi(place, &pid) && pid > 0) {
    GPUMEM_ASSIGN_OR_RETURN(path, TraceOfProcess(pid));
  }
  Followed& followed = job->followed_.emplace_back();
  followed.path = path;
  absl::StatusOr<std::unique_ptr<TraceFollower>> opened =
      TraceFollower::Open(path, {options.symbols, job->FirstFocus()});
  if (!opened.ok()) return AsReadError(opened.status());
  followed.follower = *std::move(opened);
  return job;
}

LiveFocus LiveJob::FirstFocus() const {
  LiveFocus focus;
  if (options_.device >= 0) focus.slot = SlotOfDevice(options_.device);
  return focus;
}

void LiveJob::OpenFollower(Followed* followed, const LiveFocus& focus) const {
  absl::StatusOr<std::unique_ptr<TraceFollower>> opened =
      TraceFollower::Open(followed->path, {options_.symbols, focus});
  followed->problem = opened.ok() ? "" : std::string(opened.status().message());
  followed->follower = opened.ok() ? *std::move(opened) : nullptr;
}

void LiveJob::LookForTraces() {
  if (kind_ == Kind::kNewest) return LookForNewer();
  if (kind_ != Kind::kFolder) return;
  std::set<std::string> known;
  for (const Followed& followed : followed_) known.insert(SeriesStem(followed.path));
  std::vector<std::string> paths = NewestTraces(folder_);
  paths.resize(std::min(paths.size(), kMaxProcesses));
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    if (followed_.size() >= kMaxProcesses || !known.insert(SeriesStem(path)).second) continue;
    followed_.emplace_back().path = path;
    OpenFollower(&followed_.back(), FirstFocus());
  }
}

// A job that was started again writes a new trace.
void LiveJob::LookForNewer() {
  if (!followed_.empty() && followed_.front().follower != nullptr && followed_.front().follower->is_running()) return;
  const std::vector<std::string> paths = NewestTraces(folder_);
  if (!followed_.empty() && !paths.empty() && SeriesStem(paths.front()) == SeriesStem(followed_.front().path)) return;
  const std::string newest = NewestHere(folder_);
  if (newest.empty() || (!followed_.empty() && SeriesStem(followed_.front().path) == SeriesStem(newest))) return;
  followed_.resize(1);
  followed_.front().path = newest;
  OpenFollower(&followed_.front(), FirstFocus());
}

void LiveJob::PollOne(bool to_the_end, Followed* followed) const {
  if (followed->follower == nullptr) OpenFollower(followed, FirstFocus());  // it may just have begun
  if (followed->follower == nullptr) return;
  if (!followed->follower->Poll(to_the_end).ok()) {
    OpenFollower(followed, FirstFocus());
    if (followed->follower != nullptr) followed->follower->Poll(to_the_end).IgnoreError();
  }
  LiveFocus wanted = followed->follower == nullptr ? LiveFocus() : followed->follower->WantedFocus();
  if (options_.device >= 0) wanted.slot = SlotOfDevice(options_.device);
  if (followed->follower == nullptr || wanted == followed->follower->focus()) return;
  OpenFollower(followed, wanted);
  if (followed->follower != nullptr) followed->follower->Poll(to_the_end).IgnoreError();
}

void LiveJob::Poll(bool to_the_end) {
  LookForTraces();
  for (Followed& followed : followed_) PollOne(to_the_end, &followed);
}

bool LiveJob::is_through() const {
  return std::all_of(followed_.begin(), followed_.end(), [](const Followed& followed) {
    return followed.follower == nullptr || followed.follower->is_through();
  });
}

LiveProcess LiveJob::Unreadable(const Followed& followed) {
  LiveProcess process;
  process.file = followed.path;
  process.problem = followed.problem;
  return process;
}

LiveFrame LiveJob::Frame() {
  LiveFrame frame;
  frame.place = place_;
  for (Followed& followed : followed_)
    frame.processes.push_back(followed.follower != nullptr ? followed.follower->Frame() : Unreadable(followed));
  return frame;
}

LiveFrame LiveJob::BriefFrame() const {
  LiveFrame frame;
  frame.place = place_;
  for (const Followed& followed : followed_)
    frame.processes.push_back(followed.follower != nullptr ? followed.follower->BriefFrame() : Unreadable(followed));
  return frame;
}

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
