// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "testing/bombs.h"

#include <lz4.h>
#include <zstd.h>

#include <functional>

#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem::testing {
namespace {

constexpr uint64_t kBase = 0x7f0000000000;

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

std::string Field(uint32_t number, const std::string& bytes) {
  std::string out;
  PutVarint(number << 3 | 2, &out);
  PutVarint(bytes.size(), &out);
  return out + bytes;
}

// A Trace with one packet that holds `body` as its field `number`.
std::string Inner(uint32_t number, const std::string& body) { return Field(1, Field(number, body)); }

std::string Repeat(const std::string& what, size_t times) {
  std::string out;
  out.reserve(what.size() * times);
  for (size_t i = 0; i < times; ++i) out += what;
  return out;
}

void AppendZstd(const std::string& plain, TraceBuilder* trace) {
  std::string payload(ZSTD_compressBound(plain.size()), '\0');
  payload.resize(ZSTD_compress(payload.data(), payload.size(), plain.data(), plain.size(), 19));
  trace::Packet packet;
  packet.mutable_compressed()->set_codec(trace::CODEC_ZSTD);
  packet.mutable_compressed()->set_uncompressed_size(static_cast<uint32_t>(plain.size()));
  packet.mutable_compressed()->set_payload(payload);
  trace->Append(packet);
}

void AppendLz4(const std::string& plain, TraceBuilder* trace) {
  std::string payload(static_cast<size_t>(LZ4_compressBound(static_cast<int>(plain.size()))), '\0');
  payload.resize(static_cast<size_t>(LZ4_compress_default(plain.data(), payload.data(), static_cast<int>(plain.size()),
                                                          static_cast<int>(payload.size()))));
  trace::Packet packet;
  packet.mutable_compressed()->set_codec(trace::CODEC_LZ4_BLOCK);
  packet.mutable_compressed()->set_uncompressed_size(static_cast<uint32_t>(plain.size()));
  packet.mutable_compressed()->set_payload(payload);
  trace->Append(packet);
}

std::string EqualEventBatch(uint32_t count, trace::EventKind kind, int64_t address_step, uint64_t size) {
  trace::EventBatch batch;
  batch.set_count(count);
  batch.set_first_time_ns(1);
  batch.add_time_delta_ns(1);
  batch.add_kind(kind);
  batch.add_layer(trace::RUNTIME);
  batch.add_address_delta(address_step);
  batch.add_size(size);
  return batch.SerializeAsString();
}

// A trace of events that `add` makes, compressed as well as can be, in packets of as many as are always allowed.
std::string Events(const std::function<void(TraceBuilder*)>& add) {
  TraceBuilder trace(4096);
  trace.Compress(trace::CODEC_ZSTD);
  trace.Device(0, "GPU", 1 << 30);
  add(&trace);
  return trace.End().Bytes();
}

std::string Packets(const std::function<void(TraceBuilder*)>& add) {
  TraceBuilder trace;
  trace.CudaAlloc(kBase, kMiB).FlushBatch();
  add(&trace);
  return trace.End().Bytes();
}

EventRow Row(trace::EventKind kind, uint64_t address, uint64_t handle, uint32_t thread = 1) {
  EventRow row;
  row.kind = kind;
  row.layer = trace::DRIVER;
  row.device = 0;
  row.address = address;
  row.size = 4096;
  row.handle = handle;
  row.thread = thread;
  return row;
}

void EmptyFramesAsAllowed(TraceBuilder* trace) {
  for (int i = 0; i < 200; ++i) AppendZstd(Inner(4, Repeat(Field(4, "\x08\x01"), 14000)), trace);
}

void EqualEvents(TraceBuilder* trace) {
  for (int i = 0; i < 300; ++i) AppendZstd(Inner(5, EqualEventBatch(1 << 22, trace::ALLOC, 512, 512)), trace);
}

void EqualEventsAsAllowed(TraceBuilder* trace) {
  for (int i = 0; i < 300; ++i) AppendLz4(Inner(5, EqualEventBatch(4096, trace::ALLOC, 512, 512)), trace);
}

void BatchesInOnePacket(TraceBuilder* trace) {
  AppendZstd(Repeat(Inner(5, EqualEventBatch(3000, trace::ALLOC, 512, 512)), 100'000), trace);
}

void CountersOfDevices(TraceBuilder* trace) {
  AppendZstd(Inner(6, Repeat(Field(2, ""), 20 * kMiB)), trace);
  for (int i = 0; i < 200; ++i) AppendZstd(Inner(6, Repeat(Field(2, ""), 30'000)), trace);
}

void ModuleNames(TraceBuilder* trace) {
  trace::ModuleSymbols symbols;
  symbols.set_module(1);
  symbols.add_text(std::string(100'000, 'x'));
  for (int i = 0; i < 500; ++i) {
    symbols.add_address_delta(1);
    symbols.add_depth(256);
  }
  for (int i = 0; i < 500 * 256; ++i) {
    symbols.add_function(1);
    symbols.add_file(1);
    symbols.add_line(1);
  }
  trace::Definitions definitions;
  *definitions.add_symbols() = symbols;
  AppendLz4(Inner(4, definitions.SerializeAsString()), trace);
}

void ThreadsInTurn(TraceBuilder* trace) {
  for (uint32_t i = 0; i < 60'000; ++i) {
    EventRow row = Row(trace::ALLOC, kBase + uint64_t{i} * 4096, 0, 1 + i % 20'000);
    trace->Event(row);
  }
}

void HandlesInARow(TraceBuilder* trace) {
  for (uint32_t i = 1; i < 60'000; ++i) trace->Event(Row(trace::PHYSICAL_CREATE, 0, i));
}

void Resets(TraceBuilder* trace) {
  for (uint32_t i = 0; i < 30'000; ++i) trace->CudaAlloc(kBase + uint64_t{i} * 4096, 4096);
  for (uint32_t i = 0; i < 30'000; ++i) {
    EventRow row = Row(trace::DEVICE_RESET, 0, 0);
    row.device = 1;
    trace->Event(row);
  }
}

void Contexts(TraceBuilder* trace) {
  for (uint32_t i = 0; i < 30'000; ++i) trace->CudaAlloc(kBase + uint64_t{i} * 4096, 4096);
  for (uint32_t i = 0; i < 30'000; ++i) trace->Event(Row(trace::CONTEXT_DESTROY, 0, 7));
}

void SegmentsThatGoWithBlocks(TraceBuilder* trace) {
  for (uint32_t i = 0; i < 30'000; ++i) trace->TorchAlloc(1 + uint64_t{i} * 512, 512);
  for (uint32_t i = 0; i < 20'000; ++i) trace->CudaAlloc(kBase, 4096).TorchAlloc(kBase, 512).CudaFree(kBase);
}

void MulticastHolds(TraceBuilder* trace) {
  trace->Event(Row(trace::PHYSICAL_CREATE, 0, 5));
  for (uint32_t i = 0; i < 30'000; ++i) {
    EventRow row = Row(trace::MULTICAST_BIND, 5, 9);
    row.memory = trace::PHYSICAL;
    trace->Event(row);
  }
  for (uint32_t i = 0; i < 30'000; ++i) trace->Event(Row(trace::MULTICAST_UNBIND, 0, 8));
}

void TimesOfAllAges(TraceBuilder* trace) {
  for (uint64_t i = 0; i < 60'000; ++i)
    trace->AtTime(i % 2 == 0 ? 1 : UINT64_MAX - i).CudaAlloc(kBase + i * 4096, uint64_t{1} << 62);
}

void AllFreed(TraceBuilder* trace) {
  for (uint64_t i = 0; i < 400'000; ++i) trace->CudaAlloc(kBase + i * 4096, 4096);
  for (uint64_t i = 0; i < 400'000; ++i) trace->CudaFree(kBase + i * 4096);
  for (uint64_t i = 0; i < 400'000; ++i) trace->CudaAlloc(kBase, 4096).CudaFree(kBase);
}

void RangesInRanges(TraceBuilder* trace) {
  for (uint32_t i = 0; i < 60'000; ++i) {
    EventRow row = Row(trace::RANGE_PUSH, 0, i);
    row.layer = trace::LAYER_UNSPECIFIED;
    row.text = 1 + i;
    trace->Event(row);
    trace->TorchAlloc(kBase + uint64_t{i} * 512, 512);
  }
}

void Steps(TraceBuilder* trace) {
  for (uint64_t i = 0; i < 60'000; ++i) {
    EventRow row = Row(trace::STEP, 0, UINT64_MAX - i * 77'777'777);
    row.layer = trace::LAYER_UNSPECIFIED;
    trace->Event(row);
  }
}

void OutOfMemory(TraceBuilder* trace) {
  for (uint64_t i = 0; i < 30'000; ++i) trace->TorchAlloc(kBase + i * 512, 512);
  for (uint64_t i = 0; i < 20'000; ++i) {
    EventRow row = Row(trace::ALLOC_FAILED, 0, 0);
    row.result = 2;
    trace->Event(row);
    row.layer = trace::TORCH;
    trace->Event(row);
  }
}

void Devices(TraceBuilder* trace) {
  for (int i = 0; i < 60'000; ++i) trace->CudaAlloc(kBase + static_cast<uint64_t>(i) * 4096, 4096, 0, i % 300);
}

void DeepStacks(TraceBuilder* trace) {
  std::vector<uint64_t> frames;
  for (uint64_t i = 1; i <= 20'000; ++i) frames.push_back(i);
  trace->NativeStack(frames);
  for (uint64_t i = 0; i < 20'000; ++i) trace->CudaAlloc(kBase + i * 4096, 4096, 20'000 - i);
}

void LongNames(TraceBuilder* trace) {
  for (uint32_t i = 0; i < 20'000; ++i) {
    const std::string name = i == 0 ? std::string(kMiB, 'n') : "f";
    const uint64_t stack = trace->PythonStack({{std::string(100'000, 'f'), "m.py", 1 + i % 100}});
    if (i == 0) trace->String(name);
    trace->CudaAlloc(kBase + uint64_t{i} * 4096, 4096, stack);
  }
}

void LineTables(TraceBuilder* trace) {
  const uint64_t stack = trace->PythonStack({{"f", "m.py", 1}});
  trace->definitions().mutable_python_codes(0)->set_line_table(std::string(4 * kMiB, '\x68'));
  for (uint32_t i = 0; i < 20'000; ++i) {
    trace::Frame* const frame = trace->definitions().add_frames();
    frame->set_id(1000 + i);
    frame->set_python_code(1);
    frame->set_instruction(UINT32_MAX - i);
    trace::StackNodes* const nodes = trace->definitions().add_stacks();
    nodes->set_first_id(1000 + i);
    nodes->add_parent(stack);
    nodes->add_frame(1000 + i);
  }
  for (uint64_t i = 0; i < 20'000; ++i) trace->CudaAlloc(kBase + i * 4096, 4096, 1000 + i);
}

void HugeIds(TraceBuilder* trace) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    trace::StackNodes* const nodes = trace->definitions().add_stacks();
    nodes->set_first_id(UINT64_MAX - 3 - i * 1000);
    nodes->add_parent(0);
    nodes->add_frame(UINT32_MAX - static_cast<uint32_t>(i));
  }
  trace->String("x");
  trace->CudaAlloc(kBase, 4096, UINT64_MAX - 3);
}

// As protobuf objects 64 MiB of empty definitions are gigabytes.
void EmptyDefinitions(uint32_t field, TraceBuilder* trace) {
  AppendZstd(Inner(4, Repeat(Field(field, ""), 30 * kMiB)), trace);
}

struct Recipe {
  const char* name;
  void (*add)(TraceBuilder*);
};
constexpr Recipe kOfPackets[] = {
    {"empty_frames_as_allowed", EmptyFramesAsAllowed}, {"equal_events", EqualEvents},
    {"equal_events_as_allowed", EqualEventsAsAllowed}, {"batches_in_one_packet", BatchesInOnePacket},
    {"counters_of_devices", CountersOfDevices},        {"module_names", ModuleNames},
};
constexpr Recipe kOfEvents[] = {
    {"threads_in_turn", ThreadsInTurn},
    {"handles_in_a_row", HandlesInARow},
    {"resets", Resets},
    {"contexts", Contexts},
    {"segments_that_go_with_blocks", SegmentsThatGoWithBlocks},
    {"multicast_holds", MulticastHolds},
    {"times_of_all_ages", TimesOfAllAges},
    {"all_freed", AllFreed},
    {"ranges_in_ranges", RangesInRanges},
    {"steps", Steps},
    {"out_of_memory", OutOfMemory},
    {"devices", Devices},
    {"deep_stacks", DeepStacks},
    {"long_names", LongNames},
    {"line_tables", LineTables},
    {"huge_ids", HugeIds},
};

void AddFileBombs(std::vector<Bomb>* bombs) {
  std::string sections, killed, syncs, lengths;
  for (uint32_t i = 0; i < 2000; ++i) {
    TraceBuilder one, other;
    one.header().set_pid(i + 1);
    sections += one.CudaAlloc(kBase, 4096).End().Bytes();
    other.header().set_pid(UINT32_MAX - i);
    other.header().mutable_ring()->set_path("/nonexistent/ring");
    killed += other.CudaAlloc(kBase, 4096).FlushBatch().Bytes();
  }
  bombs->push_back({"sections", sections});
  bombs->push_back({"sections_of_killed", killed});
  const std::string whole = Packets([](TraceBuilder*) {});
  for (int i = 0; i < 100'000; ++i) syncs += std::string("\x0a\x7f\x0dGMT1", 7);
  // Each claims nearly all that follows.
  const size_t size = 40'000;
  while (lengths.size() < size * 11) {
    std::string frame("\x0a");
    PutVarint(size * 11 - lengths.size(), &frame);
    lengths += frame + std::string("\x0dGMT1", 5);
  }
  bombs->push_back({"sync_words", whole + syncs});
  bombs->push_back({"sync_words_of_long_packets", whole + lengths + whole});
}

}  // namespace

std::vector<Bomb> MakeBombs() {
  std::vector<Bomb> bombs;
  for (const uint32_t field : {1u, 4u, 5u, 12u, 13u}) {
    bombs.push_back({"empty_definitions_" + std::to_string(field),
                     Packets([&](TraceBuilder* trace) { EmptyDefinitions(field, trace); })});
  }
  for (const Recipe& recipe : kOfPackets) bombs.push_back({recipe.name, Packets(recipe.add)});
  for (const Recipe& recipe : kOfEvents) bombs.push_back({recipe.name, Events(recipe.add)});
  AddFileBombs(&bombs);
  return bombs;
}

}  // namespace gpumem::testing
