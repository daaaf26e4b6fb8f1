// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SingleEvents: requests for the data of a page with the single events of a stretch, which are made for them, one
// stretch after another. Readers of one stretch share what is made; who hangs up is forgotten, and a stretch that
// nobody waits for is not made. Not thread-safe: of the thread of the event loop.
//
//   SingleEvents single(&maker);
//   if (!single.Ask("1200-1500", request)) ...   // too many wait
//   single.Look(traces, send);                   // some times a second

#ifndef GPUMEM_ANALYZER_LIVE_SERVE_SINGLE_EVENTS_H_
#define GPUMEM_ANALYZER_LIVE_SERVE_SINGLE_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "live/serve/connections.h"
#include "live/serve/page_maker.h"

struct evhttp_request;

namespace gpumem {

class SingleEvents {
 public:
  static constexpr size_t kMostStretches = 16;  // that are waited for at once
  using Send = std::function<void(const MadePage&, evhttp_request*)>;

  // `maker` makes nothing else, and must outlive this.
  explicit SingleEvents(PageMaker* maker) : maker_(maker) {}

  // `events` as `gpumemshim html --events` takes it. False: too many wait, and the request is still to be answered.
  bool Ask(const std::string& events, evhttp_request* request);
  // Answers who waits for what was made, and begins with the next stretch, of these traces.
  void Look(const std::vector<std::string>& traces, const Send& send);

 private:
  struct Stretch {
    std::string events;
    OpenRequests requests;
  };

  PageMaker* const maker_;
  uint64_t sent_ = 0;           // number of what was made last
  std::list<Stretch> waiting_;  // oldest first
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_SERVE_SINGLE_EVENTS_H_
