// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as what a client sends to `gpumemshim serve`, over loopback. "TOKEN" in an input becomes the token where
// its first byte is odd; else nothing but refusals may come back. The server must answer a proper request afterwards.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "live/live_job.h"
#include "live/serve/live_server.h"
#include "live/serve/page_maker.h"
#include "testing/trace_builder.h"

namespace {

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

class Served {
 public:
  Served()
      : path_(absl::StrCat("/dev/shm/serve_fuzz.", getpid(), ".gmtrace")),
        maker_({"/bin/true"}),
        events_({"/bin/true"}) {
    gpumem::testing::TraceBuilder().CudaAlloc(0x1000, 4096).End().Write(path_);
    auto job = gpumem::LiveJob::Open(path_, {});
    if (!job.ok()) std::abort();
    job_ = *std::move(job);
    worker_ = std::make_unique<gpumem::LiveWorker>(job_.get(), std::chrono::hours(1));
    worker_->WaitFor(0, std::chrono::seconds(10));
    auto server = gpumem::LiveServer::Listen({0, kToken}, worker_.get(), &maker_, &events_);
    if (!server.ok()) std::abort();
    server_ = *std::move(server);
    std::thread([this] { server_->Serve().IgnoreError(); }).detach();
  }

  // What comes back to these bytes, up to the end or for `wait_ms`.
  std::string Answer(const std::string& request, int wait_ms) const {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval wait{wait_ms / 1000, wait_ms % 1000 * 1000};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    std::string answer;
    if (connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        send(client, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
      shutdown(client, SHUT_WR);
      char bytes[65536];
      for (ssize_t got; answer.size() < sizeof bytes && (got = recv(client, bytes, sizeof bytes, 0)) > 0;)
        answer.append(bytes, static_cast<size_t>(got));
    }
    close(client);
    return answer;
  }
  void End() { unlink(path_.c_str()); }

 private:
  const std::string path_;
  std::unique_ptr<gpumem::LiveJob> job_;
  std::unique_ptr<gpumem::LiveWorker> worker_;
  gpumem::PageMaker maker_, events_;
  std::unique_ptr<gpumem::LiveServer> server_;
};

Served& TheServer() {
  static auto* const served = new Served();
  return *served;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  TheServer();
  std::atexit([] { TheServer().End(); });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static uint64_t inputs = 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool has_token = data[0] % 2 == 1;
  const std::string request = has_token ? absl::StrReplaceAll(text, {{"TOKEN", kToken}}) : text;
  const std::string answer = TheServer().Answer(request, 20);
  if (!has_token && !absl::StrContains(text, kToken) && absl::StrContains(answer, " 200 ")) __builtin_trap();
  if (++inputs % 64 != 0) return 0;
  const std::string proper = absl::StrCat("GET /live?token=", kToken, " HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
  if (!absl::StrContains(TheServer().Answer(proper, 20'000), " 200 OK")) __builtin_trap();
  return 0;
}
