// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/watch/forecast_watch.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "answers/report/forecast_marks.h"
#include "base/process.h"
#include "base/status_macros.h"
#include "ledger/load/findings.h"
#include "ledger/load/load_trace.h"
#include "live/ctl_client.h"

namespace gpumem {

bool Alarm::Sees(const Outlook& outlook, uint64_t now_ns) {
  if (outlook.forecast.kind != ForecastKind::kReaches || outlook.risk < limits_.least) return false;
  const bool is_higher = warnings_ == 0 || outlook.risk > highest_;
  if (!is_higher && now_ns - last_ns_ < limits_.pause_ns) return false;
  if (is_higher) highest_ = outlook.risk;
  ++warnings_;
  last_ns_ = now_ns;
  return true;
}

namespace {

constexpr double kRestBesideCallbacks = 0.1;  // seconds; how late a deadline is noticed

volatile sig_atomic_t g_stop = 0;

void Stop(int) { g_stop = 1; }

// Ctrl-C and kill end the watch; callbacks that run have until their deadline. The second one ends them, too.
class StopSignals {
 public:
  StopSignals() {
    g_stop = 0;
    struct sigaction action {};
    action.sa_handler = &Stop;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_int_);
    sigaction(SIGTERM, &action, &before_term_);
  }
  ~StopSignals() {
    sigaction(SIGINT, &before_int_, nullptr);
    sigaction(SIGTERM, &before_term_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  struct sigaction before_int_ {
  }, before_term_{};
};

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

int64_t RealtimeNs() {
  return static_cast<int64_t>(std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

// With the line that grows, from the whole trace as it is now. As it was where that cannot be told.
Outlook WithCause(const std::string& file, Outlook outlook) {
  LoadRequest request;
  request.place = file;
  absl::StatusOr<std::unique_ptr<LoadedTrace>> loaded = LoadTrace(request);
  if (!loaded.ok()) return outlook;
  AttributionRequest steps;
  steps.steps = true;
  const absl::StatusOr<LoadedFindings> findings = LoadFindings(std::move(steps), "", loaded->get());
  if (!findings.ok()) return outlook;
  const Outlook whole = OutlookOf((*loaded)->input);
  if (whole.device != outlook.device) return outlook;
  outlook.cause = whole.cause;
  outlook.has_cause = whole.has_cause;
  outlook.sentence = SentenceOf(outlook);
  return outlook;
}

}  // namespace

void ForecastWatch::Rest(double seconds) const {
  // A signal cuts it short.
  const auto whole = static_cast<time_t>(seconds);
  const timespec time{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  if (g_stop == 0) nanosleep(&time, nullptr);
}

// A process that runs but records nothing so far is waited for.
absl::StatusOr<std::unique_ptr<LiveJob>> ForecastWatch::Open() {
  LiveJob::Options options;
  options.device = settings_.device;
  int pid = 0;
  bool has_said = false;
  for (;;) {
    absl::StatusOr<std::unique_ptr<LiveJob>> job = LiveJob::Open(settings_.place, options);
    const bool is_process = absl::SimpleAtoi(settings_.place, &pid) && pid > 0 && !HasEnded(pid);
    if (job.ok() || !absl::IsNotFound(job.status()) || !is_process || g_stop != 0) return job;
    if (!std::exchange(has_said, true))
      console_->Complain(absl::StrCat("process ", pid, " records nothing so far. Waiting until it does, or ends."));
    Rest(settings_.interval_s);
  }
}

void ForecastWatch::Mark(const char* request, const std::string& text, Watched* watched) {
  const int pid = static_cast<int>(watched->process.process.pid);
  if (!settings_.marks || pid == 0 || !watched->process.is_local) return;
  absl::Status status = AskProcess(pid, absl::StrCat(request, " ", text)).status();
  // A recorder that is older than this program knows no snapshots.
  if (absl::IsFailedPrecondition(status)) status = AskProcess(pid, absl::StrCat("mark ", text)).status();
  if (status.ok() || HasEnded(pid) || std::exchange(watched->complained, true)) return;
  console_->Complain(absl::StrCat("what happens here is not noted in the trace: ", status.message(), "."));
}

void ForecastWatch::Warn(Watched* watched) {
  WatchWarning warning{watched->process, watched->process.outlook, watched->alarm.is_first(), RealtimeNs()};
  // First: what is alive at this moment is what the warning is about.
  if (warning.is_first) Mark("snapshot", std::string(kForecastWarning), watched);
  warning.outlook = WithCause(watched->process.file, warning.outlook);
  ++totals_.warnings;
  const std::string json = WarningJson(warning);
  console_->Print(settings_.json ? json : WarningText(warning));
  Mark("mark", WarningMark(warning), watched);
  const int pid = watched->process.is_local ? static_cast<int>(watched->process.process.pid) : 0;
  watched->callbacks.Fire({pid, json, WarningVariables(warning)}, NowNs());
}

bool ForecastWatch::TakeReports() {
  bool still_run = false;
  for (const auto& [file, watched] : watched_) {
    for (const CallbackReport& report : watched->callbacks.Poll(NowNs())) {
      ++totals_.callbacks;
      if (settings_.json) console_->Print(CallbackJson(watched->process, report));
      if (report.is_fine) continue;
      ++totals_.failed_callbacks;
      console_->Complain(absl::StrCat("forecast callback failed: ", report.action, ": ", report.text, "."));
      Mark("mark", CallbackMark(report), watched.get());
    }
    still_run = still_run || watched->callbacks.are_running();
  }
  return still_run;
}

bool ForecastWatch::Look(LiveJob* job) {
  job->Poll(true);
  bool may_grow = false;
  LiveFrame frame = job->BriefFrame();
  for (LiveProcess& process : frame.processes) {
    if (!process.problem.empty()) continue;
    std::unique_ptr<Watched>& watched = watched_[process.file];
    if (watched == nullptr) watched = std::make_unique<Watched>(settings_);
    watched->process = std::move(process);
    const bool runs = MayGrow(watched->process);
    may_grow = may_grow || runs;
    if (runs && watched->alarm.Sees(watched->process.outlook, NowNs())) Warn(watched.get());
  }
  return may_grow;
}

absl::StatusOr<WatchTotals> ForecastWatch::Run() {
  const StopSignals signals;
  GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<LiveJob> job, Open());
  const auto interval_ns = static_cast<uint64_t>(settings_.interval_s * 1e9);
  bool may_grow = true, still_run = false;
  for (uint64_t next_ns = 0; may_grow || still_run;) {
    may_grow = may_grow && g_stop == 0 && !console_->print_failed();
    if (may_grow && NowNs() >= next_ns) {
      may_grow = Look(job.get());
      next_ns = NowNs() + interval_ns;
    }
    still_run = TakeReports();
    if (may_grow || still_run)
      Rest(still_run ? std::min(kRestBesideCallbacks, settings_.interval_s) : settings_.interval_s);
  }
  console_->Print(settings_.json ? EndJson(totals_) : EndText(totals_));
  return totals_;
}

}  // namespace gpumem
