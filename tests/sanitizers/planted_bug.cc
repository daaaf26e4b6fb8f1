// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// One bug of the kind that a sanitizer is there to find: a heap overflow, a data race or a signed overflow. A lane that
// lets this program end well would let any bug of ours pass.
//
//   planted_bug address|thread|undefined         runs into the bug: a report on stderr, exit code not 0
//   planted_bug address|thread|undefined clean   does the same work without it: exit code 0

#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

namespace {

// Volatile: the compiler must not see the bug and fold it away.
volatile int element_count = 16;
volatile int largest = INT_MAX;

// Reads the element behind the last one.
int HeapOverflow(bool clean) {
  const std::unique_ptr<int[]> numbers(new int[element_count]{});
  return numbers[element_count - (clean ? 1 : 0)] == INT_MIN ? 1 : 0;
}

// Two threads count; with the bug, one of them does so without the lock.
int DataRace(bool clean) {
  std::mutex mutex;
  int count = 0;
  const auto work = [&](bool locked) {
    for (int i = 0; i < 1000; ++i) {
      std::unique_lock<std::mutex> lock(mutex, std::defer_lock);
      if (locked) lock.lock();
      ++count;
    }
  };
  std::thread other(work, true);
  work(clean);
  other.join();
  return count == 0 ? 1 : 0;
}

int SignedOverflow(bool clean) {
  const int next = largest + (clean ? 0 : 1);
  return next == 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool clean = argc == 3 && std::strcmp(argv[2], "clean") == 0;
  const char* sanitizer = argc > 1 ? argv[1] : "";
  int code = 2;
  if (std::strcmp(sanitizer, "address") == 0) code = HeapOverflow(clean);
  if (std::strcmp(sanitizer, "thread") == 0) code = DataRace(clean);
  if (std::strcmp(sanitizer, "undefined") == 0) code = SignedOverflow(clean);
  std::puts("ended without a report");
  return code;
}
