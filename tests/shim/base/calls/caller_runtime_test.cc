// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/calls/caller_runtime.h"

#include <dlfcn.h>

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

void* const kFirst = reinterpret_cast<void*>(0x100);  // the first libcudart's function
void* const kOwn = reinterpret_cast<void*>(0x200);    // that of the caller's own

class CallerRuntime : public HookTest {
 protected:
  // An address in a library that is linked with libcudart.so.12.
  static const void* CallerIn12() {
    static void* const library = dlopen(GPUMEM_RUNTIME_USER_12, RTLD_NOW | RTLD_LOCAL);
    return library == nullptr ? nullptr : dlsym(library, "UseRuntime");
  }
};

TEST_F(CallerRuntime, ACallerThatIsLinkedWithNoneGetsTheFirst) {
  g_around.resolvable[ApiId::kcudaMalloc] = kFirst;
  EXPECT_EQ(RealFunctionFor(ApiId::kcudaMalloc, reinterpret_cast<const void*>(&Recorded)), kFirst);
}

TEST_F(CallerRuntime, ACallerGetsTheOneThatItIsLinkedWith) {
  ASSERT_NE(CallerIn12(), nullptr);
  g_around.resolvable[ApiId::kcudaMalloc] = kFirst;
  g_around.libraries["libcudart.so.12:cudaMalloc"] = kOwn;
  errno = kErrnoOfCall;
  EXPECT_EQ(RealFunctionFor(ApiId::kcudaMalloc, CallerIn12()), kOwn);
  EXPECT_EQ(errno, kErrnoOfCall);
  // Found once and remembered, for this caller.
  g_around.libraries.clear();
  EXPECT_EQ(RealFunctionFor(ApiId::kcudaMalloc, CallerIn12()), kOwn);
  EXPECT_EQ(RealFunctionFor(ApiId::kcudaMalloc, reinterpret_cast<const void*>(&Recorded)), kFirst);
}

TEST_F(CallerRuntime, ALibraryThatIsNotLoadedOrLacksTheFunction) {
  g_around.resolvable[ApiId::kcudaMallocAsync] = kFirst;
  EXPECT_EQ(RealFunctionFor(ApiId::kcudaMallocAsync, CallerIn12()), kFirst);
}

TEST_F(CallerRuntime, ARuntimeThatIsNotThereYetMayComeLater) {
  EXPECT_EQ(RealFunctionFor(ApiId::kcudaMalloc, CallerIn12()), nullptr);
  g_around.resolvable[ApiId::kcudaMalloc] = kFirst;
  EXPECT_EQ(RealFunctionFor(ApiId::kcudaMalloc, CallerIn12()), kFirst);
}

TEST_F(CallerRuntime, AnotherPreloadComesFirstWhoeverCalls) {
  g_around.resolvable[ApiId::kcudaMalloc] = kFirst;
  g_around.libraries["libcudart.so.12:cudaMalloc"] = kOwn;
  g_foreign_runtime[static_cast<uint16_t>(ApiId::kcudaMalloc)].store(true);
  EXPECT_EQ(RealFunctionFor(ApiId::kcudaMalloc, CallerIn12()), kFirst);
}

TEST_F(CallerRuntime, TheDriverIsOneForAll) {
  g_around.resolvable[ApiId::kcuMemAlloc_v2] = kFirst;
  g_around.libraries["libcudart.so.12:cuMemAlloc_v2"] = kOwn;
  EXPECT_EQ(RealFunctionFor(ApiId::kcuMemAlloc_v2, CallerIn12()), kFirst);
}

TEST_F(CallerRuntime, BeyondTheTableEachCallIsLookedUpAnew) {
  for (CallSite& site : g_sites) site.key.store(1);  // nobody's
  g_around.resolvable[ApiId::kcudaMalloc] = kFirst;
  const auto* caller = reinterpret_cast<const void*>(&Recorded);
  EXPECT_EQ(RealFunctionFor(ApiId::kcudaMalloc, caller), kFirst);
  g_real_functions[static_cast<uint16_t>(ApiId::kcudaMalloc)].store(kOwn);
  EXPECT_EQ(RealFunctionFor(ApiId::kcudaMalloc, caller), kOwn);
  for (CallSite& site : g_sites) EXPECT_EQ(site.key.load(), 1u);
}

}  // namespace
}  // namespace gpumemshim::hooks
