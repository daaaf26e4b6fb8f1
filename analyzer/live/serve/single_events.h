// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SingleEvents: requests for the data of a page with the single events of a stretch, which are made for them, one
// stretch after another. Readers of one stretch share what is made, and the last few are kept while the traces stay as
// they were: who comes back to a place waits for nothing. Who hangs up is forgotten, and a stretch that nobody waits
// for is not made. Not thread-safe: of the thread of the event loop.
//
//   SingleEvents single(&maker);
//   if (!single.Ask("1200-1500", request)) ...   // too many wait
//   single.Look(traces, signature, send);        // some times a second

#ifndef GPUMEM_ANALYZER_LIVE_SERVE_SINGLE_EVENTS_H_
#define GPUMEM_ANALYZER_LIVE_SERVE_SINGLE_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "live/serve/connections.h"
#include "live/serve/page_maker.h"

struct evhttp_request;

namespace gpumem {

class SingleEvents {
 public:
  static constexpr size_t kMostStretches = 16;  // that are waited for at once
  static constexpr size_t kMostKept = 8;        // a megabyte or two each
  using Send = std::function<void(const MadePage&, evhttp_request*)>;

  // `maker` makes nothing else, and must outlive this.
  explicit SingleEvents(PageMaker* maker) : maker_(maker) {}

  // `events` as `gpumemshim html --events` takes it. False: too many wait, and the request is still to be answered.
  bool Ask(const std::string& events, evhttp_request* request);
  // Answers who waits for what was made, and begins with the next stretch, of these traces. `signature` changes with
  // what is in them.
  void Look(const std::vector<std::string>& traces, const std::string& signature, const Send& send);

 private:
  struct Stretch {
    std::string events;
    OpenRequests requests;
  };

  void Answer(const MadePage& page, const Send& send);

  PageMaker* const maker_;
  uint64_t sent_ = 0;                                // number of what was made last
  std::list<Stretch> waiting_;                       // oldest first
  std::list<std::shared_ptr<const MadePage>> kept_;  // newest first, all of signature_
  std::string signature_, asked_signature_;          // of what is kept; of the traces when the last was begun
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_SERVE_SINGLE_EVENTS_H_
