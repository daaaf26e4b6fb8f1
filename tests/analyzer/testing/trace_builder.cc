// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "testing/trace_builder.h"

#include <lz4.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/left_behind.h"

namespace gpumem::testing {
namespace {

constexpr uint32_t kSync = 0x31544D47;
constexpr char kPacketTag = '\x0a';
constexpr char kChecksumTag = '\x79';

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void AppendFramed(const std::string& packet, std::string* out) {
  out->push_back(kPacketTag);
  AppendVarint(packet.size(), out);
  out->append(packet);
}

constexpr size_t kDictionaryBytes = 64 << 10;

std::string Chained(const std::string& bytes, const std::string& dictionary) {
  LZ4_stream_t* const stream = LZ4_createStream();
  LZ4_loadDict(stream, dictionary.data(), static_cast<int>(dictionary.size()));
  std::string out(static_cast<size_t>(LZ4_compressBound(static_cast<int>(bytes.size()))), '\0');
  out.resize(static_cast<size_t>(LZ4_compress_fast_continue(
      stream, bytes.data(), out.data(), static_cast<int>(bytes.size()), static_cast<int>(out.size()), 1)));
  LZ4_freeStream(stream);
  return out;
}

std::string Compressed(trace::Codec codec, const std::string& bytes) {
  std::string out;
  if (codec == trace::CODEC_LZ4_BLOCK) {
    out.resize(static_cast<size_t>(LZ4_compressBound(static_cast<int>(bytes.size()))));
    out.resize(static_cast<size_t>(
        LZ4_compress_default(bytes.data(), out.data(), static_cast<int>(bytes.size()), static_cast<int>(out.size()))));
  } else {
    out.resize(ZSTD_compressBound(bytes.size()));
    out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 1));
  }
  return out;
}

// Sets `field` to the column, or to its one value where all are equal, or leaves it empty where all are 0.
template <typename Field, typename Get>
void SetColumn(const std::vector<EventRow>& rows, Field* field, Get get) {
  bool equal = true;
  for (const EventRow& row : rows) equal = equal && get(row) == get(rows[0]);
  if (equal && get(rows[0]) == 0) return;
  for (const EventRow& row : rows) {
    field->Add(get(row));
    if (equal) return;
  }
}

trace::EventBatch ToBatch(const std::vector<EventRow>& rows) {
  trace::EventBatch batch;
  batch.set_count(static_cast<uint32_t>(rows.size()));
  batch.set_first_time_ns(rows[0].time_ns);
  uint64_t address = 0;
  uint64_t time = rows[0].time_ns;
  uint64_t bits = 0;
  for (const EventRow& row : rows) bits |= row.address;
  batch.set_address_shift(bits == 0 ? 0 : std::min<uint32_t>(9, static_cast<uint32_t>(__builtin_ctzll(bits))));
  for (const EventRow& row : rows) {
    batch.add_time_delta_ns(static_cast<int64_t>(row.time_ns - time));
    time = row.time_ns;
    batch.add_address_delta(static_cast<int64_t>((row.address >> batch.address_shift()) - address));
    address = row.address >> batch.address_shift();
  }
  SetColumn(rows, batch.mutable_kind(), [](const EventRow& row) { return static_cast<int>(row.kind); });
  SetColumn(rows, batch.mutable_layer(), [](const EventRow& row) { return static_cast<int>(row.layer); });
  SetColumn(rows, batch.mutable_memory(), [](const EventRow& row) { return static_cast<int>(row.memory); });
  SetColumn(rows, batch.mutable_device(), [](const EventRow& row) { return row.device; });
  SetColumn(rows, batch.mutable_size(), [](const EventRow& row) { return row.size; });
  SetColumn(rows, batch.mutable_requested_size(), [](const EventRow& row) { return row.requested_size; });
  SetColumn(rows, batch.mutable_stream(), [](const EventRow& row) { return row.stream; });
  SetColumn(rows, batch.mutable_handle(), [](const EventRow& row) { return row.handle; });
  SetColumn(rows, batch.mutable_thread(), [](const EventRow& row) { return row.thread; });
  SetColumn(rows, batch.mutable_stack(), [](const EventRow& row) { return row.stack; });
  SetColumn(rows, batch.mutable_tag(), [](const EventRow& row) { return row.tag; });
  SetColumn(rows, batch.mutable_result(), [](const EventRow& row) { return row.result; });
  SetColumn(rows, batch.mutable_duration_ns(), [](const EventRow& row) { return row.duration_ns; });
  SetColumn(rows, batch.mutable_api(), [](const EventRow& row) { return row.api; });
  SetColumn(rows, batch.mutable_text(), [](const EventRow& row) { return row.text; });
  return batch;
}

}  // namespace

TraceBuilder::TraceBuilder(uint32_t batch_events) : batch_events_(batch_events) {
  header_.set_format_version(1);
  header_.set_writer_version("0.1.0");
  header_.set_pid(4242);
  header_.set_parent_pid(4241);
  header_.set_hostname("node1");
  header_.set_program("train");
  header_.set_executable("/usr/bin/python3.11");
  header_.add_command_line("python");
  header_.add_command_line("train.py");
  header_.set_working_directory("/home/user");
  header_.set_anchor_monotonic_ns(time_ns_);
  header_.set_anchor_realtime_ns(1'772'000'000'000'000'000);
}

