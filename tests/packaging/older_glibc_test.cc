// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// packaging/older_glibc.c in a program whose unwinder is linked in, as in the packaged files: its functions are taken
// before those of this machine's glibc.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern "C" {
uint32_t arc4random();
void arc4random_buf(void* to, size_t size);
int _dl_find_object(void* address, dl_find_object* found);
}

namespace {

TEST(FindObject, AgreesWithGlibcsOwn) {
  using Find = int (*)(void*, dl_find_object*);
  const auto theirs = reinterpret_cast<Find>(dlsym(RTLD_NEXT, "_dl_find_object"));
  if (theirs == nullptr) GTEST_SKIP() << "this machine's glibc has no _dl_find_object to compare with";
  ASSERT_NE(reinterpret_cast<void*>(theirs), reinterpret_cast<void*>(&_dl_find_object));
  for (void* address :
       {reinterpret_cast<void*>(&arc4random), dlsym(RTLD_DEFAULT, "printf"), dlsym(RTLD_DEFAULT, "pow")}) {
    if (address == nullptr) continue;
    dl_find_object expected{}, found{};
    ASSERT_EQ(theirs(address, &expected), 0);
    ASSERT_EQ(_dl_find_object(address, &found), 0);
    EXPECT_EQ(found.dlfo_eh_frame, expected.dlfo_eh_frame);
    EXPECT_LE(found.dlfo_map_start, address);
    EXPECT_GT(found.dlfo_map_end, address);
  }
}

TEST(FindObject, FindsNothingOutsideOfCode) {
  dl_find_object found{};
  std::vector<char> heap(64);
  EXPECT_NE(_dl_find_object(heap.data(), &found), 0);
  EXPECT_NE(_dl_find_object(nullptr, &found), 0);
}

int Deep(int levels) {
  const std::string held(100, 'x');
  if (levels == 0) throw std::runtime_error("deep");
  return Deep(levels - 1) + static_cast<int>(held.size());
}

TEST(Exceptions, AreCaughtInEveryThread) {
  std::vector<std::thread> threads;
  std::vector<int> caught(4);
  threads.reserve(caught.size());
  for (int& count : caught) {
    threads.emplace_back([&count] {
      for (int i = 0; i < 100; ++i) {
        try {
          Deep(i % 20);
        } catch (const std::exception& error) {
          count += std::string(error.what()) == "deep" ? 1 : 0;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(caught, std::vector<int>(4, 100));
}

TEST(Random, FillsAllBytesAndNeverTheSame) {
  std::set<uint32_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(arc4random());
  EXPECT_GT(seen.size(), 990u);
  std::vector<unsigned char> bytes(10000), guard = bytes;
  arc4random_buf(bytes.data(), bytes.size() - 1);
  EXPECT_EQ(bytes.back(), 0);
  EXPECT_NE(std::vector<unsigned char>(bytes.end() - 100, bytes.end() - 1), std::vector<unsigned char>(99));
}

// libstdc++ calls pthread_cond_clockwait for these.
TEST(Condition, WaitsForTheMonotonicClock) {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  for (const int milliseconds : {-1000, 0, 1, 20}) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    while (condition.wait_until(lock, until) == std::cv_status::no_timeout) continue;  // the clocks may differ a little
    EXPECT_GE(std::chrono::steady_clock::now(), until);
  }
}

TEST(Condition, IsWokenBeforeItsTime) {
  std::mutex mutex;
  std::condition_variable condition;
  bool told = false;
  std::thread teller([&] {
    const std::lock_guard lock(mutex);
    told = true;
    condition.notify_all();
  });
  std::unique_lock lock(mutex);
  EXPECT_TRUE(condition.wait_for(lock, std::chrono::hours(1), [&] { return told; }));
  lock.unlock();
  teller.join();
}

TEST(Condition, RefusesOtherClocks) {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  const timespec until = {0, 0};
  EXPECT_EQ(pthread_cond_clockwait(&condition, &mutex, CLOCK_THREAD_CPUTIME_ID, &until), EINVAL);
}

}  // namespace
