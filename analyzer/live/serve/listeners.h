// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Listeners: open answers of a LiveServer that are written piece by piece (server-sent events), and requests that wait
// for their answer. One that hangs up is forgotten; one that does not read what it is sent misses frames. Not
// thread-safe.
//
//   Listeners listeners;
//   listeners.Open(request);
//   listeners.Send("frame", json);      // event: frame\ndata: ...\n\n

#ifndef GPUMEM_ANALYZER_LIVE_SERVE_LISTENERS_H_
#define GPUMEM_ANALYZER_LIVE_SERVE_LISTENERS_H_

#include <map>
#include <vector>

#include "absl/strings/string_view.h"

struct evhttp_request;
struct evhttp_connection;

namespace gpumem {

// Requests that are still to be answered, or go on being so.
class OpenRequests {
 public:
  OpenRequests() = default;
  ~OpenRequests();
  OpenRequests(const OpenRequests&) = delete;
  OpenRequests& operator=(const OpenRequests&) = delete;

  void Add(evhttp_request* request);
  bool empty() const { return all_.empty(); }
  std::vector<evhttp_request*> all() const;
  // Takes them out, to be answered for good.
  std::vector<evhttp_request*> Take();

 private:
  static void Closed(evhttp_connection* connection, void* self);

  std::map<evhttp_connection*, evhttp_request*> all_;  // a connection has one at a time
};

class Listeners {
 public:
  // Answers the request with the beginning of a stream of events.
  void Open(evhttp_request* request);
  // `data` in one line.
  void Send(absl::string_view event, absl::string_view data);
  void SendTo(evhttp_request* request, absl::string_view event, absl::string_view data);
  bool empty() const { return requests_.empty(); }
  // Ends all streams.
  void Close();

 private:
  OpenRequests requests_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_SERVE_LISTENERS_H_
