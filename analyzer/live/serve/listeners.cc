// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/serve/listeners.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace gpumem {
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
