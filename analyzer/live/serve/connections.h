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

#endif  // GPUMEM_ANALYZER_LIVE_SERVE_CONNECTIONS_H_
