// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The simulation's own record of every memory-relevant driver call, to test tracers against: a TSV file with a header
// line, one line an event.
//
//   seq time_ns tid api kind device address size handle stream result live_bytes used_bytes
//
// Each line is one write(2) to a file opened with O_APPEND, so what was logged survives a kill -9 and lines of several
// threads never mix. A program may close all its descriptors, and the numbers go to other files: the descriptor is
// looked at before each line, and the file opened again where it is another one's.
//
// Thread-safety: Write() must be called under the owner's lock (the machine's), which also makes seq, time and the byte
// counters agree with the order of events. Ownership: the machine owns its log.
// Failure mode: a file that cannot be opened turns the log off, with one line on stderr.
// Example: SIMCUDA_LOG=/tmp/sim.%p.tsv python train.py
#ifndef SIMCUDA_BASE_EVENT_LOG_H_
#define SIMCUDA_BASE_EVENT_LOG_H_

#include <cstdint>
#include <string>

namespace simcuda {

struct LogEvent {
  const char* api = "";
  const char* kind = "";
  int device = -1;  // -1: host memory or address space that belongs to no device
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t handle = 0;
  uint64_t stream = 0;
  int result = 0;
  uint64_t live_bytes = 0;
  uint64_t used_bytes = 0;
};

class EventLog {
 public:
  // `pattern` may hold %p, replaced by the process id; empty turns the log off.
  explicit EventLog(std::string pattern) : pattern_(std::move(pattern)) {}
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  bool enabled() const { return !pattern_.empty(); }
  void Write(const LogEvent& event);

 private:
  bool Open();
  // Whether the descriptor is still the log's.
  bool IsOurs() const;

  std::string pattern_;
  int file_ = -1;
  uint64_t device_ = 0, inode_ = 0;  // of the file
  uint64_t sequence_ = 0;
};

}  // namespace simcuda

#endif  // SIMCUDA_BASE_EVENT_LOG_H_
