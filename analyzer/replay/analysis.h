// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Analysis: everything that one trace says about memory, as plain values. replay/ computes it, report/ and commands/
// print it, and neither knows the other. All sizes are bytes, all times are nanoseconds of CLOCK_MONOTONIC; `origin_ns`
// is the first event's time, so reports print time_ns - origin_ns.
//
// The four series that every device has:
//   allocated  PyTorch blocks in use (what torch.cuda.memory_allocated() counts)
//   reserved   PyTorch segments (what torch.cuda.memory_reserved() counts)
//   other      CUDA device memory of this process that is not a PyTorch segment: NCCL, cuBLAS, own calls
//   total      reserved + other: all CUDA device memory known to us. Pinned host memory and bare address space are not
//   in it.

#ifndef GPUMEM_ANALYZER_REPLAY_ANALYSIS_H_
#define GPUMEM_ANALYZER_REPLAY_ANALYSIS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "replay/cupti_info.h"
#include "replay/existing_log.h"
#include "replay/free_space.h"
#include "replay/mark_log.h"
#include "replay/owners.h"
#include "replay/state/accounts.h"
#include "replay/state/communicators.h"
#include "replay/state/residual_memory.h"
#include "trace/event_batch.h"
#include "trace/stack_table.h"

namespace gpumem {

struct AnalyzeOptions {
  int device = -1;  // -1 = all
  LayerFilter layer = LayerFilter::kAll;
  uint64_t from_ns =
      0;  // relative to the first event; a window for timeline, peaks and growth. The replay itself starts at 0
  uint64_t to_ns = UINT64_MAX;
  uint32_t timeline_buckets = 240;  // most points a device; a bucket keeps its maximum
  uint32_t plateaus = 5;            // most separate near-peaks a device
};

// Live memory of one stack at an instant.
struct StackUse {
  uint64_t stack_id = 0;  // StackTable key; 0 = no stack
  uint8_t layer = 0;
  uint8_t memory = 0;
  uint64_t bytes = 0;
  uint64_t count = 0;
  uint64_t oldest_ns = 0;  // time of the oldest allocation in it
  uint64_t newest_ns = 0;
  std::string api;  // function that allocated, where all of them agree
  // Only in MemoryBreakdown::other, where they tell one use of a stack from another; else 0.
  uint32_t thread = 0;        // the trace's number of it
  uint32_t communicator = 0;  // Communicator::number that was being made; 0 = none
};

// The exact live set of one device at one instant.
struct LiveSet {
  int device = 0;
  Measure measure = Measure::kAllocated;
  uint64_t time_ns = 0;
  uint64_t event_index = 0;  // the set is the one after this event
  uint64_t bytes = 0;        // of `measure`
  MeasureValues values;      // all series at that instant
  uint64_t block_count = 0;
  std::vector<StackUse> stacks;  // largest first; their bytes sum to `bytes`
};

struct TimelinePoint {
  uint64_t time_ns = 0;  // of the bucket's maximum of total, or of allocated where total is flat
  MeasureValues max;     // each series' own maximum inside the bucket
};

// One step on the way from a request's first failed CUDA call to its end.
struct OomStep {
  enum class Kind : uint8_t {
    kFailed,    // a CUDA call asked for `bytes` and failed
    kReleased,  // `count` CUDA calls gave `bytes` back
    kServed,    // a CUDA call for `bytes` succeeded
  } kind = Kind::kFailed;
  uint64_t time_ns = 0;
  uint64_t bytes = 0;
  uint64_t count = 1;
  std::string api;
  bool device_stated = false;  // device_free is what the device said behind the failed call
  uint64_t device_free = 0;
};

inline constexpr uint8_t kTorchLayer = 3;  // an event's layer: PyTorch's caching allocator (shared/event.h)

// A request that failed.
struct OomEvent {
  uint64_t time_ns = 0;
  uint64_t event_index = 0;
  int device = 0;
  uint8_t layer = 0;
  std::string api;
  int result = 0;  // CUresult or cudaError_t; 0 at the torch layer
  uint64_t requested = 0;
  uint64_t stack_id = 0;
  uint32_t thread = 0;
  MeasureValues values;       // at that moment
  uint64_t device_total = 0;  // capacity; 0 = not known
  uint64_t retries = 0;       // CUDA calls that failed for the same request before the allocator gave up
  bool final = true;          // false: a later attempt of the same request succeeded (cache freed, retried)

