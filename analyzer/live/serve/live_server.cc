// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/serve/live_server.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "live/live_frame.h"
#include "live/serve/access.h"
#include "live/serve/connections.h"
#include "live/serve/live_metrics.h"
#include "live/serve/single_events.h"
#include "render/draw.h"
#include "web/event_windows.h"
#include "web/page_words.h"
#include "web/report_page.h"

namespace gpumem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kLoopback[] = "127.0.0.1";
constexpr timeval kLook = {0, 100'000};  // how often the worker and the maker are looked at
constexpr int kIdleSeconds = 60;         // of a connection
constexpr size_t kMostHeaders = size_t{16} << 10;
// A page is made anew at most so often, and so that making it takes a twentieth of one core at most.
constexpr std::chrono::milliseconds kLeastPause{5'000}, kPauseOfEnded{1'000};
constexpr int kPausePerWork = 20;

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* value) const {
    kFree(value);
  }
};
using EventBase = std::unique_ptr<event_base, Freed<&event_base_free>>;
using Event = std::unique_ptr<event, Freed<&event_free>>;
using Buffer = std::unique_ptr<evbuffer, Freed<&evbuffer_free>>;
using Http = std::unique_ptr<evhttp, Freed<&evhttp_free>>;

// Changes when a page of these traces would say something else.
std::string SignatureOf(const LiveFrame& frame) {
  std::string signature;
  for (const LiveProcess& process : frame.processes) {
    absl::StrAppend(&signature, process.file, "\n", process.file_bytes, " ", process.events, " ",
                    LiveStateName(process.state), "\n");
  }
  return signature;
}

// What `live --json` says, and the words for what it says to people: a forecast is worded anew each second.
std::string FrameText(const LiveFrame& frame) {
  Document document = LiveDocument(frame);
  PageWords words("");
  words.AddAnswer(ToJson(document, JsonLayout::kOneLine));
  std::vector<Member> chinese;
  for (const auto& [english, said] : words.chinese()) chinese.push_back({english, said});
  document.Field("words", Datum::Object({{"zh", Datum::Object(std::move(chinese), JsonLayout::kOneLine)}}), "");
  return ToJson(document, JsonLayout::kOneLine);
}

void Reply(evhttp_request* request, int code, const char* reason, const char* type, absl::string_view body) {
  const Buffer buffer(evbuffer_new());
  evbuffer_add(buffer.get(), body.data(), body.size());
  evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", type);
  evhttp_send_reply(request, code, reason, buffer.get());
}

void ReplyText(evhttp_request* request, int code, const char* reason, absl::string_view text) {
  Reply(request, code, reason, "text/plain; charset=utf-8", absl::StrCat(text, "\n"));
}

// What the request's address says behind its "?"; nothing where the name is not there.
std::optional<std::string> Asked(const char* name, evhttp_request* request) {
  const char* const query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));
  evkeyvalq values{};
  std::optional<std::string> text;
  if (query != nullptr && evhttp_parse_query_str(query, &values) == 0) {
    const char* const value = evhttp_find_header(&values, name);
    if (value != nullptr) text = value;
  }
  evhttp_clear_headers(&values);
  return text;
}

// In its address, or as "Authorization: Bearer TOKEN".
std::string AskedToken(evhttp_request* request) {
  const char* const bearer = evhttp_find_header(evhttp_request_get_input_headers(request), "Authorization");
  absl::string_view given = bearer == nullptr ? "" : bearer;
  return absl::ConsumePrefix(&given, "Bearer ") ? std::string(given) : Asked("token", request).value_or("");
}

// An encoded NUL would cut a value off: "%00-5" would read as nothing, "1-5%00" as 1-5.
bool HasNul(evhttp_request* request) {
  const char* const query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));
  return query != nullptr && absl::StrContains(query, "%00");
}

class Server final : public LiveServer {
 public:
  Server(const Options& options, const LiveWorker* worker, PageMaker* maker, PageMaker* events)
      : token_(options.token),
        language_(options.language),
        worker_(worker),
        maker_(maker),
        single_events_(events),
        base_(event_base_new()),
        http_(evhttp_new(base_.get())) {}

  absl::Status Bind(uint16_t port);
  uint16_t port() const override { return port_; }
  std::string Address() const override { return absl::StrCat("http://", kLoopback, ":", port_, "/?token=", token_); }
  absl::Status Serve() override;
  void Stop() override { stops_ = true; }

