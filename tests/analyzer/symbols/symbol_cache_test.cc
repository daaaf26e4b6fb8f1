// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/symbol_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace gpumem {
namespace {

namespace fs = std::filesystem;

class SymbolCacheTest : public ::testing::Test {
 protected:
  SymbolCacheTest() {
    char pattern[] = "/tmp/gpumemshim_cache_test.XXXXXX";
    base_ = mkdtemp(pattern);
    folder_ = base_ + "/gpumemshim/symbols/v1";
  }
  ~SymbolCacheTest() override { fs::remove_all(base_); }

  static ModuleSymbols Symbols(uint64_t address, const std::string& name) {
    ModuleSymbols symbols;
    symbols.Add(address, {{name, "a.cc", 7}});
    return symbols;
  }
  std::string base_, folder_;
};

TEST_F(SymbolCacheTest, KeepsWhatWasWritten) {
  SymbolCache cache(folder_);
  cache.Write("id", SymbolDepth::kDwarf, Symbols(1, "one"));
  cache.Write("id", SymbolDepth::kDwarf, Symbols(2, "two"));
  const ModuleSymbols read = SymbolCache(folder_).Read("id", SymbolDepth::kDwarf);
  EXPECT_EQ(read.At(1)[0].function, "one");
  EXPECT_EQ(read.At(2)[0].line, 7u);
  EXPECT_EQ(cache.Read("id", SymbolDepth::kTable).size(), 0u) << "without debug information less is known";
  EXPECT_EQ(cache.Read("other", SymbolDepth::kDwarf).size(), 0u);
  EXPECT_EQ(fs::status(folder_).permissions() & fs::perms::others_all, fs::perms::none);
}

TEST_F(SymbolCacheTest, IgnoresDamage) {
  SymbolCache cache(folder_);
  cache.Write("id", SymbolDepth::kTable, Symbols(1, "one"));
  const fs::path file = fs::directory_iterator(folder_)->path();
  const auto size = fs::file_size(file);
  for (uintmax_t at = 0; at < size; ++at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(stream.get());
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(byte ^ 0x40));
    stream.close();
    EXPECT_EQ(cache.Read("id", SymbolDepth::kTable).size(), 0u) << at;
    std::fstream repair(file, std::ios::in | std::ios::out | std::ios::binary);
    repair.seekp(static_cast<std::streamoff>(at));
    repair.put(byte);
  }
  EXPECT_EQ(cache.Read("id", SymbolDepth::kTable).size(), 1u);
  fs::resize_file(file, size / 2);
  EXPECT_EQ(cache.Read("id", SymbolDepth::kTable).size(), 0u);
  cache.Write("id", SymbolDepth::kTable, Symbols(2, "two"));
  EXPECT_EQ(cache.Read("id", SymbolDepth::kTable).size(), 1u) << "a damaged file is written anew";
}

TEST_F(SymbolCacheTest, IsBounded) {
  const std::string name(1000, 'x');
  SymbolCache cache(folder_, 10'000);
  for (int i = 0; i < 30; ++i) {
    cache.Write("id" + std::to_string(i), SymbolDepth::kTable, Symbols(1, name));
    EXPECT_LE(cache.SizeBytes(), 10'000u);
    // Used longest ago = written first, whatever the clock's resolution.
    for (const auto& entry : fs::directory_iterator(folder_))
      fs::last_write_time(entry, fs::last_write_time(entry) - std::chrono::seconds(10));
    EXPECT_EQ(cache.Read("id0", SymbolDepth::kTable).size(), 1u) << "what is used stays";
  }
  EXPECT_EQ(cache.Read("id1", SymbolDepth::kTable).size(), 0u);
  EXPECT_EQ(cache.Read("id29", SymbolDepth::kTable).size(), 1u);
  cache.Write("large", SymbolDepth::kTable, Symbols(1, std::string(20'000, 'y')));
  EXPECT_LE(cache.SizeBytes(), 10'000u) << "what does not fit is not written";
}

TEST_F(SymbolCacheTest, IsSafeWithSeveralProcesses) {
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    SymbolCache cache(folder_);
    for (uint64_t i = 0; i < 50; ++i) {
      cache.Write("id", SymbolDepth::kDwarf, Symbols(i, "name" + std::to_string(i)));
      if (cache.Read("id", SymbolDepth::kDwarf).size() == 0) _exit(1);  // half a file was seen
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(SymbolCache(folder_).Read("id", SymbolDepth::kDwarf).At(49)[0].function, "name49");
}

TEST_F(SymbolCacheTest, DoesWithoutAPlace) {
  SymbolCache none(""), bad("/proc/no/such/place");
  for (SymbolCache* cache : {&none, &bad}) {
    cache->Write("id", SymbolDepth::kDwarf, Symbols(1, "one"));
    EXPECT_EQ(cache->Read("id", SymbolDepth::kDwarf).size(), 0u);
  }
  SymbolCache cache(folder_);
  cache.Write("", SymbolDepth::kDwarf, Symbols(1, "one"));
  EXPECT_EQ(cache.Read("", SymbolDepth::kDwarf).size(), 0u) << "nothing is known of a module without build id";
}

TEST_F(SymbolCacheTest, FollowsTheEnvironment) {
  setenv("XDG_CACHE_HOME", "/x", 1);
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(SymbolCache::DefaultFolder(), "/x/gpumemshim/symbols/v1");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(SymbolCache::DefaultFolder(), "/home/me/.cache/gpumemshim/symbols/v1");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(SymbolCache::DefaultFolder(), "");
}

}  // namespace
}  // namespace gpumem