  // The chain: what happened between the first failed call and the end.
  uint64_t started_ns = 0;      // of the first call that failed
  uint64_t ended_ns = 0;        // given up, or served
  uint64_t cuda_requested = 0;  // what CUDA was asked for (PyTorch asks for a whole segment); 0 = it was not asked
  MeasureValues before;         // at the start, before any cached memory was given back
  uint64_t released = 0;        // bytes given back to CUDA in the chain
  uint64_t released_calls = 0;  // by so many calls
  std::vector<OomStep> steps;   // the first of them
  // Stated by the device and by PyTorch's allocator themselves, right behind the failure.
  bool device_stated = false, torch_stated = false;
  uint64_t device_free = 0;
  uint64_t torch_allocated = 0, torch_reserved = 0;
  bool pool_stated = false;  // a stream-ordered pool was asked
  uint64_t pool_used = 0, pool_reserved = 0;
  // PyTorch gave up without a failed CUDA call although the device had room: a limit of the program's own.
  bool limited = false;
  uint64_t limit = 0;  // bytes that PyTorch may reserve then (set_per_process_memory_fraction); 0: not known, or none

  // The moment in detail, where `described`: the last few requests that failed for good have it, and some others.
  bool described = false;
  FragmentationPoint fragmentation;
  uint64_t whole_segments = 0, whole_segment_bytes = 0;  // that hold no block at all and were kept nevertheless
  std::vector<PinningBlock> pins;                        // largest returnable first, at most 10
  std::vector<PinGroup> pin_groups;                      // all of them, largest returnable first
  // At most so much could have been served: the largest free range, or what the device had free (where it did not say:
  // what is not ours on it), but less than the request that was refused.
  uint64_t would_have_fit = 0;
  uint64_t fit_in_one_piece = 0;  // the same if all free space inside segments were in one piece with the device's
  // Estimate: had the program used expandable segments from its start; none where it did, or where that is not known.
  std::optional<uint64_t> fit_expandable;
  // In use; where PyTorch has no segment yet: asked for (PYTORCH_CUDA_ALLOC_CONF).
  bool expandable_segments = false;
  LiveSet live;  // who filled the device
};

// Requests of a device that failed at first and were served after memory was given back.
struct ServedRetries {
  int device = 0;
  uint64_t count = 0;
  uint64_t failed_calls = 0;
  uint64_t released = 0, released_calls = 0;
  uint64_t time_ns = 0;  // from the first failed call to the served one, summed
  uint64_t first_ns = 0, last_ns = 0;
  std::vector<StackUse> stacks;  // who asked: count, and bytes asked for; most often first
};

// What a device's peaks are, beside what it really held at most.
enum class PeakBound : uint8_t {
  kExact,    // as far as the recorder sees
  kAtLeast,  // events are missing: it held at least so much
  kAbout,    // frees are missing, and nobody told a total: it may have held less, or more
};

struct SeriesPeak {
  uint64_t bytes = 0;
  uint64_t time_ns = 0;
  uint64_t event_index = 0;
};

// What was alive at the end (or at `to`), and what grew between two times where they were asked for.
struct LeakReport {
  LiveSet at_end_torch;  // blocks
  LiveSet at_end_cuda;   // driver and runtime allocations that hold no PyTorch block
  uint64_t growth_from_ns = 0;
  uint64_t growth_to_ns = 0;
  std::vector<StackUse> growth;    // bytes and count added between the two times, largest first; only stacks that grew
  uint64_t freed_by_teardown = 0;  // bytes of it that went after the program's own code had ended
  uint64_t unknown_frees = 0;      // frees of addresses that this trace never saw allocated
  uint64_t refused_frees = 0;      // that CUDA refused
  uint64_t refused_unknown_frees = 0;  // of them: of memory that was not there (a double free, or never allocated)
};

// What a device's memory was made up of at one instant, as far as this process goes, and what the device said of it.
//
//   process = values.total + driver.Stated() + driver.Rounding() + pool_idle + context_estimate + cupti.static_bytes
//             + cupti.unseen_bytes + unexplained
struct MemoryBreakdown {
  bool any = false;
  uint64_t time_ns = 0;
  MeasureValues values;
  DriverUse driver;
  uint64_t host_pinned = 0, managed = 0, imported = 0;  // of the whole process, in no device's share
  std::vector<StackUse> other;                          // what `values.other` is made of, largest first
  std::map<uint32_t, ThreadInfo> threads;               // by StackUse::thread of `other`
  bool has_reading = false;
  DeviceReading reading;  // the sample that says most about this instant
  // The sample saw this very state of memory. Else what changed between the two is added: the sums below are derived.
  bool same_state = false;
  uint64_t pool_idle = kNotStated;  // reserved by the device's default pool and not in use
  uint64_t process = kNotStated;    // what nvidia-smi shows for this process
  int64_t unexplained = 0;          // only where `process` is stated; negative: more is recorded than the device shows
  // Of contexts whose making could not be measured (the first one of a device): what the first sample after it says of
  // this process beyond all that is recorded. Derived, and 0 where no sample can tell.
  uint64_t context_estimate = 0;
  CuptiUse cupti;            // what only CUPTI saw; counted only where `cupti_known`
  bool cupti_known = false;  // CUPTI recorded then, and nothing of it was lost
  // The sum of all parts but the unexplained one.
  uint64_t Explained() const {
    return values.total + driver.Stated() + driver.Rounding() + (pool_idle == kNotStated ? 0 : pool_idle) +
           context_estimate + cupti.static_bytes + cupti.unseen_bytes;
  }
};

// What the samples of a device say all in all.
struct DeviceUse {
  uint64_t samples = 0;
  uint64_t peak_used = 0, peak_used_ns = 0;  // by all processes
  uint64_t peak_own = 0, peak_own_ns = 0;
  std::vector<Neighbour> neighbours;  // largest peak first
  std::vector<DeviceReading> readings;
};

struct DeviceAnalysis {
  int device = 0;
  std::string name;
  uint64_t capacity = 0;
  SeriesPeak peak_allocated, peak_reserved, peak_total, peak_other;
  PeakBound bound = PeakBound::kExact;  // of the peaks
  MeasureValues end;
  ResidualUse residual;  // at the end, with the peaks
  std::vector<TimelinePoint> timeline;
  LiveSet at_peak_allocated;  // exact live blocks
  LiveSet at_peak_reserved;   // segments (by the stack that made them)
  LiveSet at_peak_total;
  std::vector<LiveSet> plateaus;  // separate near-peaks of allocated (of total where torch did nothing), highest first;
                                  // the first is the peak
  Fragmentation fragmentation;
  LeakReport leaks;
  MemoryBreakdown breakdown_at_peak, breakdown_at_end;  // at the peak of total; at the end, or at `to`
  DeviceUse use;

