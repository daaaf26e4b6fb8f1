// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/serve/single_events.h"

#include <algorithm>
#include <memory>

namespace gpumem {

bool SingleEvents::Ask(const std::string& events, evhttp_request* request) {
  const auto same =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Stretch& stretch) { return stretch.events == events; });
  if (same != waiting_.end()) {
    same->requests.Add(request);
    return true;
  }
  waiting_.remove_if([](const Stretch& stretch) { return stretch.requests.empty(); });
  if (waiting_.size() >= kMostStretches) return false;
  Stretch& stretch = waiting_.emplace_back();
  stretch.events = events;
  stretch.requests.Add(request);
  return true;
}

void SingleEvents::Answer(const MadePage& page, const Send& send) {
  for (Stretch& stretch : waiting_) {
    if (stretch.events != page.events) continue;
    for (evhttp_request* const request : stretch.requests.Take()) send(page, request);
  }
}

void SingleEvents::Look(const std::vector<std::string>& traces, const std::string& signature, const Send& send) {
  if (signature != signature_) kept_.clear();
  signature_ = signature;
  const std::shared_ptr<const MadePage> made = maker_->made();
  if (made->number != sent_) {
    sent_ = made->number;
    Answer(*made, send);
    if (made->problem.empty() && asked_signature_ == signature) kept_.push_front(made);
    if (kept_.size() > kMostKept) kept_.pop_back();
  }
  for (const std::shared_ptr<const MadePage>& page : kept_) Answer(*page, send);
  waiting_.remove_if([](const Stretch& stretch) { return stretch.requests.empty(); });
  if (waiting_.empty() || traces.empty() || maker_->is_busy()) return;
  asked_signature_ = signature;
  maker_->Want(traces, waiting_.front().events);
}

}  // namespace gpumem
