// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TraceBuilder: hand-made traces for tests. Events are put into batches column by column as the capture library does
// it; definitions come before the batch that follows them. Times advance by 1 us an event unless set. Not thread-safe.
//
//   TraceBuilder trace;
//   const uint64_t stack = trace.PythonStack({{"step", "train.py", 12}, {"<module>", "train.py", 40}});
//   trace.CudaAlloc(0x7f0000000000, 2 << 20).TorchAlloc(0x7f0000000000, 512, stack).End();
//   const std::string path = trace.WriteTemporary();

#ifndef GPUMEM_TESTS_ANALYZER_TESTING_TRACE_BUILDER_H_
#define GPUMEM_TESTS_ANALYZER_TESTING_TRACE_BUILDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gpumem/trace.pb.h"
#include "trace/event_batch.h"

namespace gpumem::testing {

struct PythonFrame {
  std::string function, file;
  uint32_t line = 0;
};

// A packet as a file has it, with sync word and checksum.
std::string Framed(trace::Packet packet);

class TraceBuilder {
 public:
  // Starts a section with a header of plausible values. `batch_events` events make a batch.
  explicit TraceBuilder(uint32_t batch_events = 1000);

  // Change these before the first event or definition.
  trace::Header& header() { return header_; }
  // As the capture library wrote it before packets said what they belong to.
  TraceBuilder& WithoutPlaces() {
    has_places_ = false;
    return *this;
  }
  // Packets of events and definitions are compressed from then on.
  TraceBuilder& Compress(trace::Codec codec);

  // Definitions; each returns its id.
  uint32_t String(absl::string_view value);
  uint32_t Thread(uint32_t tid, absl::string_view name);
  TraceBuilder& Device(int index, absl::string_view name, uint64_t total_bytes);
  TraceBuilder& Version(absl::string_view name, absl::string_view version);
  uint32_t Tag(absl::string_view stage, absl::string_view module, uint64_t step);
  // A stack of Python frames, innermost first, each at the given line. Equal stacks share their nodes.
  uint64_t PythonStack(const std::vector<PythonFrame>& innermost_first);
  // A stack of native return addresses, innermost first.
  uint64_t NativeStack(const std::vector<uint64_t>& innermost_first);
  trace::Definitions& definitions() { return definitions_; }

  // Events. A row whose time is 0 comes 1 us after the one before it.
  TraceBuilder& Event(EventRow row);
  TraceBuilder& CudaAlloc(uint64_t address, uint64_t size, uint64_t stack = 0, int device = 0);
  TraceBuilder& CudaFree(uint64_t address, int device = 0);
  TraceBuilder& TorchAlloc(uint64_t address, uint64_t size, uint64_t stack = 0, int device = 0);
  TraceBuilder& TorchFree(uint64_t address, uint64_t size, int device = 0);
  TraceBuilder& AtTime(uint64_t time_ns);        // of the next event
  uint64_t time_ns() const { return time_ns_; }  // of the last event
  uint64_t event_count() const { return events_; }
  // For the convenience events above.
  TraceBuilder& OnThread(uint32_t thread);

  TraceBuilder& FlushBatch();
  TraceBuilder& Counters(const trace::Counters& counters);
  TraceBuilder& Losses(const trace::Losses& losses);
  TraceBuilder& End();
  // Leaves out a packet number, as if a packet were lost.
  TraceBuilder& SkipSequence() {
    ++sequence_;
    return *this;
  }
  // Appends any packet with sync, number and checksum.
  TraceBuilder& Append(trace::Packet packet);

  // The file so far. Without a call of End it is the file of a killed process.
  std::string Bytes();
  void Write(const std::string& path);
  // Writes into the test's temporary folder under a name of its own.
  std::string WriteTemporary();

 private:
  void StartSection();
  uint64_t Node(uint64_t parent, uint32_t frame);

  uint32_t batch_events_;
  trace::Codec codec_ = trace::CODEC_NONE;
  std::string dictionary_;  // of CODEC_LZ4_CHAINED
  trace::Header header_;
  trace::Definitions definitions_;
  bool has_definitions_ = false;
  bool started_ = false;
  std::vector<EventRow> pending_;
  std::string bytes_;
  uint64_t sequence_ = 0;
  uint64_t written_events_ = 0;  // in bytes_
  bool has_places_ = true;       // Packet.section and Packet.events_before
  uint64_t time_ns_ = 1'000'000'000;
  uint64_t next_time_ns_ = 0;
  uint64_t events_ = 0;
  uint64_t layer_events_[4] = {};
  uint32_t thread_ = 1;
  uint32_t next_string_ = 1, next_thread_ = 1, next_frame_ = 1, next_code_ = 1, next_tag_ = 1;
  uint64_t next_node_ = 1;
  std::map<std::pair<uint64_t, uint32_t>, uint64_t> nodes_;
  std::map<std::string, uint32_t> code_of_function_;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> frames_;
};

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_TESTING_TRACE_BUILDER_H_
