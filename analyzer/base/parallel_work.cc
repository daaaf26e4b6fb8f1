// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/parallel_work.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <new>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/file_output.h"

namespace gpumem {
namespace {

constexpr uint64_t kMaxAnswerBytes = 1 << 30;

// Goes before each answer.
struct Frame {
  uint64_t index = 0, bytes = 0;
};

absl::string_view BytesOf(const Frame& frame) { return {reinterpret_cast<const char*>(&frame), sizeof(frame)}; }

// The next thing that nobody has taken, counted by all processes together.
class SharedCounter {
 public:
  SharedCounter() {
    void* const page = mmap(nullptr, sizeof(*next_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) next_ = new (page) std::atomic<uint64_t>(0);
  }
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  ~SharedCounter() {
    if (next_ != nullptr) munmap(next_, sizeof(*next_));
  }

  bool ok() const { return next_ != nullptr; }
  uint64_t Take() { return next_->fetch_add(1, std::memory_order_relaxed); }  // nothing else is shared

 private:
  std::atomic<uint64_t>* next_ = nullptr;
};

struct Worker {
  pid_t pid = -1;
  int pipe = -1;
};

[[noreturn]] void Work(int pipe, pid_t parent, size_t count, SharedCounter* next,
                       const std::function<std::string(size_t)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  try {
    for (uint64_t index = next->Take(); index < count; index = next->Take()) {
      const std::string answer = work(index);
      const Frame frame{index, answer.size()};
      if (!WriteAll(pipe, BytesOf(frame)) || !WriteAll(pipe, answer)) _exit(1);
    }
    _exit(0);
  } catch (const std::exception&) {
    _exit(2);  // memory, as a rule
  }
}

std::vector<Worker> Start(size_t count, size_t processes, SharedCounter* next,
                          const std::function<std::string(size_t)>& work) {
  std::vector<Worker> workers;
  const pid_t parent = getpid();
  for (size_t i = 0; i < processes; ++i) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) break;
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      for (const Worker& other : workers) close(other.pipe);
      Work(ends[1], parent, count, next, work);
    }
    close(ends[1]);
    if (child > 0) {
      workers.push_back({child, ends[0]});
      continue;
    }
    close(ends[0]);
    break;
  }
  return workers;
}

// False at the end of the worker's answers.
bool TakeAnswer(const Worker& worker, const std::function<void(size_t, std::string)>& take,
                std::vector<bool>* answered) {
  Frame frame;
  if (!ReadExactly(worker.pipe, &frame, sizeof(frame))) return false;
  if (frame.index >= answered->size() || frame.bytes > kMaxAnswerBytes) return false;
  std::string answer(frame.bytes, '\0');
  if (!ReadExactly(worker.pipe, answer.data(), answer.size())) return false;
  (*answered)[frame.index] = true;
  take(frame.index, std::move(answer));
  return true;
}

void End(const Worker& worker) {
  close(worker.pipe);
  int status = 0;
  while (waitpid(worker.pid, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

size_t UsableCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return static_cast<size_t>(std::max(CPU_COUNT(&cores), 1));
}

std::vector<bool> WorkInParallel(size_t count, size_t processes, const std::function<std::string(size_t)>& work,
                                 const std::function<void(size_t, std::string)>& take) {
  std::vector<bool> answered(count, false);
  SharedCounter next;
  if (processes < 2 || count < 2 || !next.ok()) return answered;
  std::vector<Worker> workers = Start(count, std::min(processes, count), &next, work);
  while (!workers.empty()) {
    std::vector<pollfd> pipes;
    for (const Worker& worker : workers) pipes.push_back({worker.pipe, POLLIN, 0});
    if (poll(pipes.data(), pipes.size(), -1) < 0) continue;  // a signal
    for (size_t i = pipes.size(); i-- > 0;) {
      if (pipes[i].revents == 0 || TakeAnswer(workers[i], take, &answered)) continue;
      End(workers[i]);
      workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return answered;
}

}  // namespace gpumem
