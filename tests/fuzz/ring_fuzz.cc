// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as the ring that a killed process left: recovered without a crash, and what comes out is a trace that the
// reader takes without a complaint. The input's first byte chooses whether the header's fixed words are repaired first,
// without which they would hide everything behind them from the fuzzer.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "shared/ring_layout.h"
#include "trace/event_batch.h"
#include "trace/ring/ring_file.h"
#include "trace/ring/ring_recovery.h"
#include "trace/stack_table.h"

namespace {

using gpumem::format::RingHeader;

void Repair(std::string* bytes) {
  if (bytes->size() < sizeof(RingHeader)) bytes->resize(sizeof(RingHeader));
  RingHeader header;
  std::memcpy(&header, bytes->data(), sizeof(header));
  header.magic = gpumem::format::kMagic;
  header.layout_version = gpumem::format::kLayoutVersion;
  header.chunk_bytes = gpumem::format::kChunkBytes;
  header.size_bytes = bytes->size();
  header.pid = 0;  // not known whether it runs
  std::memcpy(bytes->data(), &header, sizeof(header));
}

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "a recovery wrote what the reader does not take: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if ((data[0] & 1) == 0) Repair(&bytes);
  // By a name of its own: a ring is never opened through a link.
  static const std::string path = absl::StrCat("/dev/shm/gpumemshim_ring_fuzz.", getpid());
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const absl::StatusOr<gpumem::RingFile> ring = gpumem::RingFile::Open(path);
  if (ring.ok()) ring->Read(data[0] >> 1);
  const absl::StatusOr<gpumem::Recovery> recovery = gpumem::RecoverRingAlone(path);
  unlink(path.c_str());
  if (!recovery.ok()) return 0;
  gpumem::StackTable stacks;
  gpumem::EventBatch batch;
  for (const gpumem::RecoveredPacket& packet : recovery->packets) {
    if (packet.type == gpumem::PacketType::kDefinitions) Require(stacks.Add(packet.body).ok(), "definitions");
    if (packet.type == gpumem::PacketType::kEvents) Require(batch.Decode(packet.body).ok(), "events");
  }
  return 0;
}
