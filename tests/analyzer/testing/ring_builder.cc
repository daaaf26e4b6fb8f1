// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "testing/ring_builder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gpumem/trace.pb.h"
#include "testing/left_behind.h"

namespace gpumem::testing {
namespace {

using format::ChunkDescriptor;
using format::RecordHeader;
using format::RingHeader;

constexpr uint64_t kPage = 4096;
constexpr char kApiNames[] = "\0cudaMalloc\0cudaFree";  // and a terminator

template <typename T>
absl::string_view BytesOf(const T& value) {
  return absl::string_view(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

RingBuilder::RingBuilder(uint32_t pid, uint64_t start_ticks) {
  RingHeader made{};
  made.magic = format::kMagic;
  made.layout_version = format::kLayoutVersion;
  made.pid = pid;
  made.process_start_ticks = start_ticks;
  made.chunk_bytes = format::kChunkBytes;
  made.chunk_count = kChunks;
  made.api_count = 3;
  made.descriptors_offset = kPage;
  made.api_names_offset = kPage + kChunks * sizeof(ChunkDescriptor);
  made.chunks_offset = 2 * kPage;
  made.size_bytes = made.chunks_offset + uint64_t{kChunks} * made.chunk_bytes;
  bytes_.assign(made.size_bytes, '\0');
  header() = made;
  std::memcpy(bytes_.data() + made.api_names_offset, kApiNames, sizeof(kApiNames));
}

ChunkDescriptor& RingBuilder::chunk(uint32_t index) {
  return *reinterpret_cast<ChunkDescriptor*>(bytes_.data() + kPage + index * sizeof(ChunkDescriptor));
}

RingBuilder& RingBuilder::Chunk(uint32_t owner_serial, uint32_t number, format::ChunkState state) {
  ++used_;
  marks_ = 0;
  current().state = state;
  current().owner_serial = owner_serial;
  current().owner_tid = 100 + owner_serial;
  current().number = number;
  std::strcpy(current().thread_name, "worker");
  return *this;
}

void RingBuilder::Append(absl::string_view record) {
  const uint64_t at = 2 * kPage + uint64_t{used_ - 1} * format::kChunkBytes + current().committed;
  std::memcpy(bytes_.data() + at, record.data(), record.size());
  current().committed += static_cast<uint32_t>(record.size());
}

RingBuilder& RingBuilder::Raw(uint16_t type, uint32_t claimed_size, absl::string_view body) {
  std::string record = absl::StrCat(BytesOf(RecordHeader{type, 0, claimed_size}), body);
  record.resize((record.size() + 7) & ~size_t{7});
  Append(record);
  return *this;
}

RingBuilder& RingBuilder::Event(format::Event event) {
  if (event.time_ns == 0) event.time_ns = time_ns_ += 1000;
  return Raw(format::kRecordEvent, sizeof(format::EventRecord), BytesOf(event));
}

RingBuilder& RingBuilder::Alloc(uint64_t address, uint64_t size, uint64_t stack) {
  format::Event event{};
  event.kind = format::EventKind::kAlloc;
  event.layer = format::Layer::kRuntime;
  event.address = address;
  event.size = size;
  event.stack = stack;
  event.api = 1;
  return Event(event);
}

RingBuilder& RingBuilder::Free(uint64_t address) {
  format::Event event{};
  event.kind = format::EventKind::kFree;
  event.layer = format::Layer::kRuntime;
  event.address = address;
  event.api = 2;
  return Event(event);
}

RingBuilder& RingBuilder::Stack(uint64_t hash, const std::vector<uint64_t>& innermost_first) {
  std::string body = absl::StrCat(BytesOf(hash), BytesOf(static_cast<uint64_t>(innermost_first.size())));
  for (const uint64_t pc : innermost_first) absl::StrAppend(&body, BytesOf(format::RawFrame{pc, 0, 0}));
  return Raw(format::kRecordStack, static_cast<uint32_t>(sizeof(RecordHeader) + body.size()), body);
}

RingBuilder& RingBuilder::PythonStack(uint64_t hash, const std::vector<uint64_t>& code_keys) {
  std::string body = absl::StrCat(BytesOf(hash), BytesOf(static_cast<uint64_t>(code_keys.size())));
  for (const uint64_t key : code_keys) absl::StrAppend(&body, BytesOf(format::RawFrame{key, 2, format::kFramePython}));
  return Raw(format::kRecordStack, static_cast<uint32_t>(sizeof(RecordHeader) + body.size()), body);
}

RingBuilder& RingBuilder::BackwardStack(uint64_t hash, uint64_t pc, uint64_t forward_hash, uint32_t node) {
  const std::string body = absl::StrCat(BytesOf(hash), BytesOf(uint64_t{2}), BytesOf(format::RawFrame{pc, 0, 0}),
                                        BytesOf(format::RawFrame{forward_hash, node, format::kFrameForward}));
  return Raw(format::kRecordStack, static_cast<uint32_t>(sizeof(RecordHeader) + body.size()), body);
}

RingBuilder& RingBuilder::Text(uint64_t key, absl::string_view text, uint32_t field) {
  const format::TextRecord record = {{}, key, static_cast<uint32_t>(text.size()), field};
  const std::string body = absl::StrCat(BytesOf(record).substr(sizeof(RecordHeader)), text);
  const uint32_t whole = static_cast<uint32_t>((sizeof(RecordHeader) + body.size() + 7) & ~size_t{7});
  return Raw(format::kRecordText, whole, body);
}

RingBuilder& RingBuilder::Code(uint64_t key, absl::string_view filename, absl::string_view name) {
  const format::CodeBlob blob = {7, 11, static_cast<uint32_t>(filename.size()), static_cast<uint32_t>(name.size()),
                                 0, 0};
  const std::string part = absl::StrCat(BytesOf(blob), filename, name);
  const auto size = static_cast<uint32_t>(part.size());
  const format::CodeRecord record = {{}, key, size, 0, size, 0};
  const std::string body = absl::StrCat(BytesOf(record).substr(sizeof(RecordHeader)), part);
  const uint32_t whole = static_cast<uint32_t>((sizeof(RecordHeader) + body.size() + 7) & ~size_t{7});
  return Raw(format::kRecordCode, whole, body);
}

RingBuilder& RingBuilder::Mark(uint64_t packet_sequence) {
  current().read[marks_++ % 2] = {packet_sequence, current().committed, 0};
  return *this;
}

RingBuilder& RingBuilder::BelongTo(const std::string& trace_path, uint64_t id, uint64_t written_sequence) {
  struct stat trace {};
  stat(trace_path.c_str(), &trace);
  header().id = id;
  header().written_sequence = written_sequence;
  header().locked = 1;
  header().trace_device = trace.st_dev;
  header().trace_inode = trace.st_ino;
  header().trace_path_bytes = static_cast<uint32_t>(trace_path.size());
  std::strcpy(header().trace_path, trace_path.c_str());
  return *this;
}

void RingBuilder::Write(const std::string& path) const {
  std::ofstream(path, std::ios::binary).write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
}

std::string RingBuilder::WriteTemporary() const {
  static int number = 0;
  const char* const folder = std::getenv("TMPDIR");
  const std::string path =
      absl::StrCat(folder == nullptr ? "/tmp" : folder, "/gpumemshim_test.", getpid(), ".", number++, ".ring");
  Write(path);
  RemoveAtEnd(path);
  return path;
}

}  // namespace gpumem::testing
