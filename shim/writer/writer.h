// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The writer thread: takes records from the ring, puts them in order, encodes them as proto/gpumem/trace.proto and
// appends them to the file, at least every 100 ms. The file is opened at the first event, so a process that records
// nothing leaves nothing.
//
// Thread-safety: Flush and GetProgress from any thread at any time (they wake, and copy). Start, Stop and
// ForgetInChild: one at a time, by control. Ownership: Config is copied; its callbacks are called on the writer thread
// only, with all signals blocked and no lock held. What a hook points to must stay valid until the same hook is called
// again or Stop has returned. Failure: an error of the file ends the writing, not the program: events are counted as
// unwritten, the first error is kept for the summary.
//
//   writer::Config config;
//   config.callbacks.paths.wanted = &OutputPath;
//   config.callbacks.facts.fill_header = &FillHeader;
//   if (ring::Start(ring_config) && writer::Start(config)) ...
//   writer::Summary summary = writer::Stop(2000);

#ifndef GPUMEM_SHIM_WRITER_WRITER_H_
#define GPUMEM_SHIM_WRITER_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "shim/base/event.h"
#include "shim/base/proto_writer.h"

namespace gpumemshim::writer {

struct KeyValue {
  const char* key;
  const char* value;
};

// A process above this one.
struct Ancestor {
  uint32_t pid;
  uint64_t start_ticks;
  char name[16];
};

// The process's part of trace.proto's Header; nullptr or 0 = not known. format_version, pid, parent_pid, the clock
// anchors and the ring are filled in by the writer itself.
struct HeaderInfo {
  const char* writer_version = nullptr;
  uint64_t process_start_ticks = 0;
  const char* hostname = nullptr;
  const char* program = nullptr;
  const char* executable = nullptr;
  const char* const* command_line = nullptr;  // secrets masked
  uint32_t command_line_count = 0;
  const char* working_directory = nullptr;
  const KeyValue* environment = nullptr;
  uint32_t environment_count = 0;
  const KeyValue* settings = nullptr;
  uint32_t settings_count = 0;
  int64_t rank = -1;  // -1 = absent
  int64_t world_size = -1;
  int64_t local_rank = -1;
  const Ancestor* ancestors = nullptr;  // parent first
  uint32_t ancestor_count = 0;
  uint64_t pid_namespace = 0;
  const uint8_t* boot_id = nullptr;  // 16 bytes
};

struct DeviceInfo {
  const char* name = nullptr;
  uint8_t uuid[16] = {};
  bool has_uuid = false;
  uint64_t total_bytes = 0;
  uint32_t compute_major = 0;
  uint32_t compute_minor = 0;
  const char* pci_bus_id = nullptr;
};

// Losses that stack capture counts (trace.proto, Losses).
struct StackLosses {
  uint64_t truncated_stacks = 0;
  uint64_t unread_python_frames = 0;
};

// What the writer asks of the rest of the recorder, by who answers it. Plain functions, called in the writer's thread;
// each may be nullptr but paths.wanted.

struct PathCallbacks {
  // Writes the wanted path, terminated, into out. Called when the file is about to be opened. False: write no file.
  bool (*wanted)(char* out, size_t capacity) = nullptr;
  // The same for the places to try where the wanted one cannot be written, attempt 0 first. False: no more of them.
  bool (*fallback)(uint32_t attempt, char* out, size_t capacity) = nullptr;
};

// Of the process, its devices and libraries.
struct FactCallbacks {
  // Called when a file is about to be opened.
  void (*fill_header)(HeaderInfo* info) = nullptr;
  // Called when the first event of a device is about to be written. False: not known now; asked again about once a
  // second.
  bool (*fill_device)(int16_t device, DeviceInfo* info) = nullptr;
  // Versions ("driver", "torch", ...) that were not handed over before; returns how many. Called at the first packet
  // and about once a second.
  uint32_t (*new_versions)(KeyValue* out, uint32_t capacity) = nullptr;
  // Name of Event.api: ApiName of base/api.h. nullptr or "" = no name.
  const char* (*api_name)(uint16_t api) = nullptr;
};

// What is lost before it reaches the ring.
struct LossCallbacks {
  void (*of_stacks)(StackLosses* losses) = nullptr;
  // Looks for calls of CUDA that go past us, about once a second and at the end (`last`); returns how many things are
  // known of it so far. Then, where that changed, appends them as fields of Losses.
  uint32_t (*find_unseen)(bool last) = nullptr;
  void (*put_unseen)(ProtoWriter* w) = nullptr;
};

struct WatcherCallbacks {
  // Each event on its way into the file, in the order of the file.
  void (*saw_event)(const Event& event, uint32_t tid) = nullptr;
  // What was seen is in the file at `path` ("" = there is none, or it takes no more). `last`: the file is closed.
  void (*passed)(const char* path, bool last) = nullptr;
};

struct SampleCallbacks {
  // Appends one packet of counters that waits to be written; false: none. Called at the start of a pass, till false.
  bool (*put)(ProtoWriter* w) = nullptr;
  // The same with a packet of what CUPTI said.
  bool (*put_cupti)(ProtoWriter* w) = nullptr;
  // Whether CUPTI saw memory: worth a file where no event ever comes.
  bool (*has_cupti)() = nullptr;
};

struct Callbacks {
  PathCallbacks paths;
  FactCallbacks facts;
  LossCallbacks losses;
  WatcherCallbacks watcher;
  SampleCallbacks samples;
};

enum class OnFull : uint8_t {
  kLast,    // go on in new files and remove the oldest: the last max_bytes are kept
  kRotate,  // go on in new files and keep all; with max_bytes of them there, counters and losses only
  kStop,    // counters and losses only
};

struct SizeLimit {
  uint64_t max_bytes = 0;  // of all files of the trace together; 0 = none
  OnFull on_full = OnFull::kLast;
};

struct Config {
  Callbacks callbacks;
  SizeLimit limit;
  uint32_t interval_ms = 90;  // between appends when nobody asks for more; <= 100 by contract
};

// What the one line on stderr and the tests need.
struct Summary {
  bool opened;          // a file exists
  bool complete;        // everything up to Stop is in it, End included
  char path[4096];      // as opened, "" if none; of a series the last
  uint64_t file_bytes;  // of a series all that is kept
  uint64_t events;      // written
  uint64_t torch_events;
  uint64_t runtime_events;
  uint64_t driver_events;
  uint64_t dropped_allocs;
  uint64_t dropped_frees;
  uint64_t dropped_definitions;
  uint64_t unwritten_events;
  uint64_t truncated_stacks;
  uint64_t unread_python_frames;
  char error[256];  // first error of the file, "" if none
  bool timed_out;   // the file did not take the end in time: path and events are as of the last pass, the rest is unset
};

// How far the file is, for whoever asks while it is written.
struct Progress {
  char path[4096];      // "" while no file was opened
  uint64_t file_bytes;  // whole packets
  uint64_t events;
  uint64_t unwritten_events;
  char error[256];
};

// As of the last pass; empty where there is no writer. Not while Start or Stop runs.
void GetProgress(Progress* progress);

// Starts the thread. The ring must be active. False: no thread or no memory could be had.
bool Start(const Config& config);

// Takes what is left, writes counters, losses and End, joins the thread, stops the ring and removes its file. Waits at
// most about timeout_ms; past it the thread is left to itself and complete is false. Then report_timeout_ms more for
// callbacks.watcher.passed, which is called last. Without Start: an empty summary.
Summary Stop(uint32_t timeout_ms, uint32_t report_timeout_ms = 0);

// The same where the process ends at once: by any thread, also by several, beside Stop, and in a signal handler in the
// middle of anything; of a run that has ended it just tells. Waits on a futex, and neither joins nor frees. The caller
// never goes back to what it was doing. nullptr: no run of this process, called by the writer itself, or not in time.
const Summary* EndNow(uint32_t timeout_ms, uint32_t report_timeout_ms);

// Asks for an append now. Does not wait.
void Flush();

// The same, and waits until everything recorded before the call is in the file, at most timeout_ms. Never from a hook.
// True: it is.
bool FlushAndWait(uint32_t timeout_ms);

// In a forked child: forget the parent's thread and close its file.
void ForgetInChild();

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_WRITER_H_
