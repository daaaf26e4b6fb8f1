// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Reads a trace file with libprotobuf, liblz4 and xxhash alone, so that the writer is checked against the format and
// not against itself.

#ifndef GPUMEM_TESTS_SHIM_WRITER_TRACE_DECODE_H_
#define GPUMEM_TESTS_SHIM_WRITER_TRACE_DECODE_H_

#include <gpumem/trace.pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpumemshim::writer {

// One event with every column spread out.
struct Row {
  uint64_t time_ns, address, size, requested_size, stream, handle, stack;
  uint32_t thread, tag, duration_ns, api;
  int32_t result;
  int device, kind, layer, memory;
};

struct Decoded {
  std::string error;  // first thing found wrong; "" = none
  bool truncated = false;
  std::string window;    // dictionary of chained packets
  uint64_t chained = 0;  // packets of that sort
  uint64_t last_sequence = 0;
  std::vector<gpumem::trace::Packet> packets;  // decompressed, in order
  std::vector<Row> rows;
  std::vector<Row> live_snapshot;
  std::vector<uint32_t> torch_segments;  // indexes into live_snapshot
  bool continued = false;
  gpumem::trace::Header header;
  gpumem::trace::Losses losses;
  gpumem::trace::Counters counters;  // the last ones
  gpumem::trace::End end;
  bool has_end = false;
  std::map<uint32_t, std::string> strings;
  std::map<uint32_t, gpumem::trace::PythonCode> codes;
  std::map<uint32_t, gpumem::trace::Frame> frames;
  std::map<uint64_t, std::pair<uint64_t, uint32_t>> nodes;  // parent, frame
  std::map<uint32_t, gpumem::trace::Thread> threads;
  std::map<int, gpumem::trace::Device> devices;
  std::vector<gpumem::trace::Module> modules;
  std::map<uint64_t, uint64_t> stack_of_key;
  std::map<std::string, std::string> versions;

  // Frames of a stack, innermost first.
  std::vector<gpumem::trace::Frame> Frames(uint64_t stack) const;
};

Decoded DecodeBytes(const std::string& bytes);
Decoded DecodeFile(const std::string& path);

// Spreads out one batch; false where a column has a wrong length.
bool Rows(const gpumem::trace::EventBatch& batch, std::vector<Row>* rows);

}  // namespace gpumemshim::writer

#endif  // GPUMEM_TESTS_SHIM_WRITER_TRACE_DECODE_H_
