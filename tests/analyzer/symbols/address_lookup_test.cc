// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/address_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "victim_library.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using testing::RunCommand;
using testing::VictimLibrary;

const LookupProgress kNoProgress = [](uint64_t, uint64_t) {};

class AddressLookupTest : public ::testing::Test {
 protected:
  ModuleSymbols LookUp(const std::string& binary, const std::string& debug = "", bool dwarf = true) {
    const LookupAnswer answer =
        LookUpIsolated({binary, debug, victim_.build_id(), victim_.Addresses(), dwarf}, kNoProgress);
    EXPECT_EQ(answer.problem, "");
    EXPECT_EQ(answer.symbols.size(), victim_.frames().size());
    return answer.symbols;
  }

  // Every frame: the innermost function, its line, and who it is inlined into.
  void ExpectAll(const ModuleSymbols& symbols) {
    for (const VictimFrame& frame : victim_.frames()) {
      const std::vector<NativeFunction> functions = symbols.At(frame.pc - victim_.load_bias());
      ASSERT_FALSE(functions.empty()) << frame.function;
      EXPECT_THAT(functions[0].function, HasSubstr(frame.function));
      EXPECT_EQ(functions[0].line, frame.line) << frame.function;
      EXPECT_THAT(functions[0].file, HasSubstr("victim.cc"));
      ASSERT_EQ(functions.size(), frame.inlined ? 3u : 1u) << frame.function;
      if (!frame.inlined) continue;
      EXPECT_THAT(functions[1].function, HasSubstr("TwiceInlined"));
      EXPECT_GT(functions[1].line, frame.line);
      EXPECT_EQ(functions[2].function, "victim::Run()");
      EXPECT_GT(functions[2].line, functions[1].line);
    }
  }

  // The functions that have the addresses, without lines and inlined ones.
  void ExpectFunctions(const ModuleSymbols& symbols) {
    for (const VictimFrame& frame : victim_.frames()) {
      const std::vector<NativeFunction> functions = symbols.At(frame.pc - victim_.load_bias());
      ASSERT_EQ(functions.size(), 1u) << frame.function;
      EXPECT_THAT(functions[0].function, HasSubstr(frame.inlined ? "victim::Run()" : frame.function));
      EXPECT_EQ(functions[0].line, 0u);
    }
  }

  VictimLibrary victim_;
};

TEST_F(AddressLookupTest, ReadsDwarf) { ExpectAll(LookUp(victim_.original())); }

TEST_F(AddressLookupTest, ReadsDwarfWithoutIndex) {
  ExpectAll(LookUp(victim_.Shape("--remove-section=.debug_aranges", "unindexed.so")));
}

TEST_F(AddressLookupTest, ReadsCompressedDwarf) {
  ExpectAll(LookUp(victim_.Shape("--compress-debug-sections", "compressed.so")));
}

TEST_F(AddressLookupTest, ReadsSeparateDwarf) {
  const std::string debug = victim_.Shape("--only-keep-debug", "lib.debug");
  const std::string stripped = victim_.Shape("--strip-all", "lib.so");
  ExpectAll(LookUp(stripped, debug));
  ExpectAll(LookUp("", debug));
}

TEST_F(AddressLookupTest, ReadsSymbolTables) {
  ExpectFunctions(LookUp(victim_.Shape("--strip-debug", "lib.so")));
  ExpectFunctions(LookUp(victim_.original(), "", /*dwarf=*/false));
}

