// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What was recorded is what the file says, field by field.

#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "shim/base/clock.h"
#include "shim/writer/session.h"
#include "writer_fixture.h"

namespace gpumemshim::writer {
namespace {

namespace pb = gpumem::trace;

Event RandomEvent(std::mt19937_64* random) {
  auto pick = [random](uint64_t n) { return (*random)() % n; };
  Event e{};
  e.kind = static_cast<EventKind>(1 + pick(19));
  e.layer = static_cast<Layer>(1 + pick(3));
  e.memory = static_cast<Memory>(pick(8));
  e.address = pick(4) == 0 ? (*random)() : pick(1 << 20) << 9;
  e.size = pick(4) == 0 ? (*random)() : pick(1 << 20) << 9;
  e.requested_size = pick(2) * (*random)();
  e.stream = pick(2) * (*random)();
  e.handle = pick(2) * (*random)();
  e.stack = pick(50);
  e.tag = static_cast<uint32_t>(pick(5));
  e.duration_ns = static_cast<uint32_t>((*random)());
  e.result = static_cast<int32_t>((*random)());
  e.device = static_cast<int16_t>(pick(5)) - 1;
  e.api = static_cast<uint16_t>(pick(4));
  e.torch_allocated = pick(1000);
  e.torch_reserved = pick(2000);
  return e;
}

void ExpectSame(const Event& e, const Row& row, const Decoded& d) {
  EXPECT_EQ(row.time_ns, e.time_ns / 32 * 32);
  EXPECT_EQ(row.kind, static_cast<int>(e.kind));
  EXPECT_EQ(row.layer, static_cast<int>(e.layer));
  EXPECT_EQ(row.memory, static_cast<int>(e.memory));
  EXPECT_EQ(row.device, e.device);
  EXPECT_EQ(row.address, e.address);
  EXPECT_EQ(row.size, e.size);
  EXPECT_EQ(row.requested_size, e.requested_size);
  EXPECT_EQ(row.stream, e.stream);
  EXPECT_EQ(row.handle, e.handle);
  EXPECT_EQ(row.tag, e.tag);
  EXPECT_EQ(row.result, e.result);
  EXPECT_EQ(row.duration_ns, e.duration_ns);
  std::string api = e.api == 1 ? "cudaMalloc" : e.api == 2 ? "cudaFree" : "";
  EXPECT_EQ(row.api == 0 ? "" : d.strings.at(row.api), api);
}

// Stack `hash` as the tests define it: a native frame inside, Python frames around it, the outer ones shared by all.
std::vector<ring::RawFrame> FramesOf(uint64_t hash) {
  return {{0x1000 + hash, 0, 0},
          {500 + hash % 5, static_cast<uint32_t>(hash), ring::kFramePython},
          {500, 2, ring::kFramePython},
          {0x77777, 0, 0}};
}

void Define() {
  for (uint64_t key = 500; key < 505; key++) {
    std::string name = "f" + std::to_string(key), table(key, 't');
    ASSERT_TRUE(ring::RecordCode({key, "a.py", 4, name.data(), static_cast<uint32_t>(name.size()), table.data(),
                                  static_cast<uint32_t>(table.size()), static_cast<uint32_t>(key), 11}));
  }
  for (uint64_t hash = 1; hash < 50; hash++) {
    std::vector<ring::RawFrame> frames = FramesOf(hash);
    ASSERT_TRUE(ring::RecordStack(hash, frames.data(), static_cast<uint32_t>(frames.size())));
  }
}

void ExpectStack(uint64_t hash, uint64_t stack, const Decoded& d) {
  if (hash == 0) {
    EXPECT_EQ(stack, 0u);
    return;
  }
  ASSERT_EQ(d.stack_of_key.at(hash), stack);
  std::vector<pb::Frame> got = d.Frames(stack);
  std::vector<ring::RawFrame> want = FramesOf(hash);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); i++) {
    if (want[i].flags == 0) {
      EXPECT_EQ(got[i].pc(), want[i].pc);
      EXPECT_EQ(got[i].python_code(), 0u);
      continue;
    }
    EXPECT_EQ(got[i].instruction(), want[i].instruction);
    const pb::PythonCode& code = d.codes.at(got[i].python_code());
    EXPECT_EQ(code.key(), want[i].pc);
    EXPECT_EQ(code.name(), "f" + std::to_string(want[i].pc));
    EXPECT_EQ(code.filename(), "a.py");
    EXPECT_EQ(code.first_line(), want[i].pc);
    EXPECT_EQ(code.line_table(), std::string(want[i].pc, 't'));
    EXPECT_EQ(code.python_minor(), 11u);
  }
}

