// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/event_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "simcuda/base/note.h"

namespace simcuda {
namespace {

constexpr char kHeader[] =
    "seq\ttime_ns\ttid\tapi\tkind\tdevice\taddress\tsize\thandle\tstream\tresult\tlive_bytes\tused_bytes\n";

std::string ExpandPid(const std::string& pattern) {
  std::string path = pattern;
  for (size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at)) {
    path.replace(at, 2, std::to_string(::getpid()));
  }
  return path;
}

uint64_t MonotonicNanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

int64_t ThreadId() {
  static thread_local const int64_t id = ::syscall(SYS_gettid);
  return id;
}

// Out of the way: a program that closes its low descriptors and opens files must neither stop the log nor write to it.
// Nor must the recorder, whose numbers begin at 900: one that was closed is written to once more here.
constexpr int kFirstDescriptor = 800;

int MoveUp(int file) {
  const int moved = file < 0 ? -1 : ::fcntl(file, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (moved < 0) return file;
  ::close(file);
  return moved;
}

}  // namespace

EventLog::~EventLog() {
  if (IsOurs()) ::close(file_);
}

bool EventLog::IsOurs() const {
  struct stat status {};
  return file_ >= 0 && ::fstat(file_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

bool EventLog::Open() {
  const std::string path = ExpandPid(pattern_);
  const bool again = sequence_ > 0;  // the program closed it
  file_ = MoveUp(::open(path.c_str(), O_WRONLY | O_CREAT | (again ? 0 : O_TRUNC) | O_APPEND | O_CLOEXEC, 0644));
  struct stat status {};
  if (file_ >= 0 && ::fstat(file_, &status) == 0) {
    device_ = status.st_dev;
    inode_ = status.st_ino;
  }
  if (file_ >= 0 && again) return true;
  if (file_ >= 0 && ::write(file_, kHeader, sizeof kHeader - 1) == static_cast<ssize_t>(sizeof kHeader - 1))
    return true;
  PrintLine("cannot write SIMCUDA_LOG file %s: %s", path.c_str(), std::strerror(errno));
  pattern_.clear();
  return false;
}

void EventLog::Write(const LogEvent& event) {
  if (pattern_.empty() || (!IsOurs() && !Open())) return;
  char line[512];
  const int length =
      std::snprintf(line, sizeof line,
                    "%" PRIu64 "\t%" PRIu64 "\t%" PRId64 "\t%s\t%s\t%d\t0x%" PRIx64 "\t%" PRIu64 "\t0x%" PRIx64
                    "\t0x%" PRIx64 "\t%d\t%" PRIu64 "\t%" PRIu64 "\n",
                    ++sequence_, MonotonicNanoseconds(), ThreadId(), event.api, event.kind, event.device, event.address,
                    event.size, event.handle, event.stream, event.result, event.live_bytes, event.used_bytes);
  if (::write(file_, line, static_cast<size_t>(length)) != length) {
    PrintLine("SIMCUDA_LOG stopped: %s", std::strerror(errno));
    pattern_.clear();
  }
}

}  // namespace simcuda