 private:
  void Answer(evhttp_request* request);
  void AnswerPath(const std::string& path, evhttp_request* request);
  void AnswerData(evhttp_request* request);
  void SendData(const MadePage& page, evhttp_request* request) const;
  void Look();
  void LookAtPage();
  bool PageIsDue(const LiveFrame& frame, const std::string& signature) const;

  const std::string token_, language_;
  const LiveWorker* const worker_;
  PageMaker* const maker_;
  uint16_t port_ = 0;
  std::atomic<bool> stops_{false};
  Listeners listeners_;
  OpenRequests waiting_;  // for the first data
  SingleEvents single_events_;
  uint64_t frames_sent_ = 0, page_sent_ = 0;
  std::string signature_;  // of what was made last
  Clock::time_point made_at_;
  EventBase base_;
  std::unique_ptr<Connections> connections_;
  Http http_;  // goes first: it tells the open requests that they are closed
};

absl::Status Server::Bind(uint16_t port) {
  if (base_ == nullptr || http_ == nullptr) return absl::ResourceExhaustedError("cannot make a server: no memory");
  evhttp_set_allowed_methods(http_.get(), EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
  evhttp_set_max_headers_size(http_.get(), kMostHeaders);
  evhttp_set_max_body_size(http_.get(), 0);
  evhttp_set_timeout(http_.get(), kIdleSeconds);
  evhttp_set_gencb(
      http_.get(), [](evhttp_request* request, void* self) { static_cast<Server*>(self)->Answer(request); }, this);
  evhttp_bound_socket* const bound = evhttp_bind_socket_with_handle(http_.get(), kLoopback, port);
  if (bound == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("cannot listen on ", kLoopback, ":", port, ": ", strerror(errno),
                                                   ". Without --port a free one is taken."));
  }
  sockaddr_storage address{};
  ev_socklen_t size = sizeof(address);
  if (getsockname(evhttp_bound_socket_get_fd(bound), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return absl::InternalError(absl::StrCat("cannot read the port: ", strerror(errno)));
  connections_ = std::make_unique<Connections>(base_.get(), http_.get(), evhttp_bound_socket_get_listener(bound),
                                               Connections::Limits{});
  port_ = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return absl::OkStatus();
}

void Server::Answer(evhttp_request* request) {
  evkeyvalq* const out = evhttp_request_get_output_headers(request);
  for (const auto& [key, value] : {std::pair{"Cache-Control", "no-store"},
                                   {"X-Content-Type-Options", "nosniff"},
                                   {"X-Frame-Options", "DENY"},
                                   {"Referrer-Policy", "no-referrer"},
                                   {"Cross-Origin-Resource-Policy", "same-origin"}}) {
    evhttp_add_header(out, key, value);
  }
  const char* const host = evhttp_find_header(evhttp_request_get_input_headers(request), "Host");
  if (host == nullptr || !IsLocalHost(host))
    return ReplyText(request, 421, "Misdirected Request", "Ask by the name 127.0.0.1 or localhost.");
  if (!IsToken(token_, AskedToken(request))) {
    return ReplyText(request, 403, "Forbidden",
                     "The token is missing or wrong. gpumemshim serve printed the address with it; or send it as "
                     "\"Authorization: Bearer TOKEN\".");
  }
  connections_->Trust(request);
  if (HasNul(request)) return ReplyText(request, HTTP_BADREQUEST, "Bad Request", "An address cannot hold %00.");
  const char* const path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request));
  AnswerPath(path == nullptr ? "" : path, request);
}

void Server::AnswerPath(const std::string& path, evhttp_request* request) {
  const bool head = evhttp_request_get_command(request) == EVHTTP_REQ_HEAD;
  if (path == "/" || path.empty()) {
    Reply(request, HTTP_OK, "OK", "text/html; charset=utf-8", ServedReportPage(language_));
  } else if (path == "/data") {
    AnswerData(request);
  } else if (path == "/live") {
    Reply(request, HTTP_OK, "OK", "application/json", ToJson(LiveDocument(*worker_->frame())));
  } else if (path == "/metrics") {
    Reply(request, HTTP_OK, "OK", "application/openmetrics-text; version=1.0.0; charset=utf-8",
          LiveMetrics(*worker_->frame()));
  } else if (path == "/events" && head) {
    Reply(request, HTTP_OK, "OK", "text/event-stream", "");
  } else if (path == "/events") {
    listeners_.Open(request);
    if (worker_->frames() != 0) listeners_.SendTo(request, "frame", FrameText(*worker_->frame()));
  } else {
    ReplyText(request, HTTP_NOTFOUND, "Not Found", "There are /, /data, /events, /live and /metrics.");
  }
}

