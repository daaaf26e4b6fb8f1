// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RingDefinitions: gives what the ring's events refer to the ids of the trace, or new ones behind them. TraceIds is fed
// with the trace's own definitions before. Not thread-safe; RingDefinitions refers to the ring's contents.
//
//   ids.Add(message);                            // each of the trace
//   RingDefinitions definitions(&contents, std::move(ids));
//   const uint64_t stack = definitions.StackId(event.stack);
//   std::string body = definitions.Take();

#ifndef GPUMEM_ANALYZER_TRACE_RING_RING_DEFINITIONS_H_
#define GPUMEM_ANALYZER_TRACE_RING_RING_DEFINITIONS_H_

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "gpumem/trace.pb.h"
#include "trace/ring/ring_file.h"

namespace gpumem {

// The ids that a trace has given, by the numbers that the ring's records use.
class TraceIds {
 public:
  void Add(const trace::Definitions& definitions);

 private:
  friend class RingDefinitions;
  absl::flat_hash_map<uint64_t, uint64_t> stacks_;  // key -> innermost node
  absl::flat_hash_map<uint64_t, uint32_t> codes_;
  absl::flat_hash_map<std::string, uint32_t> strings_;
  absl::flat_hash_map<uint64_t, uint32_t> texts_;
  uint64_t last_node_ = 0;
  uint32_t last_frame_ = 0, last_code_ = 0, last_string_ = 0;
};

class RingDefinitions {
 public:
  // Neither is copied but for the ids.
  RingDefinitions(const RingContents* contents, TraceIds ids) : contents_(contents), ids_(std::move(ids)) {}

  // 0 = none, or its definition is gone.
  uint64_t StackId(uint64_t hash);
  uint32_t ApiId(uint16_t api);
  uint32_t TextId(uint64_t key);
  void UseThread(uint32_t serial);

  // Those that came as the trace has them, also such that it has already; "" where there is none.
  std::string TakeReady();

  // The definitions that the trace lacks, serialized; "" where there is none.
  std::string Take();

 private:
  uint64_t StackId(uint64_t hash, int forward_passes);
  uint32_t StringId(const std::string& value);
  uint32_t FrameId(const format::RawFrame& frame);
  uint32_t CodeId(uint64_t key);
  uint64_t NodeId(uint64_t parent, uint32_t frame);

  const RingContents* contents_;
  TraceIds ids_;
  absl::flat_hash_map<std::pair<uint64_t, uint32_t>, uint64_t> nodes_;
  absl::flat_hash_map<std::tuple<uint64_t, uint32_t, uint32_t>, uint32_t> frames_;
  std::set<uint32_t> threads_;
  trace::Definitions message_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_RING_RING_DEFINITIONS_H_