TraceBuilder& TraceBuilder::Compress(trace::Codec codec) {
  codec_ = codec;
  return *this;
}

uint32_t TraceBuilder::String(absl::string_view value) {
  has_definitions_ = true;
  trace::InternedString* const string = definitions_.add_strings();
  string->set_id(next_string_);
  string->set_value(std::string(value));
  return next_string_++;
}

uint32_t TraceBuilder::Thread(uint32_t tid, absl::string_view name) {
  has_definitions_ = true;
  trace::Thread* const thread = definitions_.add_threads();
  thread->set_id(next_thread_);
  thread->set_tid(tid);
  thread->set_name(std::string(name));
  return next_thread_++;
}

TraceBuilder& TraceBuilder::Device(int index, absl::string_view name, uint64_t total_bytes) {
  has_definitions_ = true;
  trace::Device* const device = definitions_.add_devices();
  device->set_index(index);
  device->set_name(std::string(name));
  device->set_total_bytes(total_bytes);
  return *this;
}

TraceBuilder& TraceBuilder::Version(absl::string_view name, absl::string_view version) {
  has_definitions_ = true;
  (*definitions_.mutable_versions())[std::string(name)] = std::string(version);
  return *this;
}

uint32_t TraceBuilder::Tag(absl::string_view stage, absl::string_view module, uint64_t step) {
  has_definitions_ = true;
  trace::Tag* const tag = definitions_.add_tags();
  tag->set_id(next_tag_);
  tag->set_stage(std::string(stage));
  tag->set_module(std::string(module));
  tag->set_step(step);
  return next_tag_++;
}

uint64_t TraceBuilder::Node(uint64_t parent, uint32_t frame) {
  const auto [it, is_new] = nodes_.try_emplace({parent, frame}, next_node_);
  if (!is_new) return it->second;
  has_definitions_ = true;
  trace::StackNodes* const nodes =
      definitions_.stacks_size() > 0 ? definitions_.mutable_stacks(0) : definitions_.add_stacks();
  if (nodes->first_id() == 0) nodes->set_first_id(next_node_);
  nodes->add_parent(parent);
  nodes->add_frame(frame);
  return next_node_++;
}

uint64_t TraceBuilder::PythonStack(const std::vector<PythonFrame>& innermost_first) {
  uint64_t node = 0;
  for (auto it = innermost_first.rbegin(); it != innermost_first.rend(); ++it) {
    // One code object a line, with a location table of one entry: 31 code units that all lie on the first line.
    const auto [code, is_new] =
        code_of_function_.try_emplace(absl::StrCat(it->file, "\n", it->function, "\n", it->line), next_code_);
    if (is_new) {
      has_definitions_ = true;
      trace::PythonCode* const definition = definitions_.add_python_codes();
      definition->set_id(next_code_++);
      definition->set_filename(it->file);
      definition->set_name(it->function);
      definition->set_first_line(it->line);
      definition->set_python_minor(11);
      definition->set_line_table(std::string("\xef\x00", 2));  // no columns, 8 code units, line delta 0
      trace::Frame* const frame = definitions_.add_frames();
      frame->set_id(next_frame_);
      frame->set_python_code(code->second);
      frame->set_instruction(4);
      frames_[{code->second, 0}] = next_frame_++;
    }
    node = Node(node, frames_[{code->second, 0}]);
  }
  return node;
}

uint64_t TraceBuilder::NativeStack(const std::vector<uint64_t>& innermost_first) {
  uint64_t node = 0;
  for (auto it = innermost_first.rbegin(); it != innermost_first.rend(); ++it) {
    const auto [place, is_new] = frames_.try_emplace({0, *it}, next_frame_);
    if (is_new) {
      has_definitions_ = true;
      trace::Frame* const frame = definitions_.add_frames();
      frame->set_id(next_frame_++);
      frame->set_pc(*it);
    }
    node = Node(node, place->second);
  }
  return node;
}

TraceBuilder& TraceBuilder::AtTime(uint64_t time_ns) {
  next_time_ns_ = time_ns;
  return *this;
}

TraceBuilder& TraceBuilder::OnThread(uint32_t thread) {
  thread_ = thread;
  return *this;
}

TraceBuilder& TraceBuilder::Event(EventRow row) {
  if (row.time_ns == 0) row.time_ns = next_time_ns_ != 0 ? next_time_ns_ : time_ns_ + 1000;
  next_time_ns_ = 0;
  time_ns_ = row.time_ns;
  if (row.thread == 0) row.thread = thread_;
  ++events_;
  ++layer_events_[row.layer & 3];
  pending_.push_back(row);
  if (pending_.size() >= batch_events_) FlushBatch();
  return *this;
}

TraceBuilder& TraceBuilder::CudaAlloc(uint64_t address, uint64_t size, uint64_t stack, int device) {
  EventRow row;
  row.kind = trace::ALLOC;
  row.layer = trace::RUNTIME;
  row.device = device;
  row.address = address;
  row.size = size;
  row.stack = stack;
  return Event(row);
}

