// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LiveFrame: everything that `gpumemshim live` shows of running programs at one moment, as plain values: the screen and
// --json take their numbers from here. Sizes are bytes; times are nanoseconds
// from the trace's first event on. Made by a LiveJob.

#ifndef GPUMEM_ANALYZER_LIVE_LIVE_FRAME_H_
#define GPUMEM_ANALYZER_LIVE_LIVE_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answers/outlook/outlook.h"
#include "ledger/attribution/category.h"
#include "render/document.h"
#include "replay/analysis.h"

namespace gpumem {

struct LiveDevice {
  int device = 0;
  std::string name;
  uint64_t capacity = 0;  // 0 = not known
  MeasureValues now, peak;
  PeakBound bound = PeakBound::kExact;  // of the peak
  bool is_unsure = false;               // behind a gap, until PyTorch says its totals again
  std::optional<uint64_t> used;         // of the device, by all processes, as it said last
  std::optional<uint64_t> own;          // by this process, as nvidia-smi shows
  std::vector<OtherProcess> others;     // other processes that it named then, largest first; some may be left out
  uint64_t said_ns = 0;                 // when it said so
  std::vector<TimelinePoint> curve;     // absolute times (LiveProcess::origin_ns)
};

// A line of the program's code with memory that is alive.
struct LiveLine {
  std::string site;     // escaped for a terminal
  std::string through;  // what it called; "" = nothing to add
  uint64_t bytes = 0, blocks = 0;
  Category category = Category::kUnknown;  // of the largest stack in it
  // Since the frame of `LiveProcess::changes_since_ns`; nothing where there is no earlier frame.
  std::optional<int64_t> change;
};

struct LiveSteps {
  uint64_t count = 0;   // complete ones
  uint64_t last = 0;    // the last one's number
  double step_ns = 0;   // median of the newest; 0 = there is none
  uint64_t level = 0;   // peak of the last one
  double per_step = 0;  // growth of the peaks that goes on, bytes; 0 = none does
};

struct LiveProcess {
  enum class State : uint8_t {
    kRunning,
    kEnded,    // its trace is whole
    kKilled,   // it has ended, and its trace was not closed
    kUnknown,  // not a process of this machine: its trace may still grow
  };
  std::string file;
  ProcessInfo process;
  State state = State::kUnknown;
  bool is_local = false;  // it runs here, and may be asked through its control socket
  double read = 1;        // how much of the file was read, of 1: below, numbers are of an earlier moment
  uint64_t origin_ns = 0, now_ns = 0;
  // How long ago its newest event or sample was, of a trace that may still grow and was read to its end: the recorder
  // samples about once a second while the program lives. By this machine's clock: for another machine it is as exact as
  // the two clocks agree. Nothing: not known.
  std::optional<uint64_t> heartbeat_age_ns;
  uint64_t events = 0, file_bytes = 0;
  std::vector<LiveDevice> devices;
  // What follows is of one device: the one with the largest peak; -1 = there is none.
  int device = -1;
  Measure measure = Measure::kAllocated;  // whose stacks the lines are of
  bool has_categories = false;            // the program's tensors, or autograd, were looked at
  CategoryBytes categories{};
  std::vector<LiveLine> lines;  // largest first
  uint64_t lines_bytes = 0;     // of all of them
  uint64_t changes_since_ns = 0;
  LiveSteps steps;
  Outlook outlook;
  bool at_program_end = false;   // categories and lines are those of the end of the program's own code
  uint64_t failed_requests = 0;  // that PyTorch's allocator, or else CUDA, refused for want of memory
  LossCounts losses;
  std::string last_mark;
  std::string problem;  // what cannot be shown, and why; "" = nothing
};

// Whether its trace may still grow: it runs, or nobody here knows.
inline bool MayGrow(const LiveProcess& process) {
  return process.state == LiveProcess::State::kRunning || process.state == LiveProcess::State::kUnknown;
}

// The processes that hold a job up, as far as steps say: those at the lowest step of the ranks that may still run,
// where another one is at least two steps further. Empty where no rank is behind.
std::vector<const LiveProcess*> LaggingRanks(const std::vector<LiveProcess>& processes);

struct LiveFrame {
  std::string place;  // as it was asked for
  std::vector<LiveProcess> processes;
  std::string problem;  // there is nothing to show, and why
};

absl::string_view LiveStateName(LiveProcess::State state);  // "running"

// What `gpumemshim live --json` answers; people get the terminal view (live_draw.h). The frame outlives it. Pure.
//
//   ToJson(LiveDocument(frame), JsonLayout::kOneLine)   // for JSON lines
Document LiveDocument(const LiveFrame& frame);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_LIVE_FRAME_H_
