// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// budget: one life, whose order is the point.
//
// The life of a recording: set up at the first successful cuInit (or at the first event, where that was missed), torn
// down by the library's destructor, forgotten in a forked child, which may begin its own at its own cuInit.
//
//   kIdle --cuInit or event--> kStarting --> kActive --destructor--> kEnded
//                                   \--> kFailed              \--fork--> kForked --cuInit--> kStarting
//
// Where recording is not to begin at once, and where it is switched (recording.cc):
//
//   kStarting --> kDormant --start--> kSwitching --> kActive --stop--> kSwitching --> kPaused --start--> ...
//
// Thread-safety: any thread may ask to start; one does it, the others wait for it, bounded. One at a time switches.
// Nothing starts inside dlsym, a constructor, or before CUDA is used.

#include "shim/control/session.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "shim/base/apart.h"
#include "shim/base/api.h"
#include "shim/base/calls/scope.h"
#include "shim/base/clock.h"
#include "shim/base/loader.h"
#include "shim/base/memory_checkers.h"
#include "shim/base/symbol_lookup.h"
#include "shim/base/thread.h"
#include "shim/control/ending.h"
#include "shim/control/late_entry.h"
#include "shim/control/loader/address_space.h"
#include "shim/control/loader/slot_scan.h"
#include "shim/control/loader/unseen_calls.h"
#include "shim/control/marks.h"
#include "shim/control/open_ranges.h"
#include "shim/control/progress.h"
#include "shim/control/recording.h"
#include "shim/control/sampling.h"
#include "shim/control/server/server.h"
#include "shim/control/session_state.h"
#include "shim/control/stderr_lines.h"
#include "shim/control/summary_only.h"
#include "shim/control/versions.h"
#include "shim/python/existing.h"
#include "shim/python/inject.h"
#include "shim/python/owners.h"
#include "shim/ring/ring.h"
#include "shim/settings/output_path.h"
#include "shim/settings/process_facts.h"
#include "shim/settings/rank_settings.h"
#include "shim/settings/settings.h"
#include "shim/stack/capture.h"
#include "shim/witness/cupti/cupti.h"
#include "shim/witness/oom/reporter.h"
#include "shim/witness/oom/summarizer.h"
#include "shim/writer/writer.h"

#ifndef GPUMEMSHIM_VERSION
#define GPUMEMSHIM_VERSION "0"
#endif

// What pthread_atfork calls. Weak: a child that runs on another C library (musl) has no such function, and a preload
// with a symbol missing would end it.
extern "C" __attribute__((weak)) int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                                       void* library) noexcept;