void Server::AnswerData(evhttp_request* request) {
  if (const std::optional<std::string> events = Asked("events", request); events.has_value()) {
    const absl::StatusOr<EventRange> range = ParseEventRange(*events);
    if (!range.ok()) return ReplyText(request, HTTP_BADREQUEST, "Bad Request", range.status().message());
    // As it was read: "01-2" and "1-2" are one.
    if (single_events_.Ask(absl::StrCat(range->from, "-", range->until), request)) return;
    return ReplyText(request, 503, "Service Unavailable", "Too many stretches of events are asked for. Ask again.");
  }
  const std::shared_ptr<const MadePage> made = maker_->made();
  made->number == 0 ? waiting_.Add(request) : SendData(*made, request);
}

void Server::SendData(const MadePage& page, evhttp_request* request) const {
  if (!page.problem.empty()) return ReplyText(request, 503, "Service Unavailable", page.problem);
  evkeyvalq* const out = evhttp_request_get_output_headers(request);
  evhttp_add_header(out, "Content-Encoding", "deflate");
  Reply(request, HTTP_OK, "OK", "application/json", page.deflated);
}

bool Server::PageIsDue(const LiveFrame& frame, const std::string& signature) const {
  if (frame.processes.empty() || maker_->is_busy() || (listeners_.empty() && waiting_.empty())) return false;
  const std::shared_ptr<const MadePage> made = maker_->made();
  if (made->number == 0) return true;
  if (signature == signature_) return false;
  const bool grows = std::any_of(frame.processes.begin(), frame.processes.end(), &MayGrow);
  const auto pause = grows ? std::max(kLeastPause, kPausePerWork * made->took) : kPauseOfEnded;
  return Clock::now() - made_at_ >= pause;
}

void Server::LookAtPage() {
  const std::shared_ptr<const MadePage> made = maker_->made();
  if (made->number != page_sent_) {
    page_sent_ = made->number;
    made_at_ = Clock::now();
    for (evhttp_request* const request : waiting_.Take()) SendData(*made, request);
    listeners_.Send("page", absl::StrCat("{\"number\":", made->number, "}"));
  }
  const std::shared_ptr<const LiveFrame> frame = worker_->frame();
  std::vector<std::string> traces;
  for (const LiveProcess& process : frame->processes) traces.push_back(process.file);
  std::string signature = SignatureOf(*frame);
  single_events_.Look(traces, signature,
                      [this](const MadePage& page, evhttp_request* request) { SendData(page, request); });
  if (!PageIsDue(*frame, signature)) return;
  signature_ = std::move(signature);
  maker_->Want(traces, "");
}

void Server::Look() {
  if (stops_) event_base_loopbreak(base_.get());
  connections_->Sweep();
  LookAtPage();
  const uint64_t frames = worker_->frames();
  if (frames == frames_sent_) return;
  frames_sent_ = frames;
  if (!listeners_.empty()) listeners_.Send("frame", FrameText(*worker_->frame()));
}

absl::Status Server::Serve() {
  signal(SIGPIPE, SIG_IGN);  // a reader that hangs up is reported by write
  const auto stop = [](evutil_socket_t, short, void* base) { event_base_loopbreak(static_cast<event_base*>(base)); };
  std::vector<Event> events;
  for (const int number : {SIGINT, SIGTERM}) events.emplace_back(evsignal_new(base_.get(), number, stop, base_.get()));
  const auto look = [](evutil_socket_t, short, void* self) { static_cast<Server*>(self)->Look(); };
  events.emplace_back(event_new(base_.get(), -1, EV_PERSIST, look, this));
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i] == nullptr || event_add(events[i].get(), i + 1 == events.size() ? &kLook : nullptr) != 0)
      return absl::ResourceExhaustedError("cannot wait for signals: no memory");
  }
  if (event_base_dispatch(base_.get()) < 0) return absl::InternalError("the server's loop failed");
  listeners_.Close();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LiveServer>> LiveServer::Listen(const Options& options, const LiveWorker* worker,
                                                               PageMaker* maker, PageMaker* events) {
  auto server = std::make_unique<Server>(options, worker, maker, events);
  const absl::Status bound = server->Bind(options.port);
  if (!bound.ok()) return bound;
  return std::unique_ptr<LiveServer>(std::move(server));
}

}  // namespace gpumem