TEST_F(AddressLookupTest, ReadsPackedSymbolTables) {
  if (std::system("xz --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no xz to pack a symbol table with";
  victim_.Shape("--strip-debug", "small.so");
  RunCommand("xz '" + victim_.Path("small.so") + "'");
  const std::string packed =
      victim_.Shape("--strip-all --add-section .gnu_debugdata='" + victim_.Path("small.so.xz") + "'", "packed.so");
  ExpectFunctions(LookUp(packed));
}

TEST_F(AddressLookupTest, LeavesWhatHasNoNameUnnamed) {
  const ModuleSymbols symbols = LookUp(victim_.Shape("--strip-all", "stripped.so"));
  for (const VictimFrame& frame : victim_.frames())
    EXPECT_TRUE(symbols.At(frame.pc - victim_.load_bias()).empty()) << frame.function;
}

TEST_F(AddressLookupTest, NamesStubsOfTheDynamicLinker) {
  // Found through the section headers, as a reader of another tool would print them.
  FILE* const pipe = popen(("objdump -d -j .plt -j .plt.sec '" + victim_.original() + "' 2>/dev/null").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::vector<std::pair<uint64_t, std::string>> stubs;
  char line[1024], name[512];
  while (fgets(line, sizeof(line), pipe) != nullptr) {
    unsigned long long address = 0;
    char end = 0;  // "@plt-0x10" is the head of the table
    if (sscanf(line, "%llx <%500[^>@]@plt%c", &address, name, &end) == 3 && end == '>')
      stubs.push_back({address, name});
  }
  pclose(pipe);
  ASSERT_FALSE(stubs.empty());
  for (const auto& [address, function] : stubs) {
    const std::string stripped = victim_.Shape("--strip-all", "stripped.so");
    const LookupAnswer answer = LookUpIsolated({stripped, "", "", {address + 6}, true}, kNoProgress);
    const std::vector<NativeFunction> functions = answer.symbols.At(address + 6);
    ASSERT_EQ(functions.size(), 1u);
    EXPECT_EQ(functions[0].function, function + "@plt");
  }
  const auto is_getpid = [](const auto& stub) { return stub.second == "getpid"; };
  EXPECT_TRUE(std::any_of(stubs.begin(), stubs.end(), is_getpid));
}

TEST_F(AddressLookupTest, RefusesAnotherFile) {
  const LookupAnswer answer =
      LookUpIsolated({victim_.original(), "", "another build id", victim_.Addresses(), true}, kNoProgress);
  for (const uint64_t address : victim_.Addresses()) EXPECT_TRUE(answer.symbols.At(address).empty());
}

TEST_F(AddressLookupTest, SurvivesHostileFiles) {
  std::ifstream file(victim_.original(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::minstd_rand engine(11);
  const auto random = [&](size_t below) { return static_cast<size_t>(engine()) % below; };
  for (int i = 0; i < 200; ++i) {
    std::string broken = bytes;
    if (i % 4 == 0) broken.resize(random(bytes.size()));
    // The tables that lead everywhere are at the end, the headers at the start.
    for (size_t changes = 1 + random(40); changes > 0 && !broken.empty(); --changes) {
      const size_t at = i % 3 == 0 ? random(std::min<size_t>(broken.size(), 512)) : random(broken.size());
      broken[at] = static_cast<char>(random(256));
    }
    const std::string path = victim_.Path("broken.so");
    std::ofstream(path, std::ios::binary).write(broken.data(), static_cast<std::streamsize>(broken.size()));
    const LookupAnswer answer = LookUpIsolated({path, "", "", victim_.Addresses(), true}, kNoProgress);
    EXPECT_LE(answer.symbols.size(), victim_.frames().size());
  }
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const ReportProgress kNoReport = [](uint64_t, uint64_t) {};

TEST(IsolatedTest, AnswersAndReports) {
  std::vector<std::pair<uint64_t, uint64_t>> reported;
  int touched = 0;
  const auto answer = RunIsolated(
      [&](const ReportProgress& report) {
        touched = 1;
        report(1, 2);
        report(2, 2);
        return std::string(3 << 20, 'x');
      },
      [&](uint64_t done, uint64_t all) {
        reported.push_back({done, all});
      });
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->size(), 3u << 20);
  EXPECT_THAT(reported, ElementsAre(Pair(1, 2), Pair(2, 2)));
  EXPECT_EQ(touched, 0) << "the work is done in a copy";
}

TEST(IsolatedTest, SurvivesACrash) {
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGABRT, SIGKILL}) {
    const auto answer = RunIsolated(
        [&](const ReportProgress& report) {
          report(1, 2);
          raise(signal_number);
          return std::string("never");
        },
        kNoReport);
    EXPECT_THAT(answer.status().message(), HasSubstr("crashed (signal " + std::to_string(signal_number) + ")"));
  }
}

TEST(IsolatedTest, SurvivesLackOfMemory) {
  const auto answer = RunIsolated([](const ReportProgress&) -> std::string { throw std::bad_alloc(); }, kNoReport);
  EXPECT_THAT(answer.status().message(), HasSubstr("ran out of memory"));
}

TEST(IsolatedTest, IsLimited) {
  rlim_t core = 1, seconds = 0;
  const auto answer = RunIsolated(
      [](const ReportProgress&) {
        rlimit core_limit{}, time_limit{}, memory_limit{};
        getrlimit(RLIMIT_CORE, &core_limit);
        getrlimit(RLIMIT_CPU, &time_limit);
        getrlimit(RLIMIT_DATA, &memory_limit);
        if (memory_limit.rlim_cur == RLIM_INFINITY) return std::string("no limit");
        return std::to_string(core_limit.rlim_cur) + " " + std::to_string(time_limit.rlim_cur);
      },
      kNoReport);
  ASSERT_TRUE(answer.ok());
  ASSERT_EQ(std::sscanf(answer->c_str(), "%lu %lu", &core, &seconds), 2) << *answer;
  EXPECT_EQ(core, 0u);
  EXPECT_LE(seconds, 120u);
}

}  // namespace
}  // namespace gpumem