TEST_F(WriterTest, EveryFieldOfEveryEvent) {
  StartBoth();
  Define();
  std::mt19937_64 random(3);
  std::vector<Event> sent;
  for (int i = 0; i < 20'000; i++) {
    Event e = RandomEvent(&random);
    // So that the ring has room, however slow the writer's thread is.
    ASSERT_TRUE(i % 1000 != 0 || FlushAndWait(20'000));
    ASSERT_TRUE(ring::Record(e));
    sent.push_back(e);
  }
  std::thread([&] {
    pthread_setname_np(pthread_self(), "second");
    Event e = RandomEvent(&random);
    ASSERT_TRUE(ring::Record(e));
    sent.push_back(e);
  }).join();
  Summary summary = Stop(5000);
  EXPECT_TRUE(summary.complete);
  EXPECT_EQ(summary.path, path());
  EXPECT_EQ(summary.events, sent.size());
  Decoded d = DecodeFile(path());
  ASSERT_EQ(d.error, "");
  EXPECT_FALSE(d.truncated);
  EXPECT_EQ(std::filesystem::file_size(path()), summary.file_bytes);
  ASSERT_EQ(d.rows.size(), sent.size());
  for (size_t i = 0; i < sent.size() && !HasFailure(); i++) {
    ExpectSame(sent[i], d.rows[i], d);
    ExpectStack(sent[i].stack, d.rows[i].stack, d);
  }
  ASSERT_EQ(d.threads.size(), 2u);
  EXPECT_EQ(d.threads.at(d.rows[0].thread).tid(), static_cast<uint32_t>(syscall(SYS_gettid)));
  EXPECT_EQ(d.threads.at(d.rows.back().thread).name(), "second");
  EXPECT_NE(d.rows[0].thread, d.rows.back().thread);
  // Shared outer frames are shared nodes: 49 leaves, their callers once for each of the 49 different instructions, and
  // two around them all.
  EXPECT_EQ(d.nodes.size(), 49u + 49u + 2u);
  ASSERT_TRUE(d.has_end);
  EXPECT_EQ(d.end.events(), sent.size());
  EXPECT_EQ(d.end.torch_events() + d.end.runtime_events() + d.end.driver_events(), sent.size());
  EXPECT_EQ(d.end.torch_events(), summary.torch_events);
  EXPECT_EQ(d.losses.dropped_allocs() + d.losses.dropped_frees() + d.losses.dropped_definitions(), 0u);
}

TEST_F(WriterTest, ModulesCoverTheProgramAndItsLibraries) {
  StartBoth();
  Event e{};
  e.kind = EventKind::kAlloc;
  ASSERT_TRUE(ring::Record(e));
  Stop(5000);
  Decoded d = DecodeFile(path());
  auto find = [&](const void* address) -> const pb::Module* {
    uint64_t pc = reinterpret_cast<uint64_t>(address);
    for (const pb::Module& m : d.modules) {
      if (pc >= m.start() && pc < m.end()) return &m;
    }
    return nullptr;
  };
  const pb::Module* program = find(reinterpret_cast<const void*>(&RandomEvent));
  ASSERT_NE(program, nullptr);
  EXPECT_EQ(program->path(), std::filesystem::read_symlink("/proc/self/exe").string());
  const pb::Module* libc = find(reinterpret_cast<const void*>(&getpid));
  ASSERT_NE(libc, nullptr);
  EXPECT_EQ(libc->build_id().size(), 20u);
}

void FillTestHeader(HeaderInfo* info) {
  static const char* const command[] = {"python", "train.py", ""};
  static const KeyValue environment[] = {{"RANK", "3"}, {"EMPTY", ""}};
  static const KeyValue settings[] = {{"GPUMEMSHIM_QUIET", "1"}};
  info->writer_version = "0.1.0";
  info->process_start_ticks = 99;
  info->hostname = "node7";
  info->program = "train";
  info->executable = "/usr/bin/python3";
  info->command_line = command;
  info->command_line_count = 3;
  info->working_directory = "/w";
  info->environment = environment;
  info->environment_count = 2;
  info->settings = settings;
  info->settings_count = 1;
  info->rank = 0;
  info->world_size = 8;
}

bool FillTestDevice(int16_t device, DeviceInfo* info) {
  info->name = device == 0 ? "NVIDIA H100" : "other";
  info->has_uuid = true;
  info->uuid[15] = 9;
  info->total_bytes = 80;
  info->compute_major = 9;
  info->pci_bus_id = "0000:01:00.0";
  return true;
}

uint32_t NewTestVersions(KeyValue* out, uint32_t) {
  static bool given = false;
  if (given) return 0;
  given = true;
  out[0] = {"driver", "13.0"};
  return 1;
}

void ExpectTestHeader(const pb::Header& h, const std::string& ring_path, uint64_t before_ns) {
  EXPECT_EQ(h.format_version(), 2u);
  EXPECT_EQ(h.writer_version(), "0.1.0");
  EXPECT_EQ(h.pid(), static_cast<uint32_t>(getpid()));
  EXPECT_EQ(h.parent_pid(), static_cast<uint32_t>(getppid()));
  EXPECT_EQ(h.process_start_ticks(), 99u);
  EXPECT_EQ(h.hostname(), "node7");
  EXPECT_EQ(h.program(), "train");
  EXPECT_EQ(h.executable(), "/usr/bin/python3");
  ASSERT_EQ(h.command_line_size(), 3);
  EXPECT_EQ(h.command_line(1), "train.py");
  EXPECT_EQ(h.working_directory(), "/w");
  EXPECT_EQ(h.environment().at("RANK"), "3");
  EXPECT_EQ(h.environment().at("EMPTY"), "");
  EXPECT_EQ(h.settings().at("GPUMEMSHIM_QUIET"), "1");
  EXPECT_TRUE(h.has_rank());
  EXPECT_EQ(h.rank(), 0u);
  EXPECT_EQ(h.world_size(), 8u);
  EXPECT_FALSE(h.has_local_rank());
  EXPECT_EQ(h.ring().path(), ring_path);
  EXPECT_EQ(h.ring().size_bytes(), ring::kDefaultSizeBytes);
  EXPECT_GE(h.anchor_realtime_ns(), before_ns);
  EXPECT_LE(h.anchor_realtime_ns(), ClockNs(CLOCK_REALTIME));
  EXPECT_LE(h.anchor_monotonic_ns(), MonotonicNs());
}

void ExpectTestDevices(const Decoded& d) {
  ASSERT_EQ(d.devices.size(), 2u);
  EXPECT_EQ(d.devices.at(0).name(), "NVIDIA H100");
  EXPECT_EQ(d.devices.at(0).uuid().size(), 16u);
  EXPECT_EQ(d.devices.at(1).total_bytes(), 80u);
  EXPECT_EQ(d.devices.at(1).compute_major(), 9u);
  EXPECT_EQ(d.devices.at(1).pci_bus_id(), "0000:01:00.0");
}

TEST_F(WriterTest, HeaderDevicesVersionsAndTotals) {
  Config config = MakeConfig();
  config.callbacks.facts.fill_header = &FillTestHeader;
  config.callbacks.facts.fill_device = &FillTestDevice;
  config.callbacks.facts.new_versions = &NewTestVersions;
  config.callbacks.losses.of_stacks = [](StackLosses* losses) { *losses = {5, 6}; };
  uint64_t before_ns = ClockNs(CLOCK_REALTIME);
  StartBoth(config);
  for (uint64_t i = 1; i <= 10; i++) {
    Event e{};
    e.kind = EventKind::kAlloc;
    e.layer = Layer::kTorch;
    e.device = static_cast<int16_t>(i % 2);
    e.torch_allocated = i * 100;
    e.torch_reserved = i * 1000;
    ASSERT_TRUE(ring::Record(e));
  }
  std::string ring_path = ring::Path();
  Stop(5000);
  Decoded d = DecodeFile(path());
  ASSERT_EQ(d.error, "");
  ASSERT_EQ(d.packets[0].data_case(), pb::Packet::kHeader) << "first, and not compressed";
  ExpectTestHeader(d.header, ring_path, before_ns);
  ExpectTestDevices(d);
  EXPECT_EQ(d.versions.at("driver"), "13.0");
  ASSERT_EQ(d.counters.devices_size(), 2);
  EXPECT_EQ(d.counters.devices(0).torch_allocated_bytes(), 1000u);
  EXPECT_EQ(d.counters.devices(1).torch_reserved_bytes(), 9000u);
  EXPECT_GT(d.counters.process_rss_bytes(), 1'000'000u);
  EXPECT_GE(d.counters.time_ns(), d.rows.back().time_ns);
  EXPECT_EQ(d.losses.truncated_stacks(), 5u);
  EXPECT_EQ(d.losses.unread_python_frames(), 6u);
}

TEST_F(WriterTest, NothingRecordedLeavesNoFile) {
  StartBoth();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::string ring_path = ring::Path();
  Summary summary = Stop(5000);
  EXPECT_FALSE(summary.opened);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
  EXPECT_FALSE(std::filesystem::exists(ring_path));
  EXPECT_FALSE(ring::Active());
}

TEST_F(WriterTest, TheEndOfTheProgramAloneLeavesNoFile) {
  StartBoth();
  Event end{};
  end.kind = EventKind::kMark;
  end.handle = kMarkProgramEnd;
  ASSERT_TRUE(ring::Record(end));
  EXPECT_FALSE(Stop(5000).opened);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(WriterTest, FilesAreNeverOverwrittenNorFollowed) {
  std::ofstream(path()) << "mine";
  std::filesystem::create_symlink("/etc/passwd", directory_ + "/run.1.gmtrace");
  StartBoth();
  Event e{};
  e.kind = EventKind::kAlloc;
  ASSERT_TRUE(ring::Record(e));
  Summary summary = Stop(5000);
  EXPECT_EQ(summary.path, directory_ + "/run.2.gmtrace");
  struct stat s;
  ASSERT_EQ(stat(summary.path, &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0600u);
  EXPECT_EQ(std::filesystem::file_size(path()), 4u);
  EXPECT_EQ(DecodeFile(summary.path).rows.size(), 1u);
}

TEST_F(WriterTest, FlushAndWaitPutsItInTheFile) {
  Config config = MakeConfig();
  config.interval_ms = 100;
  StartBoth(config);
  for (uint64_t i = 1; i <= 20; i++) {
    Event e{};
    e.kind = EventKind::kAlloc;
    e.address = i;
    ASSERT_TRUE(ring::Record(e));
    ASSERT_TRUE(FlushAndWait(5000));
    Decoded d = DecodeFile(path());
    ASSERT_EQ(d.error, "");
    ASSERT_EQ(d.rows.size(), i);
    EXPECT_FALSE(d.has_end);
  }
}

// More than one batch in a pass, and more events than a ring holds over time.
TEST_F(WriterTest, ManyEvents) {
  Config config = MakeConfig();
  config.interval_ms = 100;
  StartBoth(config, uint64_t{64} << 20);
  const uint64_t count = 300'000;
  for (uint64_t i = 0; i < count; i++) {
    Event e{};
    e.layer = Layer::kDriver;
    e.kind = EventKind::kAlloc;
    e.address = i;
    while (!ring::Record(e)) sched_yield();  // a burst may be ahead of the ring's growth
  }
  Summary summary = Stop(20'000);
  EXPECT_EQ(summary.events, count);
  Decoded d = DecodeFile(path());
  ASSERT_EQ(d.error, "");
  ASSERT_EQ(d.rows.size(), count);
  for (uint64_t i = 0; i < count; i++) ASSERT_EQ(d.rows[i].address, i);
}

// Definitions that need a packet of their own bring no events with them.
TEST_F(WriterTest, EventsAreCountedOnceHoweverManyDefinitionsFollow) {
  ASSERT_TRUE(ring::Start(RingConfig()));
  Session session(MakeConfig());
  ASSERT_TRUE(session.Init());
  Event e{};
  e.layer = Layer::kTorch;
  e.kind = EventKind::kAlloc;
  ASSERT_TRUE(ring::Record(e));
  for (Progress progress = {}; progress.events == 0; session.Report(&progress)) session.Pass(false);
  const std::string lines(size_t{3} << 20, 'x');
  for (uint64_t key = 1; key <= 12; key++) {
    ASSERT_TRUE(ring::RecordCode({key, "a.py", 4, "f", 1, lines.data(), static_cast<uint32_t>(lines.size()), 1, 12}));
  }
  ring::Stop(1000);
  session.Pass(true);
  Summary summary;
  session.Finish(&summary);
  EXPECT_EQ(summary.events, 1u);
  EXPECT_EQ(summary.torch_events, 1u);
}

// A second Start after Stop is a trace of its own.
TEST_F(WriterTest, StartsAgain) {
  for (int round = 0; round < 2; round++) {
    StartBoth();
    Event e{};
    e.kind = EventKind::kAlloc;
    e.address = 5;
    ASSERT_TRUE(ring::Record(e));
    Summary summary = Stop(5000);
    Decoded d = DecodeFile(summary.path);
    EXPECT_EQ(d.error, "");
    EXPECT_EQ(d.rows.size(), 1u);
    EXPECT_TRUE(d.has_end);
  }
}

}  // namespace
}  // namespace gpumemshim::writer
