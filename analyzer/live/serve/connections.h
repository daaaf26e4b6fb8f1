// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Connections: those of an evhttp server that anybody on the machine can reach. Strangers, who have sent no token so
// far, have a limited number of places and a limited time: where a new one comes and no place is left, the one that
// waits longest goes, so who sends the token at once is always answered. Where no descriptor is left, nothing is
// accepted for a while. Not thread-safe: of the thread of the event loop.
//
//   Connections connections(base, http, listener, {});   // must be gone before `base`, after `http`
//   connections.Trust(request);                          // its token is right
//   connections.Sweep();                                 // some times a second
//
// What it closes it shuts down alone; evhttp then sees the end and frees it, as where the other side hangs up.

#ifndef GPUMEM_ANALYZER_LIVE_SERVE_CONNECTIONS_H_
#define GPUMEM_ANALYZER_LIVE_SERVE_CONNECTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "absl/strings/string_view.h"

struct bufferevent;
struct event;
struct event_base;
struct evconnlistener;
struct evhttp;
struct evhttp_request;

namespace gpumem {

class Connections {
 public:
  struct Limits {
    size_t strangers = 0;  // at once; 0 = a quarter of the descriptors that this process may have, at most 256
    std::chrono::milliseconds patience{10'000};  // until the token must have come
  };

  Connections(event_base* base, evhttp* http, evconnlistener* listener, const Limits& limits);
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;
  ~Connections();

  // The request's connection belongs to who knows the token.
  void Trust(evhttp_request* request);
  // Forgets those that are closed, closes strangers who took too long.
  void Sweep();

  size_t strangers() const;                      // that are open
  uint64_t refused() const { return refused_; }  // how often no descriptor was left

 private:
  struct Connection {
    bufferevent* stream = nullptr;  // counted, so that it can be asked whether it is closed
    std::chrono::steady_clock::time_point since;
    bool is_trusted = false, is_ended = false;
  };

  bufferevent* Add();
  void CannotAccept(int error);
  void End(Connection* connection);
  void EndOldestStranger();
  void ResumeAfter(std::chrono::microseconds pause);

  static Connections* listening_;  // a process has one server at a time

  event_base* const base_;
  evconnlistener* const listener_;
  Limits limits_;
  event* resume_ = nullptr;
  std::list<Connection> all_;  // oldest first
  size_t added_ = 0;           // since the loop last looked at the others
  uint64_t refused_ = 0;
};

}  // namespace gpumem

// Listeners: open answers of a LiveServer that are written piece by piece (server-sent events), and requests that wait
// for their answer. One that hangs up is forgotten; one that does not read what it is sent misses frames. Not
// thread-safe.
//
//   Listeners listeners;
//   listeners.Open(request);
//   listeners.Send("frame", json);      // event: frame\ndata: ...\n\n

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

#endif  // GPUMEM_ANALYZER_LIVE_SERVE_CONNECTIONS_H_
