// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/serve/connections.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace gpumem {

Connections* Connections::listening_ = nullptr;

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kLeastStrangers = 4, kMostStrangers = 256;
constexpr std::chrono::milliseconds kPause{100};  // where no descriptor is left

size_t PlacesForStrangers() {
  rlimit limit{};
  const bool is_known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_known ? std::clamp<size_t>(limit.rlim_cur / 4, kLeastStrangers, kMostStrangers) : kMostStrangers;
}

// evhttp takes its callbacks off the stream when it is done with it.
bool IsClosed(bufferevent* stream) {
  bufferevent_event_cb event_callback = nullptr;
  bufferevent_getcb(stream, nullptr, nullptr, &event_callback, nullptr);
  return event_callback == nullptr;
}

}  // namespace

Connections::Connections(event_base* base, evhttp* http, evconnlistener* listener, const Limits& limits)
    : base_(base), listener_(listener), limits_(limits) {
  if (limits_.strangers == 0) limits_.strangers = PlacesForStrangers();
  const auto resume = [](evutil_socket_t, short, void* self) {
    auto* const connections = static_cast<Connections*>(self);
    connections->added_ = 0;
    evconnlistener_enable(connections->listener_);
  };
  resume_ = event_new(base, -1, 0, resume, this);
  evhttp_set_bevcb(
      http, [](event_base*, void* self) { return static_cast<Connections*>(self)->Add(); }, this);
  // It is called with evhttp's own argument, so it finds this object another way.
  listening_ = this;
  evconnlistener_set_error_cb(listener, [](evconnlistener* failed, void*) {
    if (listening_ != nullptr && listening_->listener_ == failed) listening_->CannotAccept(errno);
  });
}

Connections::~Connections() {
  if (listening_ == this) listening_ = nullptr;
  if (resume_ != nullptr) event_free(resume_);
  for (Connection& each : all_) bufferevent_decref(each.stream);
}

bufferevent* Connections::Add() {
  Sweep();
  if (strangers() >= limits_.strangers) EndOldestStranger();
  // It closes its descriptor itself, once its events are gone: evhttp would do so while this object still counts on it,
  // and events of a number that is closed, or another connection's, stay in the loop.
  bufferevent* const stream = bufferevent_socket_new(base_, -1, BEV_OPT_CLOSE_ON_FREE);
  if (stream == nullptr) return nullptr;
  bufferevent_incref(stream);
  all_.push_back({stream, SteadyClock::now()});
  // All that wait to be accepted would be, and each new one would end another before it was read.
  if (++added_ > limits_.strangers / 2) ResumeAfter(std::chrono::microseconds{0});
  return stream;
}

void Connections::Trust(evhttp_request* request) {
  bufferevent* const stream = evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));
  for (Connection& each : all_) {
    if (each.stream == stream) each.is_trusted = true;
  }
}

void Connections::Sweep() {
  const SteadyClock::time_point now = SteadyClock::now();
  for (auto each = all_.begin(); each != all_.end();) {
    if (IsClosed(each->stream)) {
      bufferevent_decref(each->stream);
      each = all_.erase(each);
      continue;
    }
    if (!each->is_trusted && now - each->since > limits_.patience) End(&*each);
    ++each;
  }
}

size_t Connections::strangers() const {
  return static_cast<size_t>(std::count_if(all_.begin(), all_.end(), [](const Connection& each) {
    return !each.is_trusted && !each.is_ended && !IsClosed(each.stream);
  }));
}

void Connections::End(Connection* connection) {
  connection->is_ended = true;
  shutdown(bufferevent_getfd(connection->stream), SHUT_RDWR);
}

void Connections::EndOldestStranger() {
  for (Connection& each : all_) {
    if (each.is_trusted || each.is_ended || IsClosed(each.stream)) continue;
    return End(&each);
  }
}

void Connections::ResumeAfter(std::chrono::microseconds pause) {
  evconnlistener_disable(listener_);
  const timeval wait{pause.count() / 1'000'000, pause.count() % 1'000'000};
  event_add(resume_, &wait);
}

// Without a pause the loop would try again at once, for as long as it lasts.
void Connections::CannotAccept(int error) {
  if (refused_++ == 0) {
    std::fprintf(stderr, "gpumemshim serve: cannot take a connection: %s. It goes on once others are closed.\n",
                 std::strerror(error));
  }
  Sweep();
  EndOldestStranger();
  ResumeAfter(kPause);
}

namespace {

// What waits for a listener at most; then frames are left out.
constexpr size_t kMostWaiting = size_t{4} << 20;
// A stream lives as long as its reader does.
constexpr int kStreamSeconds = 365 * 24 * 3600;

}  // namespace

OpenRequests::~OpenRequests() { Take(); }

void OpenRequests::Add(evhttp_request* request) {
  evhttp_connection* const connection = evhttp_request_get_connection(request);
  all_[connection] = request;
  evhttp_connection_set_closecb(connection, &OpenRequests::Closed, this);
}

std::vector<evhttp_request*> OpenRequests::all() const {
  std::vector<evhttp_request*> all;
  for (const auto& [connection, request] : all_) all.push_back(request);
  return all;
}

// A connection whose other end hung up lets go of its request, which is then ours to free; else it frees it itself.
void OpenRequests::Closed(evhttp_connection* connection, void* self) {
  auto& all = static_cast<OpenRequests*>(self)->all_;
  const auto found = all.find(connection);
  if (found == all.end()) return;
  if (evhttp_request_get_connection(found->second) == nullptr) evhttp_request_free(found->second);
  all.erase(found);
}

std::vector<evhttp_request*> OpenRequests::Take() {
  for (const auto& [connection, request] : all_) evhttp_connection_set_closecb(connection, nullptr, nullptr);
  std::vector<evhttp_request*> taken = all();
  all_.clear();
  return taken;
}

void Listeners::Open(evhttp_request* request) {
  evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", "text/event-stream");
  evhttp_connection_set_timeout(evhttp_request_get_connection(request), kStreamSeconds);
  requests_.Add(request);
  evhttp_send_reply_start(request, HTTP_OK, "OK");
}

void Listeners::SendTo(evhttp_request* request, absl::string_view event, absl::string_view data) {
  evhttp_connection* const connection = evhttp_request_get_connection(request);
  evbuffer* const waiting = bufferevent_get_output(evhttp_connection_get_bufferevent(connection));
  if (evbuffer_get_length(waiting) > kMostWaiting) return;
  const std::string text = absl::StrCat("event: ", event, "\ndata: ", absl::StripTrailingAsciiWhitespace(data), "\n\n");
  const std::unique_ptr<evbuffer, decltype(&evbuffer_free)> buffer(evbuffer_new(), &evbuffer_free);
  evbuffer_add(buffer.get(), text.data(), text.size());
  evhttp_send_reply_chunk(request, buffer.get());
}

void Listeners::Send(absl::string_view event, absl::string_view data) {
  for (evhttp_request* const request : requests_.all()) SendTo(request, event, data);
}

void Listeners::Close() {
  for (evhttp_request* const request : requests_.Take()) evhttp_send_reply_end(request);
}

}  // namespace gpumem
