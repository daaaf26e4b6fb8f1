// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/unwinder_memory.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>

namespace gpumemshim::stack {
namespace {

using Access = int (*)(void*, uintptr_t, uintptr_t*, int, void*);

std::set<int> OpenDescriptors() {
  std::set<int> found;
  for (int fd = 0; fd < 4096; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) found.insert(fd);
  }
  return found;
}

class UnwinderMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) GTEST_SKIP() << "no libunwind here";
    before_ = OpenDescriptors();
    ASSERT_TRUE(TakeOverMemory(library_));
#if defined(__x86_64__)
    space_ = *static_cast<void**>(dlsym(library_, "_ULx86_64_local_addr_space"));
    const auto get = reinterpret_cast<void** (*)(void*)>(dlsym(library_, "_Ux86_64_get_accessors"));
#else
    space_ = *static_cast<void**>(dlsym(library_, "_ULaarch64_local_addr_space"));
    const auto get = reinterpret_cast<void** (*)(void*)>(dlsym(library_, "_Uaarch64_get_accessors"));
#endif
    access_ = reinterpret_cast<Access>(get(space_)[3]);
  }

  int Read(const void* address, uintptr_t* value) {
    return access_(space_, reinterpret_cast<uintptr_t>(address), value, 0, nullptr);
  }

  void* library_ = nullptr;
  void* space_ = nullptr;
  Access access_ = nullptr;
  std::set<int> before_;
};

TEST_F(UnwinderMemoryTest, KeepsNoDescriptor) {
  EXPECT_EQ(OpenDescriptors(), before_);
  EXPECT_TRUE(TakeOverMemory(library_));  // in a forked child
}

TEST_F(UnwinderMemoryTest, ReadsWhatIsMapped) {
  const uintptr_t word = 0x1234;
  uintptr_t value = 0;
  EXPECT_EQ(Read(&word, &value), 0);
  EXPECT_EQ(value, word);
  EXPECT_LT(Read(reinterpret_cast<const void*>(0x10), &value), 0);
  EXPECT_LT(Read(reinterpret_cast<const void*>(~uintptr_t{0} - 3), &value), 0);
}

TEST_F(UnwinderMemoryTest, APageIsRememberedForOneStackAlone) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* memory =
      static_cast<char*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  munmap(memory + page, page);
  uintptr_t value = 0;
  ASSERT_NE(CurrentThread(), nullptr);
  {
    const PagesOnce once;
    EXPECT_EQ(Read(memory, &value), 0);
    EXPECT_EQ(Read(memory + page - sizeof value, &value), 0);
    EXPECT_LT(Read(memory + page - 4, &value), 0);  // half of it is on the next one
    EXPECT_LT(Read(memory + page, &value), 0);
  }
  EXPECT_EQ(Read(memory, &value), 0);
  munmap(memory, page);
  EXPECT_LT(Read(memory, &value), 0);
}

}  // namespace
}  // namespace gpumemshim::stack