TraceBuilder& TraceBuilder::CudaFree(uint64_t address, int device) {
  EventRow row;
  row.kind = trace::FREE;
  row.layer = trace::RUNTIME;
  row.device = device;
  row.address = address;
  return Event(row);
}

TraceBuilder& TraceBuilder::TorchAlloc(uint64_t address, uint64_t size, uint64_t stack, int device) {
  EventRow row;
  row.kind = trace::ALLOC;
  row.layer = trace::TORCH;
  row.device = device;
  row.address = address;
  row.size = size;
  row.stack = stack;
  return Event(row);
}

TraceBuilder& TraceBuilder::TorchFree(uint64_t address, uint64_t size, int device) {
  EventRow row;
  row.kind = trace::FREE;
  row.layer = trace::TORCH;
  row.device = device;
  row.address = address;
  row.size = size;
  return Event(row);
}

std::string Framed(trace::Packet packet) {
  packet.set_sync(kSync);
  packet.clear_checksum();
  std::string bytes = packet.SerializeAsString();
  const XXH64_hash_t checksum = XXH3_64bits(bytes.data(), bytes.size());
  bytes.push_back(kChecksumTag);
  bytes.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  std::string framed;
  AppendFramed(bytes, &framed);
  return framed;
}

TraceBuilder& TraceBuilder::Append(trace::Packet packet) {
  packet.set_sequence(sequence_++);
  if (has_places_) {
    const std::string header = header_.SerializeAsString();
    packet.set_section(static_cast<uint32_t>(XXH3_64bits(header.data(), header.size())) | 1);
    packet.set_events_before(written_events_);
  }
  bytes_ += Framed(std::move(packet));
  return *this;
}

void TraceBuilder::StartSection() {
  if (std::exchange(started_, true)) return;
  trace::Packet packet;
  *packet.mutable_header() = header_;
  Append(packet);
}

TraceBuilder& TraceBuilder::FlushBatch() {
  StartSection();
  std::vector<trace::Packet> packets;
  if (std::exchange(has_definitions_, false)) {
    packets.emplace_back();
    *packets.back().mutable_definitions() = std::exchange(definitions_, {});
  }
  if (!pending_.empty()) {
    packets.emplace_back();
    *packets.back().mutable_events() = ToBatch(pending_);
    pending_.clear();
  }
  if (codec_ == trace::CODEC_NONE) {
    for (trace::Packet& packet : packets) Append(std::move(packet));
  } else if (!packets.empty()) {
    trace::Trace inner;
    for (trace::Packet& packet : packets) *inner.add_packet() = std::move(packet);
    const std::string plain = inner.SerializeAsString();
    trace::Packet packet;
    packet.mutable_compressed()->set_codec(codec_);
    packet.mutable_compressed()->set_uncompressed_size(static_cast<uint32_t>(plain.size()));
    packet.mutable_compressed()->set_payload(codec_ == trace::CODEC_LZ4_CHAINED ? Chained(plain, dictionary_)
                                                                                : Compressed(codec_, plain));
    // The first of a chain stands alone.
    if (codec_ == trace::CODEC_LZ4_CHAINED && dictionary_.empty())
      packet.mutable_compressed()->set_codec(trace::CODEC_LZ4_BLOCK);
    dictionary_ += plain;
    if (dictionary_.size() > kDictionaryBytes) dictionary_.erase(0, dictionary_.size() - kDictionaryBytes);
    Append(std::move(packet));
  }
  written_events_ = events_;
  return *this;
}

TraceBuilder& TraceBuilder::Counters(const trace::Counters& counters) {
  FlushBatch();
  trace::Packet packet;
  *packet.mutable_counters() = counters;
  return Append(std::move(packet));
}

TraceBuilder& TraceBuilder::Losses(const trace::Losses& losses) {
  FlushBatch();
  trace::Packet packet;
  *packet.mutable_losses() = losses;
  return Append(std::move(packet));
}

TraceBuilder& TraceBuilder::End() {
  FlushBatch();
  trace::Packet packet;
  trace::End* const end = packet.mutable_end();
  end->set_time_ns(time_ns_);
  end->set_events(events_);
  end->set_driver_events(layer_events_[trace::DRIVER]);
  end->set_runtime_events(layer_events_[trace::RUNTIME]);
  end->set_torch_events(layer_events_[trace::TORCH]);
  return Append(std::move(packet));
}

std::string TraceBuilder::Bytes() {
  FlushBatch();
  return bytes_;
}

void TraceBuilder::Write(const std::string& path) {
  const std::string bytes = Bytes();
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string TraceBuilder::WriteTemporary() {
  static std::atomic<int> number{0};
  const char* const folder = std::getenv("TMPDIR");
  const std::string path = absl::StrCat(folder == nullptr ? "/tmp" : folder, "/gpumemshim_test.", getpid(), ".",
                                        number.fetch_add(1), ".gmtrace");
  Write(path);
  RemoveAtEnd(path);
  return path;
}

}  // namespace gpumem::testing