namespace gpumemshim::control {

std::atomic<State> g_state{State::kIdle};
std::atomic<int32_t> g_pid;
std::atomic<Wish> g_wish;
std::atomic<uint64_t> g_since_ns;
std::atomic<uint64_t> g_spans;
std::atomic<int32_t> g_starter;
ProcessFacts g_facts;
Settings g_settings;
RankSettings g_rank_settings;

namespace {

std::atomic<bool> g_any_event;  // since recording began
bool g_fork_handler;            // only ever set by a starter

bool WantedPath(char* out, size_t capacity) {
  return g_rank_settings.summary_only ? SummaryTracePath(out, capacity)
                                      : OutputPath(g_settings.output, g_facts, out, capacity);
}

bool OtherPath(uint32_t attempt, char* out, size_t capacity) {
  return !g_rank_settings.summary_only && FallbackPath(attempt, g_settings.fallback, g_facts, out, capacity);
}

void FillHeader(writer::HeaderInfo* info) {
  info->writer_version = GPUMEMSHIM_VERSION;
  info->process_start_ticks = g_facts.start_ticks;
  info->hostname = g_facts.hostname;
  info->program = g_facts.program;
  info->executable = g_facts.executable;
  info->command_line = g_facts.arguments;
  info->command_line_count = g_facts.argument_count;
  info->working_directory = g_facts.working_directory;
  info->environment = g_facts.environment;
  info->environment_count = g_facts.environment_count;
  info->settings = g_facts.settings;
  info->settings_count = g_facts.settings_count;
  info->rank = g_facts.rank;
  info->world_size = g_facts.world_size;
  info->local_rank = g_facts.local_rank;
  info->ancestors = g_facts.ancestors;
  info->ancestor_count = g_facts.ancestor_count;
  info->pid_namespace = g_facts.pid_namespace;
  info->boot_id = g_facts.has_boot_id ? g_facts.boot_id : nullptr;
}

void CountStackLosses(writer::StackLosses* losses) {
  const stack::Losses counted = stack::GetLosses();
  losses->truncated_stacks = counted.truncated_stacks;
  losses->unread_python_frames = counted.unread_python_frames;
}

// The sampler's question first: it may use the loader.
void BeforeFork() {
  sampler::BeforeFork();
  loader::BeforeFork();
}

void AfterForkInParent() {
  loader::AfterForkInParent();
  sampler::AfterForkInParent();
}

// Another library's fork handler may call CUDA before this runs; the ring is inactive in the child from the fork on.
void AfterForkInChild() {
  apart::ForgetInChild();
  loader::ForgetInChild();
  ring::ForgetInChild();
  writer::ForgetInChild();
  sampler::ForgetInChild();
  cupti::ForgetInChild();
  stack::ForgetInChild();
  oom::ForgetInChild();
  oom::ForgetForecastInChild();
  oom::ForgetSummariesInChild();
  server::ForgetInChild();
  ForgetNotes();
  ForgetFailedCallbacks();
  session::g_off.store(false, std::memory_order_relaxed);
  g_state.store(State::kForked, std::memory_order_release);
}

// A child that no fork handler saw: of a raw clone, or of a fork while another thread was setting up. A child in its
// parent's memory (vfork, CLONE_VM) has another process id too, but there the ring is as active, or paused, as before.
bool WasCopied() {
  return g_pid.load(std::memory_order_relaxed) != getpid() && !ring::Active() && ring::GetStats().size_bytes == 0;
}

// In the writer's thread. What PyTorch's objects are is asked for once here, and again where a stack names one.
void SawEvent(const Event& event, uint32_t tid) {
  if (event.layer == Layer::kTorch) {
    session::SawBlock();
    python::SawTorch(event);
    if (python::IsExistingAsked()) python::RetryExisting(false);
  }
  if (event.kind == EventKind::kAllocFailed) CountFailedRequest(event.layer);
  if (event.layer != Layer::kTorch || event.kind == EventKind::kAllocFailed) sampler::SawEvent(event);
  if (g_settings.oom_report) oom::Saw(event, tid);
}

// In the writer's thread, after each pass.
void TracePassed(const char* path, bool last) {
  python::FinishedPass();
  if (g_settings.forecast) oom::ForecastPassed(path, last);
  if (g_settings.oom_report) oom::Passed(path, last);
  if (g_rank_settings.summary_interval_ms != 0) oom::SummaryPassed(path, last);
  if (g_rank_settings.summary_only && last) EndSummaryOnly();
}

// In the writer's thread, about once a second and at the end.
uint32_t LookAround(bool last) {
  if (!last) {
    ExitIfOnlyOursAreLeft();
    python::RetryExisting(true);
    SayProgress();
    if (AreSlotsStale() && server::ScanSlots()) return CountUnseen();  // which is better asked behind that
  }
  return FindUnseen(last);
}

bool StartWriter() {
  writer::Config config;
  config.callbacks.paths.wanted = &WantedPath;
  config.callbacks.paths.fallback = &OtherPath;
  config.callbacks.facts.fill_header = &FillHeader;
  config.callbacks.facts.fill_device = &DescribeAndSampleDevice;
  config.callbacks.facts.new_versions = &NewVersions;
  config.callbacks.losses.of_stacks = &CountStackLosses;
  config.callbacks.facts.api_name = &ApiName;
  if (g_settings.oom_report) oom::Configure(&SettingOf);
  if (g_settings.forecast) oom::ConfigureForecast(&SettingOf);
  if (g_rank_settings.summary_interval_ms != 0)
    oom::ConfigureSummaries({.interval_ms = g_rank_settings.summary_interval_ms,
                             .complains = g_rank_settings.summary_at_end(),
                             .at_end = g_rank_settings.summary_at_end(),
                             .target = SummaryTarget()},
                            &SettingOf);
  config.callbacks.watcher.passed = &TracePassed;
  config.callbacks.watcher.saw_event = &SawEvent;
  config.callbacks.losses.find_unseen = &LookAround;
  config.callbacks.losses.put_unseen = &PutUnseen;
  config.callbacks.samples.put = &sampler::PutSample;
  if (g_settings.cupti) {
    config.callbacks.samples.put_cupti = &cupti::PutRecords;
    config.callbacks.samples.has_cupti = &cupti::HasRecords;
  }
  config.limit = g_settings.size_limit;
  return writer::Start(config);
}

bool StartRing() {
  ring::Config config;
  if (g_settings.ring_size_bytes != 0) config.size_bytes = g_settings.ring_size_bytes;
  config.wait_ns = uint64_t{g_settings.ring_wait_ms} * 1'000'000;
  config.directory = g_settings.ring_directory[0] == '\0' ? nullptr : g_settings.ring_directory;
  config.api_name = &ApiName;
  config.api_count = kApiCount;
  config.program = g_facts.program;
  static char wanted[4096];
  if (WantedPath(wanted, sizeof wanted)) config.trace_path = wanted;
  return ring::Start(config);
}

void WarnOfUnknownSettings() {
  if (!IsSaid(LogLevel::kWarning)) return;
  static char line[2048];
  WriteLine(line, UnknownSettingsLine(environ, line, sizeof line));
  WriteLine(line, RankSettingsLine(g_rank_settings, line, sizeof line));
}

// Why no event will come. False, for whoever gives up.
bool SayNothing(const char* line) {
  SayLine(LogLevel::kError, line, strlen(line));
  return false;
}

void SayBegin(State state) {
  static char line[1536];
  const BeginFacts facts{g_facts.pid, state == State::kDormant, g_facts.settings, g_facts.settings_count};
  SayLine(LogLevel::kDebug, line, BeginLine(facts, line, sizeof line));
}

}  // namespace

void BeginSpan() {
  g_since_ns.store(MonotonicNs(), std::memory_order_relaxed);
  g_spans.fetch_add(1, std::memory_order_relaxed);
  RecordOpenRanges();
}

bool BeginRecording() {
  ForgetVersions();
  ForgetSentTexts();
  session::g_asked_helper.store(false, std::memory_order_relaxed);
  python::Enable(g_settings.helper);
  python::ConfigureOwners(g_settings.owners_ms);
  python::SetTorchLimit(g_settings.limit_bytes);
  python::SetInjectedScript(g_settings.injected_script, &EndSession);
  g_any_event.store(false, std::memory_order_relaxed);
  stack::Options options;
  options.python = g_settings.python;
  options.unwinder = g_settings.unwinder;
  if (HasMemoryChecker() && options.unwinder == stack::Unwinder::kLibunwind)
    options.unwinder = stack::Unwinder::kLibgcc;
  options.native = g_settings.native;
  options.autograd = g_settings.autograd;
  options.free_stacks = g_settings.free_stacks;
  stack::Enable(options);
  ConfigureSampling(g_settings);
  if (g_rank_settings.summary_only && !BeginSummaryOnly(g_facts, &g_settings)) return false;
  const SignalsBlocked block;  // a handler that ends the process is to find a ring with its writer, or none
  if (!StartRing())
    return SayNothing("gpumemshim: nothing is recorded: no memory for it. Raise ulimit -v, or the cgroup's limit.\n");
  if (!StartWriter()) {
    ring::Stop(0);
    ring::Unlink();
    return SayNothing("gpumemshim: nothing is recorded: no thread for it. Raise ulimit -u or the cgroup's pids.max.\n");
  }
  if (g_settings.cupti) cupti::Start(g_settings.cupti_wait_ms);
  // Before anything else happens: an injected script may want to see the first step.
  if (g_settings.injected_script[0] != '\0' || g_settings.limit_bytes != 0) python::RequestLook();
  return true;
}

namespace {

void StartServer() {
  server::Options options;
  options.listen = g_settings.control;
  options.directory = g_settings.control_directory;
  options.signal = g_settings.signal;
  server::Start(options);
  static char line[1536];
  SayLine(LogLevel::kWarning, line, server::PlaceLine(line, sizeof line));
}

// False: what memory there is left is the program's.
bool HasRoom() {
  const uint64_t room_bytes = RoomInAddressSpace();
  if (FitSettings(room_bytes, &g_settings) != Fit::kNone) return true;
  static char line[256];
  SayLine(LogLevel::kError, line, NoRoomLine(room_bytes, line, sizeof line));
  return false;
}

State SetUp() {
  g_settings = ReadSettings();
  SetLogLevel(g_settings.log);
  SetProgressInterval(g_settings.status_ms);
  if (g_settings.disabled || !HasRoom()) return State::kFailed;
  UseClock(reinterpret_cast<ClockFunction>(FindInLoaded("libc.so.6", "clock_gettime")));
  apart::Start();
  apart::Do([] { ReadProcessFacts(&g_facts); });
  g_rank_settings = ReadRankSettings(g_facts);
  if (WasAttached()) g_facts.settings[g_facts.settings_count++] = {"loaded_by", "gpumemshim attach"};
  if (WasInjected()) g_facts.settings[g_facts.settings_count++] = {"loaded_by", "CUDA_INJECTION64_PATH"};
  g_pid.store(g_facts.pid, std::memory_order_relaxed);
  g_spans.store(0, std::memory_order_relaxed);
  if (!g_fork_handler && __register_atfork != nullptr) {
    g_fork_handler = __register_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild, nullptr) == 0;
  }
  PrepareEnd();
  WarnOfUnknownSettings();
  const Wish wish = g_wish.load(std::memory_order_relaxed);
  const bool records = wish == Wish::kRecord || (wish == Wish::kNone && !g_settings.dormant);
  const State state = !records ? State::kDormant : BeginRecording() ? State::kActive : State::kFailed;
  session::g_off.store(state == State::kDormant, std::memory_order_relaxed);
  if (state == State::kActive) BeginSpan();
  if (state != State::kFailed) StartServer();
  if (state != State::kFailed) SayBegin(state);
  return state;
}

// A second thread may not lose its event because the first is still at it.
bool WaitForStarter() {
  if (g_starter.load(std::memory_order_acquire) == syscall(SYS_gettid)) return false;
  constexpr int kWaitMs = 200;
  const int most_ms = kWaitMs + (g_settings.cupti ? static_cast<int>(g_settings.cupti_wait_ms) : 0);
  for (int i = 0; i < most_ms && g_state.load(std::memory_order_acquire) == State::kStarting; ++i) {
    const timespec millisecond{0, 1'000'000};
    nanosleep(&millisecond, nullptr);
  }
  return g_state.load(std::memory_order_acquire) == State::kActive;
}

bool StartFrom(State from) {
  if (IsSecureMode()) return false;
  BypassMemoryCheckers();
  // Before the state says that somebody is at it. Others who come as early store the same.
  if (g_state.load(std::memory_order_acquire) == from) g_pid.store(getpid(), std::memory_order_relaxed);
  if (!g_state.compare_exchange_strong(from, State::kStarting, std::memory_order_acq_rel)) {
    return from == State::kStarting ? WaitForStarter() : from == State::kActive;
  }
  g_starter.store(static_cast<int32_t>(syscall(SYS_gettid)), std::memory_order_release);
  const calls::Scope scope;
  const State state = SetUp();
  g_state.store(state, std::memory_order_release);
  return state == State::kActive;
}

// Runs from .fini_array. Destructors of other libraries may still free memory after it; those frees go unrecorded.
__attribute__((destructor)) void End() { EndSession(); }

}  // namespace
}  // namespace gpumemshim::control

namespace gpumemshim::session {

using control::State;

std::atomic<bool> g_off;

bool StartAtInit() {
  State state = control::g_state.load(std::memory_order_acquire);
  const bool has_begun = state == State::kActive || state == State::kStarting || state == State::kPaused ||
                         state == State::kDormant || state == State::kSwitching;
  if (has_begun && control::WasCopied()) {
    control::AfterForkInChild();
    state = State::kForked;
  }
  if (state != State::kIdle && state != State::kStarting && state != State::kForked) return state == State::kActive;
  return control::StartFrom(state == State::kForked ? State::kForked : State::kIdle);
}

bool StartAtEvent() {
  const State state = control::g_state.load(std::memory_order_acquire);
  if (state != State::kIdle && state != State::kStarting) return false;
  return control::StartFrom(State::kIdle);
}

bool IsFirstEvent() {
  return !control::g_any_event.load(std::memory_order_relaxed) &&
         !control::g_any_event.exchange(true, std::memory_order_relaxed);
}

}  // namespace gpumemshim::session
