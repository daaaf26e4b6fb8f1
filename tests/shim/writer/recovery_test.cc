// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// kill -9 at a random moment. The file must parse up to its last whole packet, and together with what the mapping's
// file holds, read by the rules of layout.h alone, it must give every event that a hook had finished recording: no
// more, no less, none twice.

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "shim/ring/layout.h"
#include "shim/ring/mapping.h"
#include "writer_fixture.h"

namespace gpumemshim::writer {
namespace {

constexpr int kThreads = 3;

// Shared with the child: how many events each of its threads had acknowledged.
struct Acknowledged {
  std::atomic<uint64_t> count[kThreads];
  char ring_path[256];
  std::atomic<bool> ready;
};

[[noreturn]] void Victim(Acknowledged* shared, const std::string& directory, const Config& config) {
  ring::Config ring_config;
  ring_config.directory = directory.c_str();  // elsewhere another test's writer would clear the dead ring away
  ring_config.size_bytes = 1 << 20;
  if (!ring::Start(ring_config) || !Start(config)) _exit(1);
  snprintf(shared->ring_path, sizeof(shared->ring_path), "%s", ring::Path());
  shared->ready = true;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; t++) {
    threads.emplace_back([shared, t] {
      for (uint64_t i = 1;; i++) {
        ring::RawFrame frame = {0x1000 + i % 100, 0, 0};
        if (i <= 100) ring::RecordStack(1 + i % 100, &frame, 1);
        Event e{};
        e.kind = EventKind::kFree;  // so that the reserve is used as well
        e.address = t;
        e.size = i;
        e.stack = 1 + i % 100;
        while (!ring::Record(e)) usleep(50);
        shared->count[t].store(i, std::memory_order_release);
      }
    });
  }
  while (true) pause();
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

// The rules of layout.h.
std::vector<std::pair<uint64_t, uint64_t>> Recover(const std::string& mapping, uint64_t last_sequence) {
  std::vector<std::pair<uint64_t, uint64_t>> events;
  auto* header = reinterpret_cast<const ring::RingHeader*>(mapping.data());
  EXPECT_EQ(header->magic, ring::kMagic);
  auto* chunks = reinterpret_cast<const ring::ChunkDescriptor*>(mapping.data() + header->descriptors_offset);
  for (uint32_t i = 0; i < header->chunk_count; i++) {
    const ring::ChunkDescriptor& chunk = chunks[i];
    if (chunk.state == ring::kChunkFree) continue;
    uint32_t position = 0;
    uint64_t best = 0;
    for (const ring::ReadSlot& slot : chunk.read) {
      if (slot.packet_sequence > best && slot.packet_sequence <= last_sequence) {
        best = slot.packet_sequence;
        position = slot.position;
      }
    }
    const char* data = mapping.data() + header->chunks_offset + size_t{i} * header->chunk_bytes;
    while (position < chunk.committed) {
      auto* record = reinterpret_cast<const ring::RecordHeader*>(data + position);
      if (record->type == ring::kRecordEvent) {
        const Event& e = reinterpret_cast<const ring::EventRecord*>(record)->event;
        events.emplace_back(e.address, e.size);
      }
      position += record->size;
    }
  }
  return events;
}

TEST_F(WriterTest, NothingIsLostToAKill) {
  auto* shared = static_cast<Acknowledged*>(
      mmap(nullptr, sizeof(Acknowledged), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < 30; round++) {
    path() = directory_ + "/kill" + std::to_string(round) + ".gmtrace";
    new (shared) Acknowledged{};
    Config config = MakeConfig();
    config.interval_ms = 1;
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) Victim(shared, directory_, config);
    while (!shared->ready) usleep(100);
    usleep(static_cast<useconds_t>(random() % 30'000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);

    Decoded d = DecodeFile(path());
    ASSERT_EQ(d.error, "");
    EXPECT_FALSE(d.has_end);
    std::vector<uint64_t> seen[kThreads];
    for (const Row& row : d.rows) {
      ASSERT_LT(row.address, static_cast<uint64_t>(kThreads));
      ASSERT_NE(row.stack, 0u);
      seen[row.address].push_back(row.size);
    }
    size_t recovered = 0;
    for (auto [thread, number] : Recover(ReadFile(shared->ring_path), d.last_sequence)) {
      seen[thread].push_back(number);
      recovered++;
    }
    for (int t = 0; t < kThreads; t++) {
      std::sort(seen[t].begin(), seen[t].end());
      // Each once, from 1 on; one more than acknowledged may have been published.
      for (size_t i = 0; i < seen[t].size(); i++) ASSERT_EQ(seen[t][i], i + 1) << "round " << round;
      EXPECT_GE(seen[t].size(), shared->count[t].load());
      EXPECT_LE(seen[t].size(), shared->count[t].load() + 1);
    }
    unlink(shared->ring_path);
    RecordProperty("recovered" + std::to_string(round), static_cast<int>(recovered));
  }
  munmap(shared, sizeof(Acknowledged));
}

}  // namespace
}  // namespace gpumemshim::writer
