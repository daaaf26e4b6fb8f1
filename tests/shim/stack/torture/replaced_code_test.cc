// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Code that is not there for good, or that the compiler told nobody about: libraries that are replaced by others at the
// same address, generated code; and what frame pointers alone tell.

#include <alloca.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

class ReplacedCode : public Torture {};

INSTANTIATE_TEST_SUITE_P(Unwinders, ReplacedCode, testing::Values("libunwind", "libgcc"),
                         [](const auto& unwinder) { return std::string(unwinder.param); });

// --- frame pointers

#define WITH_FRAME_POINTER \
  __attribute__((noinline, noclone, optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")))

WITH_FRAME_POINTER void CheckByFramePointers() {
  ucontext_t here;
  getcontext(&here);
  const Captured captured = ProbeCapture();
  std::vector<uint64_t> expected = Reference(here, 8);
  expected[0] = captured.caller;
  std::vector<uint64_t> found = LastSent().pcs;
  ASSERT_GE(found.size(), 8u);
  found.resize(8);  // further out is code without frame pointers
  EXPECT_EQ(found, expected);
}

WITH_FRAME_POINTER void RecurseWithFramePointers(int depth) {
  if (depth == 0) {
    CheckByFramePointers();
  } else {
    RecurseWithFramePointers(depth - 1);
  }
  KEEP_FRAME;
}

TEST(FramePointers, AreFollowedAsFarAsTheyGo) {
  ASSERT_STREQ(ProbeEnable("fp"), "fp");
  for (int round = 0; round < 20; ++round) RecurseWithFramePointers(8 + round % 3);
  std::thread other([] { RecurseWithFramePointers(9); });
  other.join();
}

// --- libraries that come and go

using Plugin = void (*)(void (*)());

struct Loaded {
  void* handle = nullptr;
  Plugin call = nullptr;
};

Loaded Load(const char* file) {
  const std::string path = std::string(TORTURE_PLUGINS) + "/" + file;
  Loaded loaded;
  loaded.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded.handle != nullptr) loaded.call = reinterpret_cast<Plugin>(dlsym(loaded.handle, "PluginOuter"));
  return loaded;
}

NO_INLINE void CallPlugin(Plugin plugin, size_t bytes) {
  void* room = alloca(bytes);
  std::memset(room, 0, bytes);
  plugin(g_check);
  KEEP_FRAME;
}

void ExerciseReplacement(const char* first, const char* second) {
  uintptr_t place = 0;
  int same = 0;
  const uint64_t epoch = ProbeEpoch();
  std::vector<uint32_t> numbers[2];
  for (int round = 0; round < 8; ++round) {
    const Loaded loaded = Load(round % 2 == 0 ? first : second);
    ASSERT_NE(loaded.call, nullptr) << dlerror();
    const auto at = reinterpret_cast<uintptr_t>(loaded.call);
    if (place == at) ++same;
    place = at;
    // As many bytes here as are missing there: the outer words of the stack stay where they were.
    for (int i = 0; i < 6; ++i) CallPlugin(loaded.call, i % 2 == 0 ? 64 : 64 + 512);
    numbers[round % 2].push_back(LastSent().modules[2]);
    dlclose(loaded.handle);
  }
  ASSERT_GT(same, 0) << "the two were never loaded at the same place";
  EXPECT_GT(ProbeEpoch(), epoch);
  // The same library at the same place is the same module, another one never is.
  EXPECT_NE(numbers[0].back(), numbers[1].back());
  EXPECT_NE(numbers[0].back(), 0u);
}

TEST_P(ReplacedCode, AnotherLibraryAtTheSameAddress) {
  ExerciseReplacement("libplugin_small.so", "libplugin_large.so");
}

TEST_P(ReplacedCode, AnotherLibraryAtTheSameAddressWithoutBuildId) {
  ExerciseReplacement("libplugin_small_bare.so", "libplugin_large_bare.so");
}

TEST_P(ReplacedCode, TheSameLibraryAgainIsTheSame) {
  const Loaded first = Load("libplugin_small.so");
  CallPlugin(first.call, 64);
  const uint32_t number = LastSent().modules[2];
  const auto at = first.call;
  dlclose(first.handle);
  const Loaded again = Load("libplugin_small.so");
  if (again.call != at) GTEST_SKIP() << "loaded elsewhere this time";
  const uint64_t epoch = ProbeEpoch();
  CallPlugin(again.call, 64);
  EXPECT_EQ(LastSent().modules[2], number);
  EXPECT_EQ(ProbeEpoch(), epoch);
  dlclose(again.handle);
}

// --- generated code

// `code` in executable memory: a function that calls its argument.
class Generated {
 public:
  explicit Generated(std::initializer_list<unsigned char> code, void* place = nullptr) {
    memory_ = mmap(place, kBytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(memory_, std::data(code), code.size());
  }
  ~Generated() { munmap(memory_, kBytes); }
  Generated(const Generated&) = delete;
  Generated& operator=(const Generated&) = delete;
  void Call() const { reinterpret_cast<Plugin>(memory_)(g_check); }

 private:
  static constexpr size_t kBytes = 4096;
  void* memory_;
};

TEST_P(ReplacedCode, GeneratedCodeWithFramePointers) {
  if (GetParam() == std::string("libgcc")) {
    g_check();
    GTEST_SKIP() << "libgcc ends at code without tables; the next test says that this is reported";
  }
  // push rbp; mov rbp, rsp; call rdi; pop rbp; ret
  const Generated code({0x55, 0x48, 0x89, 0xE5, 0xFF, 0xD7, 0x5D, 0xC3});
  for (int round = 0; round < 20; ++round) code.Call();
}

NO_INLINE Sent CaptureSent() {
  ProbeCapture();
  return LastSent();
}

std::vector<uint64_t> g_true_callers;
Sent g_sent;

NO_INLINE void CheckPrefix() {
  g_sent = CaptureSent();
  ++g_checks;
}

TEST_P(ReplacedCode, GeneratedCodeWithoutAnythingIsCutAndNeverWrong) {
  // push rbp; push 0x1234 four times; lea rbp, [rsp + 8]; call rdi; add rsp, 32; pop rbp; ret: rbp points at numbers
  // that are no frame. (What lies on the stack by itself looks like a return address one time in two hundred.)
  const Generated code({0x55, 0x68, 0x34, 0x12, 0x00, 0x00, 0x68, 0x34, 0x12, 0x00, 0x00, 0x68,
                        0x34, 0x12, 0x00, 0x00, 0x68, 0x34, 0x12, 0x00, 0x00, 0x48, 0x8D, 0x6C,
                        0x24, 0x08, 0xFF, 0xD7, 0x48, 0x83, 0xC4, 0x20, 0x5D, 0xC3});
  auto* const check = g_check;
  g_check = &CheckPrefix;
  for (int round = 0; round < 20; ++round) code.Call();
  g_check = check;
  // CaptureSent, CheckPrefix, the generated code, and then nothing that is made up.
  EXPECT_EQ(g_sent.pcs.size(), 3u);
  EXPECT_TRUE(g_sent.cut);
  EXPECT_EQ(g_sent.modules.back(), 0u);
}

}  // namespace
