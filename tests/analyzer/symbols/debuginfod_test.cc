// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A debuginfod server of a few lines on 127.0.0.1 hands out the victim's debug file.

#include "symbols/debuginfod.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/file_output.h"
#include "symbols/module_files.h"
#include "victim_library.h"

namespace gpumem {
namespace {

using testing::VictimLibrary;

// Answers GET of one path with the bytes of a file, and everything else with 404.
class Server {
 public:
  Server(std::string path, std::string body) : path_(std::move(path)), body_(std::move(body)) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(socket_, 8) != 0 ||
        getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      ADD_FAILURE() << "no port on 127.0.0.1";
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~Server() {
    shutdown(socket_, SHUT_RDWR);
    thread_.join();
    close(socket_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }
  int served() const { return served_; }

 private:
  void Serve() {
    for (int client; (client = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; close(client)) {
      std::string request;
      char buffer[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = read(client, buffer, sizeof(buffer));
        if (got <= 0) break;
        request.append(buffer, static_cast<size_t>(got));
      }
      const bool found = request.rfind("GET " + path_ + " ", 0) == 0;
      served_ += found ? 1 : 0;
      const std::string body = found ? body_ : "";
      WriteAll(client, std::string("HTTP/1.1 ") + (found ? "200 OK" : "404 Not Found") +
                           "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                           body);
    }
  }

  std::string path_, body_;
  int socket_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> served_ = 0;
  std::thread thread_;
};

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(DebuginfodTest, AsksTheServerOfTheEnvironmentOnly) {
  void* const library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) GTEST_SKIP() << "no libdebuginfod.so.1 here";
  VictimLibrary victim;
  const std::string debug = victim.Shape("--only-keep-debug", "served.debug");
  Server server("/buildid/" + BuildIdText(victim.build_id()) + "/debuginfo", Bytes(debug));
  ModuleInfo module = victim.Module(victim.Shape("--strip-all", "lib.so"));
  setenv("DEBUGINFOD_CACHE_PATH", victim.Path("cache").c_str(), 1);
  unsetenv("http_proxy");

  unsetenv("DEBUGINFOD_URLS");
  EXPECT_FALSE(DebuginfodIsOn());
  EXPECT_FALSE(ModuleFiles({}).Find(module).has_debug_info);
  EXPECT_EQ(server.served(), 0);

  setenv("DEBUGINFOD_URLS", server.url().c_str(), 1);
  EXPECT_TRUE(DebuginfodIsOn());
  SymbolSearch search;
  search.debuginfod = false;
  EXPECT_FALSE(ModuleFiles(search).Find(module).has_debug_info);
  EXPECT_EQ(server.served(), 0);
  const FoundModule found = ModuleFiles({}).Find(module);
  EXPECT_TRUE(found.has_debug_info);
  EXPECT_EQ(Bytes(found.debug), Bytes(debug));
  EXPECT_EQ(server.served(), 1);

  module.build_id = "not there";
  EXPECT_EQ(FetchDebugFile(module.build_id, DebugFileKind::kDebugInfo), "");
  unsetenv("DEBUGINFOD_URLS");
}

}  // namespace
}  // namespace gpumem
