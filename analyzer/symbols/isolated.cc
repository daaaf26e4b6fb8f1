// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/isolated.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file_output.h"

namespace gpumem {
namespace {

constexpr rlim_t kMaxSeconds = 120;
constexpr uint64_t kMaxAnswerBytes = 1 << 30;

// What goes through the pipe.
struct Frame {
  enum Kind : uint64_t { kProgress = 1, kAnswer = 2 };
  uint64_t kind, first, second;  // done and all; or the size of the answer, which follows
};

absl::string_view BytesOf(const Frame& frame) { return {reinterpret_cast<const char*>(&frame), sizeof(frame)}; }

// Private memory that this process has mapped: sanitizers reserve terabytes.
uint64_t DataBytes() {
  uint64_t kib = 0;
  if (FILE* const file = fopen("/proc/self/status", "re")) {
    char line[256];
    while (fgets(line, sizeof(line), file) != nullptr) {
      unsigned long long value = 0;
      if (sscanf(line, "VmData: %llu", &value) == 1) kib = value;
    }
    fclose(file);
  }
  return kib * 1024;
}

void Limit(__rlimit_resource resource, rlim_t most) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, std::min(limit.rlim_cur, most));
  setrlimit(resource, &limit);
}

[[noreturn]] void Work(int pipe, pid_t parent, const std::function<std::string(const ReportProgress&)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  // Crashes are expected here: no handler, no core file.
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU}) signal(signal_number, SIG_DFL);
  const uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_CPU, kMaxSeconds);
  Limit(RLIMIT_DATA, DataBytes() + memory / 2);
  try {
    const std::string answer = work([pipe](uint64_t done, uint64_t all) {
      const Frame frame{Frame::kProgress, done, all};
      if (!WriteAll(pipe, BytesOf(frame))) _exit(1);
    });
    const Frame frame{Frame::kAnswer, answer.size(), 0};
    _exit(WriteAll(pipe, BytesOf(frame)) && WriteAll(pipe, answer) ? 0 : 1);
  } catch (const std::exception&) {
    _exit(2);  // memory, as a rule
  }
}

absl::Status Died(int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
    return absl::AbortedError(absl::StrCat("the reader took more than ", kMaxSeconds, " s"));
  }
  if (WIFSIGNALED(status))
    return absl::AbortedError(absl::StrCat("the reader crashed (signal ", WTERMSIG(status), ")"));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return absl::AbortedError("the reader ran out of memory");
  return absl::AbortedError("the reader ended without an answer");
}

// True once the whole answer is there.
bool ReadAnswer(int pipe, const ReportProgress& progress, std::string* answer) {
  for (Frame frame{}; ReadExactly(pipe, &frame, sizeof(frame));) {
    if (frame.kind == Frame::kProgress) {
      progress(frame.first, frame.second);
    } else if (frame.kind == Frame::kAnswer && frame.first <= kMaxAnswerBytes) {
      answer->resize(frame.first);
      return ReadExactly(pipe, answer->data(), answer->size());
    } else {
      return false;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<std::string> RunIsolated(const std::function<std::string(const ReportProgress& report)>& work,
                                        const ReportProgress& progress) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::UnavailableError(absl::StrCat("no pipe: ", std::strerror(errno)));
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    Work(ends[1], parent, work);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return absl::UnavailableError(absl::StrCat("no process for the reader: ", std::strerror(errno)));
  }
  std::string answer;
  const bool whole = ReadAnswer(ends[0], progress, &answer);
  close(ends[0]);
  if (!whole) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (whole) return answer;
  return Died(status);
}

}  // namespace gpumem
