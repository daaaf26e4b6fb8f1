// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/serve/page_maker.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "web/packed_data.h"

namespace gpumem {
namespace {

// The last line that a command printed to standard error: what it could not do.
std::string LastLine(const std::string& errors) {
  const absl::string_view text = absl::StripTrailingAsciiWhitespace(errors);
  const size_t end = text.rfind('\n');
  return std::string(end == absl::string_view::npos ? text : text.substr(end + 1));
}

}  // namespace

PageMaker::PageMaker(std::vector<std::string> command) : command_(std::move(command)), thread_([this] { Run(); }) {}

PageMaker::~PageMaker() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  child_.Cancel();
  changed_.notify_all();
  thread_.join();
}

void PageMaker::Want(const std::vector<std::string>& traces, const std::string& events) {
  const std::lock_guard lock(mutex_);
  if (!wanted_.empty()) return;
  wanted_ = traces;
  wanted_events_ = events;
  changed_.notify_all();
}

bool PageMaker::is_busy() const {
  const std::lock_guard lock(mutex_);
  return !wanted_.empty();
}

std::shared_ptr<const MadePage> PageMaker::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

MadePage PageMaker::Make(const std::vector<std::string>& traces, const std::string& events) {
  std::vector<std::string> command = command_;
  if (!events.empty()) command.insert(command.end(), {"--events", events});
  for (const std::string& trace : traces) command.push_back(trace[0] == '-' ? "./" + trace : trace);  // not a flag
  const auto start = std::chrono::steady_clock::now();
  MadePage page;
  page.events = events;
  const absl::StatusOr<ChildOutput::Result> result = child_.Run(command);
  if (!result.ok()) {
    page.problem = std::string(result.status().message());
  } else if (result->output.empty()) {
    page.problem = LastLine(result->errors);
    if (page.problem.empty()) page.problem = absl::StrCat("making the page ended with code ", result->exit_code);
  } else {
    page.deflated = DeflatedData(result->output);
  }
  page.took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  return page;
}

void PageMaker::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || !wanted_.empty(); });
    if (stops_) return;
    const std::vector<std::string> traces = wanted_;
    const std::string events = wanted_events_;
    lock.unlock();
    MadePage page = Make(traces, events);
    lock.lock();
    page.number = made_->number + 1;
    made_ = std::make_shared<const MadePage>(std::move(page));
    wanted_.clear();
  }
}

}  // namespace gpumem
