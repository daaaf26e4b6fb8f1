// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/module_files.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/file_output.h"
#include "victim_library.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::VictimLibrary;

class ModuleFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { unsetenv("DEBUGINFOD_URLS"); }

  FoundModule Find(const ModuleInfo& module, const SymbolSearch& search = {}) {
    return ModuleFiles(search).Find(module);
  }
  std::string Stripped(const std::string& name) { return victim_.Shape("--strip-all", name); }
  std::string Debug(const std::string& name) { return victim_.Shape("--only-keep-debug", name); }
  // Another file of another build.
  std::string Other(const std::string& name) {
    fs::create_directories(fs::path(victim_.Path(name)).parent_path());
    fs::copy_file("/proc/self/exe", victim_.Path(name));
    return victim_.Path(name);
  }

  VictimLibrary victim_;
};

TEST_F(ModuleFilesTest, TakesTheTracedFile) {
  const std::string path = Stripped("lib.so");
  const FoundModule found = Find(victim_.Module(path));
  EXPECT_EQ(found.binary, path);
  EXPECT_EQ(found.trouble, FileTrouble::kNone);
  EXPECT_FALSE(found.has_debug_info);
}

TEST_F(ModuleFilesTest, NeverTakesAnotherBuild) {
  const std::string path = Other("lib.so");
  const FoundModule found = Find(victim_.Module(path));
  EXPECT_FALSE(found.readable());
  EXPECT_EQ(found.trouble, FileTrouble::kOtherBuild);
  EXPECT_THAT(found.detail, HasSubstr(BuildIdText(victim_.build_id())));

  SymbolSearch search;
  search.symbols = {path};
  EXPECT_FALSE(Find(victim_.Module(path), search).readable()) << "not even where the user names it";
}

TEST_F(ModuleFilesTest, SaysWhatItTookUnverified) {
  const std::string path = Stripped("lib.so");
  ModuleInfo module = victim_.Module(path);
  module.build_id.clear();
  const FoundModule found = Find(module);
  EXPECT_EQ(found.binary, path);
  EXPECT_EQ(found.trouble, FileTrouble::kNotVerified);
}

TEST_F(ModuleFilesTest, SaysWhatIsNotThere) {
  EXPECT_EQ(Find(victim_.Module(victim_.Path("gone.so"))).trouble, FileTrouble::kMissing);
  EXPECT_EQ(Find(victim_.Module("linux-vdso.so.1")).trouble, FileTrouble::kNoFile);
  EXPECT_EQ(Find(victim_.Module("")).trouble, FileTrouble::kNoFile);
  EXPECT_EQ(Find(victim_.Module("/dev/null")).trouble, FileTrouble::kUnreadable);
  std::ofstream(victim_.Path("text.so")) << "#!/bin/sh\n";
  EXPECT_EQ(Find(victim_.Module(victim_.Path("text.so"))).trouble, FileTrouble::kUnreadable);
  ASSERT_EQ(mkfifo(victim_.Path("fifo.so").c_str(), 0600), 0);
  EXPECT_EQ(Find(victim_.Module(victim_.Path("fifo.so"))).trouble, FileTrouble::kUnreadable) << "and does not hang";
}

TEST_F(ModuleFilesTest, TakesTheFileOfADeletedOneByItsBuildIdOnly) {
  const std::string path = Stripped("lib.so");
  ModuleInfo module = victim_.Module(path + " (deleted)");
  EXPECT_EQ(Find(module).binary, path);
  module.build_id.clear();
  EXPECT_FALSE(Find(module).readable());
  module.path = victim_.Path("gone.so (deleted)");
  EXPECT_THAT(Find(module).detail, HasSubstr("deleted"));
}

TEST_F(ModuleFilesTest, FindsRelativePathsWhereTheProgramRan) {
  const std::string path = Stripped("plugins/lib.so");
  SymbolSearch search;
  search.working_directory = victim_.folder();
  EXPECT_EQ(Find(victim_.Module("./plugins/lib.so"), search).binary, victim_.folder() + "/./plugins/lib.so");
}

TEST_F(ModuleFilesTest, FindsLinkedDebugFiles) {
  const std::string debug = Debug("lib.debug");
  const std::string linked = victim_.Shape("--strip-all --add-gnu-debuglink=lib.debug", "lib.so");
  EXPECT_EQ(Find(victim_.Module(linked)).debug, debug);
  fs::create_directory(victim_.Path(".debug"));
  fs::rename(debug, victim_.Path(".debug/lib.debug"));
  EXPECT_EQ(Find(victim_.Module(linked)).debug, victim_.Path(".debug/lib.debug"));
}