  // Nothing of the window is above its peak: where frees are missing, what is counted may be.
  void ClampToPeaks(MeasureValues* values) const {
    values->allocated = std::min(values->allocated, peak_allocated.bytes);
    values->reserved = std::min(values->reserved, peak_reserved.bytes);
    values->other = std::min(values->other, peak_other.bytes);
    values->total = std::min(values->total, peak_total.bytes);
  }
};

// What the sampler says of itself and of the machine.
struct SamplingInfo {
  uint64_t samples = 0;
  uint64_t took_ns = 0;              // all of them
  std::string source, source_error;  // "NVML 13.580.65"; "" = there was no sample
  uint64_t peak_rss = 0;
  uint64_t system_total = 0, least_system_available = 0;  // RAM; 0 = not known
  std::vector<CrossedLimit> crossed;                      // GPUMEMSHIM_WARN_AT
};

struct EventCounts {
  uint64_t torch = 0;
  uint64_t runtime = 0;
  uint64_t driver = 0;
  std::map<std::string, uint64_t> by_kind;
};

// Calls of CUDA that the recorder could not see (trace.proto, Unseen). How many were made is not known.
struct UnseenCalls {
  enum class Cause : uint8_t {
    kUnknown = 0,
    kBoundPast = 1,
    kLookedUpPast = 2,
    kOtherNamespace = 3,
    kSecondDriver = 4
  };
  Cause cause = Cause::kUnknown;
  std::string object;
  uint32_t function_count = 0;  // 0 = not told apart
  std::vector<std::string> functions;
};

struct LossCounts {
  uint64_t dropped_allocs = 0;
  uint64_t dropped_frees = 0;
  uint64_t dropped_definitions = 0;
  uint64_t unwritten_events = 0;
  uint64_t truncated_stacks = 0;
  uint64_t unread_python_frames = 0;
  uint64_t missing_packets = 0;                                // gaps in packet numbers
  uint64_t missing_events = 0;                                 // in them, as far as that is known
  uint64_t damaged_bytes = 0;                                  // of the file: of no use
  uint64_t cupti_dropped_records = 0, cupti_lost_records = 0;  // of CUPTI, which no event is missing for
  std::string write_error;
  std::vector<UnseenCalls> unseen;
  // Events that are not in this trace although they happened: what `.losses.total` prints.
  uint64_t Total() const { return dropped_allocs + dropped_frees + unwritten_events + missing_events; }
  // The file could not take something, whether or not it is known how much.
  bool MissesEvents() const { return Total() > 0 || !write_error.empty(); }
};

// Which files of a series the numbers rest on, and what was left out (docs/trace-files.md). `files` 0 = it is no
// series.
struct SeriesInfo {
  uint64_t files = 0;                          // that are here
  uint64_t first_number = 0, last_number = 0;  // of them; 1 = the trace's beginning
  uint64_t events_before = 0;                  // events before the first one, that are in no number
  uint64_t objects_not_in_snapshot = 0;        // alive when the first file began, and not known
  uint64_t missing_files = 0;                  // between the first and the last
  bool goes_on_elsewhere = false;              // a file after the last one is not here
};

struct ProcessInfo {
  std::string program, executable, hostname, working_directory, writer_version;
  std::vector<std::string> command_line;
  uint32_t pid = 0, parent_pid = 0;
  uint64_t start_ticks = 0;  // with boot, namespace and pid it names a process for good
  uint64_t pid_namespace = 0;
  std::string boot_id;
  struct Ancestor {
    uint32_t pid = 0;
    uint64_t start_ticks = 0;
    std::string name;
  };
  std::vector<Ancestor> ancestors;  // parent first
  int rank = -1, world_size = -1;
  std::map<std::string, std::string> versions, settings, environment;
  uint64_t anchor_monotonic_ns = 0, anchor_realtime_ns = 0;
};

struct Analysis {
  std::string path;
  uint64_t file_bytes = 0;
  ProcessInfo process;
  bool complete = false;  // an End packet was read
  // Of a trace without End, where this machine can tell.
  enum class Process : uint8_t { kUnknown, kRunning, kEnded } state = Process::kUnknown;
  uint64_t program_end_ns = 0;    // the end of the program's own code, before its teardown; 0 = not known
  uint64_t recovered_events = 0;  // of `events`: from the ring of the killed process, not from the writer
  bool end_unknown = false;       // events may be missing behind the last one, up to 100 ms of them: no ring to ask
  std::string damage;             // empty, or what is wrong with the file and where
  // Where packets are missing: what was allocated in a gap is not known, and what was freed in it counts as alive.
  std::vector<TraceGap> gaps;
  uint64_t unsure_from_ns = 0;  // all that is said of later instants rests on that; 0 = nothing does
  uint64_t origin_ns = 0;       // first event
  uint64_t end_ns = 0;          // last event
  EventCounts events;
  SeriesInfo series;
  LossCounts losses;
  CuptiInfo cupti;
  std::vector<std::string>
      notes;  // what the numbers rest on: inferred pools, record_stream, totals that disagree with PyTorch's own
  std::vector<DeviceAnalysis> devices;
  std::vector<OomEvent> ooms;
  std::vector<OwnersMoment> owners;         // looks at who keeps GPU memory, in the order of time
  std::vector<Communicator> communicators;  // of NCCL, by number
  std::vector<ExistingAtStart> existing;    // what is known of memory from before, for each late start
  MarkLog marks;                            // what the program said about itself, and when recording was on
  bool snapshot = false;                    // a copy of the trace while the program went on; complete up to there
  std::vector<ServedRetries> retries;       // by device
  SamplingInfo sampling;
  uint64_t host_pinned_peak = 0, host_pinned_end = 0;
  // Not part of any device's total: managed memory migrates, imported memory belongs to another owner.
  uint64_t managed_peak = 0, managed_end = 0;
  uint64_t imported_peak = 0, imported_end = 0;

  // Events happened among those that are here, and are not here: what is alive is not sure.
  bool MissesEvents() const {
    return losses.MissesEvents() || unsure_from_ns != 0 || series.missing_files > 0 ||
           series.objects_not_in_snapshot > 0;
  }
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_ANALYSIS_H_
