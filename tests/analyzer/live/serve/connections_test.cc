// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A server beside clients that send half a request, or that take all its descriptors.

#include "live/serve/connections.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gpumem {
namespace {

using ::testing::HasSubstr;

class ConnectionsTest : public ::testing::Test {
 protected:
  ConnectionsTest() : base_(event_base_new()), http_(evhttp_new(base_)) {}
  ~ConnectionsTest() override {
    for (const int client : clients_) close(client);
    evhttp_free(http_);
    connections_.reset();
    event_base_free(base_);
  }

  void Listen(const Connections::Limits& limits) {
    evhttp_set_gencb(
        http_,
        [](evhttp_request* request, void* self) {
          static_cast<ConnectionsTest*>(self)->connections_->Trust(request);
          evhttp_send_reply(request, HTTP_OK, "OK", nullptr);
        },
        this);
    evhttp_bound_socket* const bound = evhttp_bind_socket_with_handle(http_, "127.0.0.1", 0);
    ASSERT_NE(bound, nullptr);
    socklen_t size = sizeof address_;
    ASSERT_EQ(getsockname(evhttp_bound_socket_get_fd(bound), reinterpret_cast<sockaddr*>(&address_), &size), 0);
    connections_ = std::make_unique<Connections>(base_, http_, evhttp_bound_socket_get_listener(bound), limits);
  }

  // A client that has sent this.
  int Client(const std::string& text) {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address_), sizeof address_), 0);
    EXPECT_EQ(send(client, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    clients_.push_back(client);
    return client;
  }
  int Half() { return Client("GET / HT"); }
  int Whole() { return Client("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); }

  // Lets the server work until this holds.
  void Until(const std::function<bool()>& holds) {
    while (!holds()) {
      const timeval soon{0, 10'000};
      event_base_once(
          base_, -1, EV_TIMEOUT, [](evutil_socket_t, short, void*) {}, nullptr, &soon);
      event_base_loop(base_, EVLOOP_ONCE);
      connections_->Sweep();
    }
  }
  static bool IsOver(int client) {
    char byte = 0;
    return recv(client, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  }
  std::string AnswerTo(int client) {
    std::string answer;
    Until([&] {
      char bytes[4096];
      const ssize_t got = recv(client, bytes, sizeof bytes, MSG_DONTWAIT);
      if (got > 0) answer.append(bytes, static_cast<size_t>(got));
      return got == 0 || answer.find("\r\n\r\n") != std::string::npos;
    });
    return answer;
  }

  event_base* base_;
  evhttp* http_;
  sockaddr_in address_{};
  std::unique_ptr<Connections> connections_;
  std::vector<int> clients_;
};

TEST_F(ConnectionsTest, HalfRequestsTakeALimitedNumberOfPlacesAndAWholeOneIsAnswered) {
  Listen({8, std::chrono::hours{1}});
  const int trusted = Whole();
  EXPECT_THAT(AnswerTo(trusted), HasSubstr("200 OK"));
  std::vector<int> halves;
  for (int i = 0; i < 60; ++i) {
    halves.push_back(Half());
    Until([&] { return true; });
  }
  Until([&] { return IsOver(halves[40]); });
  EXPECT_LE(connections_->strangers(), 8u);
  EXPECT_FALSE(IsOver(halves.back()));
  EXPECT_THAT(AnswerTo(Whole()), HasSubstr("200 OK"));
  EXPECT_FALSE(IsOver(trusted)) << "who was answered keeps the connection";
}

TEST_F(ConnectionsTest, OnesThatWaitToBeAcceptedTogetherDoNotEndEachOther) {
  Listen({8, std::chrono::hours{1}});
  std::vector<int> halves;
  for (int i = 0; i < 30; ++i) halves.push_back(Half());
  const int whole = Whole();
  for (int i = 0; i < 30; ++i) halves.push_back(Half());
  EXPECT_THAT(AnswerTo(whole), HasSubstr("200 OK"));
}

TEST_F(ConnectionsTest, WhoTakesTooLongIsClosed) {
  Listen({8, std::chrono::milliseconds{0}});
  const int half = Half();
  Until([&] { return IsOver(half); });
  EXPECT_EQ(connections_->strangers(), 0u);
}

TEST_F(ConnectionsTest, WithoutDescriptorsItWaitsAndThenGoesOn) {
  Listen({8, std::chrono::hours{1}});
  const int half = Half();
  const int other = Half();
  // No descriptor is left for the server: the limit is the lowest number that is free.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest = fcntl(STDIN_FILENO, F_DUPFD, 3);
  ASSERT_GE(lowest, 0);
  close(lowest);
  const rlimit none{static_cast<rlim_t>(lowest), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  Until([&] { return connections_->refused() > 0; });
  const uint64_t first = connections_->refused();
  // The loop does not try again at once, however often it turns.
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) event_base_loop(base_, EVLOOP_NONBLOCK);
  const auto pauses = (std::chrono::steady_clock::now() - start) / std::chrono::milliseconds{100};
  EXPECT_LE(connections_->refused(), first + 1 + static_cast<uint64_t>(pauses));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(AnswerTo(Whole()), HasSubstr("200 OK"));
  EXPECT_FALSE(IsOver(half) && IsOver(other));
}

}  // namespace
}  // namespace gpumem