TEST_F(ModuleFilesTest, ChecksLinkedDebugFilesWithoutBuildIdByTheirSum) {
  const std::string no_id = "--remove-section=.note.gnu.build-id ";
  const std::string debug = victim_.Shape(no_id + "--only-keep-debug", "lib.debug");
  ModuleInfo module = victim_.Module(victim_.Shape(no_id + "--strip-all --add-gnu-debuglink=lib.debug", "lib.so"));
  module.build_id.clear();
  EXPECT_EQ(Find(module).debug, debug);
  std::ofstream(debug, std::ios::app) << "changed";
  EXPECT_EQ(Find(module).debug, "");
}

TEST_F(ModuleFilesTest, DoesNotTakeDebugFilesOfAnotherBuild) {
  Debug("right.debug");
  const std::string linked = victim_.Shape("--strip-all --add-gnu-debuglink=right.debug", "lib.so");
  fs::remove(victim_.Path("right.debug"));
  Other("right.debug");
  EXPECT_EQ(Find(victim_.Module(linked)).debug, "");
}

TEST_F(ModuleFilesTest, FindsNamedFilesAndFoldersByBuildId) {
  SymbolSearch search;
  search.symbols = {Stripped("elsewhere/renamed")};
  EXPECT_EQ(Find(victim_.Module("/nowhere/lib.so"), search).binary, search.symbols[0]);

  search.symbols = {victim_.folder()};
  const std::string debug = Debug("elsewhere/deeper/also renamed");
  const FoundModule found = Find(victim_.Module("/nowhere/lib.so"), search);
  EXPECT_EQ(found.debug, debug);
  EXPECT_TRUE(found.has_debug_info);

  search.symbols = {debug};
  EXPECT_EQ(Find(victim_.Module("/nowhere/lib.so"), search).debug, debug) << "a debug file alone will do";
}

TEST_F(ModuleFilesTest, SaysWhatIsWrongWithNamedFiles) {
  std::ofstream(victim_.Path("text")) << "hello";
  SymbolSearch search;
  search.symbols = {victim_.Path("text")};
  ModuleFiles files(search);
  files.Find(victim_.Module("/nowhere/lib.so"));
  EXPECT_THAT(files.notes(), ElementsAre(HasSubstr("is no ELF file")));
}

TEST_F(ModuleFilesTest, LooksBelowTheSysroot) {
  const std::string path = Stripped("root/usr/lib/lib.so");
  const std::string hex = BuildIdText(victim_.build_id());
  const std::string debug = Debug("root/usr/lib/debug/.build-id/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".debug");
  SymbolSearch search;
  search.sysroot = victim_.Path("root");
  const FoundModule found = Find(victim_.Module("/usr/lib/lib.so"), search);
  EXPECT_EQ(found.binary, path);
  EXPECT_EQ(found.debug, debug);

  // Links are those of the other machine.
  fs::create_directory_symlink("/usr/lib", victim_.Path("root/lib"));
  EXPECT_EQ(Find(victim_.Module("/lib/lib.so"), search).binary, path);
  EXPECT_EQ(InsideRoot(search.sysroot, "/../../../../../../usr/lib/lib.so"), path);
}

TEST_F(ModuleFilesTest, BesidesASysrootBelievesThisMachineByBuildIdOnly) {
  fs::create_directory(victim_.Path("root"));
  SymbolSearch search;
  search.sysroot = victim_.Path("root");
  ModuleInfo module = victim_.Module(Stripped("lib.so"));
  EXPECT_EQ(Find(module, search).binary, module.path);
  module.build_id.clear();
  EXPECT_FALSE(Find(module, search).readable());
}

// Nothing of a file that somebody else's trace names is believed but by its build id.
TEST_F(ModuleFilesTest, OfAForeignTraceWantsTheBuildId) {
  SymbolSearch search;
  search.needs_build_ids = true;
  ModuleInfo module = victim_.Module(Stripped("lib.so"));
  EXPECT_EQ(Find(module, search).binary, module.path);
  module.build_id.clear();
  EXPECT_EQ(Find(module).binary, module.path);
  const FoundModule found = Find(module, search);
  EXPECT_FALSE(found.readable());
  EXPECT_THAT(found.detail, HasSubstr("no build id"));
}

// A debuginfod server of a few lines on 127.0.0.1 hands out the victim's debug file.

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
