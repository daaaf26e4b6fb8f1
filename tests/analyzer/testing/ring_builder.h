// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RingBuilder: hand-made rings for tests, as a killed process leaves them; small, with as many chunks as are used. What
// is inside may be bent afterwards through header(), chunk() and bytes(). Not thread-safe.
//
//   RingBuilder ring(pid, ticks);
//   ring.Chunk(1, 1).Alloc(0x7f0000000000, 512, 77).Stack(77, {0x1000, 0x2000});
//   const std::string path = ring.WriteTemporary();

#ifndef GPUMEM_TESTS_ANALYZER_TESTING_RING_BUILDER_H_
#define GPUMEM_TESTS_ANALYZER_TESTING_RING_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "shared/ring_layout.h"

namespace gpumem::testing {

class RingBuilder {
 public:
  static constexpr uint32_t kChunks = 4;

  // A process that is gone: no pid is so large.
  explicit RingBuilder(uint32_t pid = 0x7ffffff0, uint64_t start_ticks = 1234);

  // Opens the next chunk, the owner's `number`th; records go there from now on.
  RingBuilder& Chunk(uint32_t owner_serial, uint32_t number, format::ChunkState state = format::kChunkOpen);
  // Times advance by 1 us an event.
  RingBuilder& Alloc(uint64_t address, uint64_t size, uint64_t stack = 0);
  RingBuilder& Free(uint64_t address);
  RingBuilder& Event(format::Event event);
  RingBuilder& Stack(uint64_t hash, const std::vector<uint64_t>& innermost_first);
  RingBuilder& PythonStack(uint64_t hash, const std::vector<uint64_t>& code_keys);
  RingBuilder& Code(uint64_t key, absl::string_view filename, absl::string_view name);
  RingBuilder& BackwardStack(uint64_t hash, uint64_t pc, uint64_t forward_hash, uint32_t node);
  // The text of a mark, or with a field a definition.
  RingBuilder& Text(uint64_t key, absl::string_view text, uint32_t field = 0);
  // Everything so far went into the packet of this number.
  RingBuilder& Mark(uint64_t packet_sequence);
  // As the capture library names the trace at `trace_path`, which is there, and itself.
  RingBuilder& BelongTo(const std::string& trace_path, uint64_t id, uint64_t written_sequence = 0);
  // Any bytes as a record's body, with whatever size its header is to claim.
  RingBuilder& Raw(uint16_t type, uint32_t claimed_size, absl::string_view body);

  // Into the bytes; valid until the builder goes.
  format::RingHeader& header() { return *reinterpret_cast<format::RingHeader*>(bytes_.data()); }
  format::ChunkDescriptor& chunk(uint32_t index);
  uint32_t chunk_count() const { return used_; }
  std::string& bytes() { return bytes_; }

  void Write(const std::string& path) const;
  std::string WriteTemporary() const;

 private:
  format::ChunkDescriptor& current() { return chunk(used_ - 1); }
  void Append(absl::string_view record);

  std::string bytes_;
  uint32_t used_ = 0;
  uint64_t time_ns_ = 1'000'000'000;
  int marks_ = 0;
};

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_TESTING_RING_BUILDER_H_
