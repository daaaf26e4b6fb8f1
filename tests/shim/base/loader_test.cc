// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/loader.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace gpumemshim::loader {
namespace {

constexpr unsigned kChildSeconds = 20;  // a child that hangs is ended by then

void RegisterOnce() {
  static const int registered = pthread_atfork(&BeforeFork, &AfterForkInParent, &ForgetInChild);
  ASSERT_EQ(registered, 0);
}

// The child's threads are gone, which the thread sanitizer's _exit takes for a leak.
void End(int status) { syscall(SYS_exit_group, status); }

// Exit status of a child that loads a library which nothing has loaded yet; -1 where a signal ended it.
int LoadInChild() {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(kChildSeconds);
    End(dlopen("libresolv.so.2", RTLD_NOW) != nullptr ? 0 : 1);
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A thread in the loader until a fork waits for it, or for as long as is asked.
struct Visit {
  std::atomic<bool> inside{false};
  std::atomic<bool> saw_fork{false};

  static int At(dl_phdr_info*, size_t, void* data) {
    auto* visit = static_cast<Visit*>(data);
    visit->inside = true;
    while (!ForkWaits()) std::this_thread::yield();
    visit->saw_fork = true;
    return 1;
  }
};

TEST(Loader, AForkWaitsForItsUsers) {
  RegisterOnce();
  Visit visit;
  std::thread user([&] { Iterate(&Visit::At, &visit); });
  while (!visit.inside) std::this_thread::yield();
  EXPECT_EQ(LoadInChild(), 0);
  user.join();
  EXPECT_TRUE(visit.saw_fork);
  EXPECT_FALSE(ForkWaits());
}

TEST(Loader, UsersWaitForAFork) {
  std::atomic<bool> inside{false};
  BeforeFork();
  std::thread user([&] {
    const Use use;
    inside = true;
  });
  { const Use own; }  // whoever forks does not wait for itself
  const bool came_in = inside;
  AfterForkInParent();
  user.join();
  EXPECT_FALSE(came_in);
  EXPECT_TRUE(inside);
}

int ForkInside(dl_phdr_info*, size_t, void* data) {
  const Use nested;
  const pid_t pid = fork();
  if (pid == 0) End(ForkWaits() ? 1 : 0);
  int status = 0;
  waitpid(pid, &status, 0);
  *static_cast<int*>(data) = status;
  return 1;
}

TEST(Loader, AUserMayFork) {
  RegisterOnce();
  int status = -1;
  Iterate(&ForkInside, &status);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(LoadInChild(), 0);
}

TEST(Loader, AUserThatIsGoneIsWaitedForOnce) {
  RegisterOnce();
  std::thread([] {
    alignas(Use) static unsigned char memory[sizeof(Use)];
    new (memory) Use;  // as of a thread that was ended inside
  }).join();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(LoadInChild(), 0);  // the first waits kPatienceMs
  EXPECT_FALSE(ForkWaits());
}

TEST(Loader, ManyThreadsAndForks) {
  RegisterOnce();
  std::atomic<bool> done{false};
  std::atomic<int> objects{0};
  const auto count = [](dl_phdr_info*, size_t, void* data) {
    static_cast<std::atomic<int>*>(data)->fetch_add(1);
    return 0;
  };
  std::thread users[2];
  for (std::thread& user : users) {
    user = std::thread([&] {
      while (!done) Iterate(count, &objects);
    });
  }
  for (int i = 0; i < 30; ++i) EXPECT_EQ(LoadInChild(), 0);
  done = true;
  for (std::thread& user : users) user.join();
  EXPECT_GT(objects, 0);
}

}  // namespace
}  // namespace gpumemshim::loader
