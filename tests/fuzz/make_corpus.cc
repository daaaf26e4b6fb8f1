// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Writes small correct traces and rings into folders, as seeds for reader_fuzz and ring_fuzz, and inputs of
// symbols_fuzz.

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "testing/ring_builder.h"
#include "testing/trace_builder.h"
#include "trace/module_symbols.h"

namespace {

using gpumem::testing::TraceBuilder;

void Write(const std::string& path, TraceBuilder& trace) {
  const std::string bytes = std::string(1, '\0') + trace.Bytes();
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Every kind of event, so that the fuzzer need not guess their numbers.
void AddEveryKind(TraceBuilder* trace) {
  for (int kind = gpumem::trace::ALLOC; kind <= gpumem::trace::DEVICE_RESET; ++kind) {
    gpumem::EventRow row;
    row.kind = static_cast<gpumem::trace::EventKind>(kind);
    row.layer = gpumem::trace::DRIVER;
    row.device = 0;
    row.address = 0x7f0000000000;
    row.size = 2 << 20;
    row.handle = 77;
    row.result = 2;
    trace->Event(row);
    trace->TorchAlloc(0x7f0000000000, 512, 1);
  }
}

void WriteRings(const std::string& folder) {
  gpumem::testing::RingBuilder plain, marked;
  plain.Chunk(1, 1).Code(9, "m.py", "f").PythonStack(5, {9}).Stack(6, {16, 32}).Alloc(0x7f0000000000, 512, 5).Free(1);
  marked.Chunk(2, 1, gpumem::ring_layout::kChunkClosed).Alloc(1, 1).Mark(3).Alloc(2, 1).Mark(4).Alloc(3, 1);
  marked.Chunk(2, 2).Alloc(4, 1);
  int number = 0;
  for (gpumem::testing::RingBuilder* ring : {&plain, &marked}) {
    const std::string bytes = std::string(1, '\0') + ring->bytes();
    std::ofstream(folder + "/ring" + std::to_string(number++), std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

// One seed a kind of input that symbols_fuzz chooses by the first byte.
void WriteSymbols(const std::string& folder) {
  gpumem::ModuleSymbols names;
  names.Add(0x1000, {{"inner(int)", "a.h", 12}, {"outer()", "a.cc", 40}});
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::string elf(4096, '\0');
  self.read(elf.data(), static_cast<std::streamsize>(elf.size()));
  const std::string seeds[] = {elf, names.Serialize(1), std::string("\x80\x00\xf0\x02\x04\x01", 6),
                               "void at::native::(anonymous namespace)::add<float>(at::Tensor const&) const"};
  for (size_t kind = 0; kind < std::size(seeds); ++kind) {
    std::ofstream(folder + "/symbols" + std::to_string(kind), std::ios::binary)
        << static_cast<char>(kind) << seeds[kind];
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s TRACES RINGS SYMBOLS\n", argv[0]);
    return 2;
  }
  WriteRings(argv[2]);
  WriteSymbols(argv[3]);
  int number = 0;
  for (const auto codec : {gpumem::trace::CODEC_NONE, gpumem::trace::CODEC_LZ4_BLOCK, gpumem::trace::CODEC_ZSTD}) {
    TraceBuilder trace(8);
    trace.Compress(codec);
    trace.Device(0, "GPU", 1 << 30);
    trace.PythonStack({{"f", "m.py", 7}});
    AddEveryKind(&trace);
    trace.Losses({}).Counters({}).End();
    Write(std::string(argv[1]) + "/seed" + std::to_string(number++), trace);
  }
  return 0;
}
