// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TraceWriter: a trace file that is made here, not by the capture library: header, then definitions and events in
// compressed packets, then End. One section. Not thread-safe; does not own what `sink` writes to. The first write that
// fails ends it: every later call fails the same way.
//
//   TraceWriter writer([fd](absl::string_view bytes) { return WriteAll(fd, bytes) ? OkStatus() : FileError(...); });
//   GPUMEM_RETURN_IF_ERROR(writer.Begin(header));
//   row.stack = writer.definitions().Stack(0, writer.definitions().PythonFrame("train.py", "main", 3));
//   GPUMEM_RETURN_IF_ERROR(writer.Add(row));
//   GPUMEM_RETURN_IF_ERROR(writer.End());

#ifndef GPUMEM_ANALYZER_TRACE_WRITE_TRACE_WRITER_H_
#define GPUMEM_ANALYZER_TRACE_WRITE_TRACE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gpumem/trace.pb.h"
#include "trace/event_batch.h"
#include "trace/module_symbols.h"
#include "trace/write/definition_builder.h"

namespace gpumem {

// BatchEncoder: events as the columns of trace.proto's EventBatch; the reverse of EventBatch::Decode. Columns hold what
// repeats side by side, so that a compressor sees it. Not thread-safe; owns its rows. Nothing fails.
//
//   BatchEncoder encoder;
//   encoder.Add(row);
//   packet = encoder.Serialize();
//   encoder.Clear();
class BatchEncoder {
 public:
  // So many events a batch are what writers keep to.
  static constexpr size_t kMaxEvents = size_t{64} * 1024;

  void Add(const EventRow& row) { rows_.push_back(row); }
  bool is_full() const { return rows_.size() >= kMaxEvents; }
  size_t count() const { return rows_.size(); }
  const std::vector<EventRow>& rows() const { return rows_; }
  void Clear() { rows_.clear(); }

  // A serialized EventBatch. Times, addresses and sizes are kept exactly.
  std::string Serialize() const;

 private:
  std::vector<EventRow> rows_;
};

// Packets for a trace that is written anew from an old one. Pure functions.
//
//   for (const std::string& packet : SymbolPackets(module_id, symbols, sequence)) WriteAll(descriptor, packet);

namespace trace {
class Packet;
}

// The body of a Compressed packet that holds `packet` alone: a Trace without frames, as one LZ4 block.
std::string CompressedBody(const trace::Packet& packet);

// The names of a module as definitions: whole packets, compressed, numbered from `sequence` on. None for no addresses.
std::vector<std::string> SymbolPackets(uint32_t module_id, const ModuleSymbols& symbols, uint64_t sequence);

class TraceWriter {
 public:
  using Sink = std::function<absl::Status(absl::string_view)>;

  explicit TraceWriter(Sink sink) : sink_(std::move(sink)) {}
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // First. The format's version is filled in.
  absl::Status Begin(trace::Header header);

  // What Add's events refer to.
  DefinitionBuilder& definitions() { return definitions_; }

  // What was alive before the first event, as the events that made it; `torch_segments` are those in which PyTorch's
  // blocks lie. Before any Add, at most once.
  absl::Status AddLiveSnapshot(const std::vector<EventRow>& rows, const std::vector<uint32_t>& torch_segments);

  // What PyTorch's allocator said of its memory, in parts that follow each other. Before any Add; its stacks are
  // defined by then.
  absl::Status AddAllocatorState(trace::AllocatorState part);

  // In the order of time.
  absl::Status Add(const EventRow& row);

  // Where many definitions have gathered without events.
  absl::Status FlushDefinitions() { return definitions_.is_large() ? WriteDefinitions() : status_; }

  // Last. Writes what is left, and the counts.
  absl::Status End();

  uint64_t events() const { return end_.events(); }

 private:
  absl::Status Write(const std::string& body, uint32_t type);
  absl::Status WriteDefinitions();
  absl::Status WriteCompressed(const trace::Packet& packet);
  absl::Status WriteBatch();

  Sink sink_;
  absl::Status status_;
  DefinitionBuilder definitions_;
  BatchEncoder batch_;
  trace::End end_;
  uint64_t sequence_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_WRITE_TRACE_WRITER_H_
