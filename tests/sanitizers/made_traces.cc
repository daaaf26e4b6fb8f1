// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// made_traces FOLDER: writes 60 traces into FOLDER/good and 60 hostile ones into FOLDER/hostile, the same each time.
// Good are 15 kinds of programs in each compression; hostile are some bombs, and good ones with bytes changed, cut out
// or put in, of which most have right checksums again. Exit code 1 where a file cannot be written.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "testing/bombs.h"
#include "testing/right_checksums.h"
#include "testing/trace_builder.h"
#include "testing/training_trace.h"

namespace {

using gpumem::EventRow;
using gpumem::testing::Call;
using gpumem::testing::Code;
using gpumem::testing::TraceBuilder;
using gpumem::testing::TrainingTrace;
namespace trace = gpumem::trace;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kBase = 0x7f0000000000;
constexpr size_t kTraces = 60;
constexpr trace::Codec kCodecs[] = {trace::CODEC_NONE, trace::CODEC_LZ4_BLOCK, trace::CODEC_ZSTD,
                                    trace::CODEC_LZ4_CHAINED};

EventRow Row(trace::EventKind kind, uint64_t address, uint64_t size) {
  EventRow row;
  row.kind = kind;
  row.layer = trace::DRIVER;
  row.device = 0;
  row.address = address;
  row.size = size;
  return row;
}

void EveryKind(TrainingTrace* made) {
  TraceBuilder& builder = made->builder();
  const uint32_t text = builder.String("a name");
  for (int kind = trace::ALLOC; kind <= trace::EXISTING_END; ++kind) {
    EventRow row = Row(static_cast<trace::EventKind>(kind), kBase, 2 * kMiB);
    row.handle = 77;
    row.result = 2;
    row.text = text;
    builder.Event(row);
    builder.TorchAlloc(kBase, 512, 1);
  }
}

// Modules, parameters, saved tensors, steps; a block stays from each where `leaks`.
void Training(TrainingTrace* made, bool leaks) {
  const uint32_t model = made->Root("GPT"), layer = made->Module(model, "h.0.mlp", "MLP");
  const uint32_t optimizer = made->Optimizer("AdamW"), weight = made->Parameter(model, "h.0.mlp.weight", 1 << 18);
  const uint64_t stack = made->Stack({Call(layer), Call(model), Code("train", "/job/train.py", 9)});
  TraceBuilder& builder = made->builder();
  builder.CudaAlloc(kBase, 640 * kMiB, stack).TorchAlloc(kBase, kMiB, stack);
  made->Place(weight, kBase, kMiB);
  for (uint64_t step = 1; step <= 40; ++step) {
    EventRow begins = Row(trace::STEP, 0, 0);
    begins.layer = trace::LAYER_UNSPECIFIED;
    begins.handle = step;
    builder.Event(begins);
    const uint64_t activation = kBase + (leaks ? step : 1) * 4 * kMiB;
    builder.TorchAlloc(activation, 3 * kMiB, stack);
    made->Saved(activation).StepBegins(optimizer);
    if (!leaks) builder.TorchFree(activation, 3 * kMiB);
    made->StepEnds(optimizer);
  }
}

void OutOfMemory(TrainingTrace* made) {
  Training(made, true);
  TraceBuilder& builder = made->builder();
  for (int i = 0; i < 3; ++i) {
    EventRow failed = Row(trace::ALLOC_FAILED, 0, 700 * kMiB);
    failed.layer = trace::TORCH;
    failed.result = 2;
    builder.Event(failed);
    EventRow device = Row(trace::OOM_DEVICE, 0, 5 * kMiB);
    device.layer = trace::LAYER_UNSPECIFIED;
    device.requested_size = 645 * kMiB;
    builder.Event(device);
  }
}

void Stages(TrainingTrace* made) {
  TraceBuilder& builder = made->builder();
  for (const char* name : {"load", "forward", "forward", "backward"}) {
    EventRow row = Row(trace::RANGE_PUSH, 0, 0);
    row.layer = trace::LAYER_UNSPECIFIED;
    row.text = builder.String(name);
    builder.Event(row).TorchAlloc(kBase + builder.event_count() * kMiB, kMiB);
    row.kind = trace::MARK;
    row.handle = builder.event_count() % 3;
    builder.Event(row);
    row.kind = trace::RANGE_POP;
    builder.Event(row);
  }
}

// Allocations and frees of all layers in any order, of which some are of nothing.
void Churn(TrainingTrace* made, uint64_t seed) {
  std::mt19937_64 chance(seed);
  TraceBuilder& builder = made->builder();
  const uint64_t stack = builder.PythonStack({{"f", "m.py", 7}, {"<module>", "m.py", 70}});
  builder.CudaAlloc(kBase, 64 * kMiB, stack);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t address = kBase + chance() % 128 * (kMiB / 2), size = 512 * (1 + chance() % 1024);
    if (chance() % 2 == 0) {
      builder.TorchAlloc(address, size, chance() % 3 == 0 ? 0 : stack);
    } else if (chance() % 4 != 0) {
      builder.TorchFree(address, size);
    } else {
      builder.Event(Row(static_cast<trace::EventKind>(1 + chance() % 29), address, size));
    }
  }
}

// Names that mean something to a terminal, a page, a shell, a spreadsheet or a query.
void HostileNames(TrainingTrace* made) {
  const char* const kNames[] = {"\x1b]0;x\x07",
                                "<script>alert(1)</script>",
                                "=1+1",
                                "'; DROP TABLE events; --",
                                "../../etc/passwd",
                                "%n%s",
                                "\xef\xbf\xbe",
                                "$(id)"};
  TraceBuilder& builder = made->builder();
  builder.header().set_program(kNames[0]);
  builder.header().add_command_line(kNames[1]);
  for (const char* name : kNames) {
    const uint64_t stack = builder.PythonStack({{name, name, 3}, {"f", std::string(5000, 'x'), 1}});
    builder.TorchAlloc(kBase + builder.event_count() * kMiB, kMiB, stack);
    EventRow mark = Row(trace::MARK, 0, 0);
    mark.layer = trace::LAYER_UNSPECIFIED;
    mark.text = builder.String(name);
    builder.Event(mark);
  }
}

void Rank(TrainingTrace* made, uint32_t rank) {
  made->builder().header().set_rank(rank);
  made->builder().header().set_world_size(4);
  made->builder().header().set_local_rank(rank);
  Training(made, rank == 3);
}

void TwoDevices(TrainingTrace* made) {
  TraceBuilder& builder = made->builder();
  builder.Device(1, "Another GPU", uint64_t{8} << 30);
  for (int i = 0; i < 50; ++i) {
    const auto size = static_cast<uint64_t>(i + 1) * 4096;
    builder.CudaAlloc(kBase + static_cast<uint64_t>(i) * kMiB, size, builder.NativeStack({0x401000, 0x402000}), i % 2);
  }
}

// One of 15 kinds of programs.
std::string Good(size_t kind, trace::Codec codec) {
  TrainingTrace made;
  TraceBuilder& builder = made.builder();
  if (kind >= 9 && kind <= 12) builder.header().set_pid(100 + static_cast<uint32_t>(kind));
  builder.Compress(codec);
  builder.Device(0, "GPU", uint64_t{1} << 30).Thread(4242, "main");
  switch (kind) {
    case 0:
      EveryKind(&made);
      break;
    case 1:
      Training(&made, false);
      break;
    case 2:
      Training(&made, true);
      break;
    case 3:
      OutOfMemory(&made);
      break;
    case 4:
      Stages(&made);
      break;
    case 5:
      Churn(&made, 1);
      break;
    case 6:
      Churn(&made, 2);
      break;
    case 7:
      HostileNames(&made);
      break;
    case 8:
      TwoDevices(&made);
      break;
    case 13:
      Training(&made, true);
      return builder.Bytes();  // of a killed process
    case 14:
      break;  // of one that used no memory
    default:
      Rank(&made, static_cast<uint32_t>(kind - 9));
      break;
  }
  return builder.Losses({}).End().Bytes();
}

void Damage(std::mt19937_64* chance, std::string* bytes) {
  if (bytes->empty()) return;
  const size_t at = (*chance)() % bytes->size(), count = 1 + (*chance)() % 16;
  switch ((*chance)() % 6) {
    case 0:
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << (count % 8)));
      break;
    case 1:
      (*bytes)[at] = '\xff';
      break;
    case 2:
      bytes->replace(at, std::min(count, bytes->size() - at), std::min(count, bytes->size() - at), '\xff');
      break;
    case 3:
      bytes->replace(at, std::min(count, bytes->size() - at), std::min(count, bytes->size() - at), '\0');
      break;
    case 4:
      bytes->erase(at, count);
      break;
    default:
      bytes->insert(at, bytes->substr((*chance)() % bytes->size(), count));
      break;
  }
}

std::string Hostile(size_t number) {
  std::mt19937_64 chance(number);
  std::string bytes = Good(number % 15, kCodecs[number % 7 == 0 ? 1 + number % 3 : 0]);
  if (number % 5 == 4) bytes.resize(chance() % bytes.size());
  for (size_t left = 1 + chance() % 12; left > 0; --left) Damage(&chance, &bytes);
  if (number % 4 != 3) gpumem::testing::GiveRightChecksums(&bytes);
  return bytes;
}

bool Write(const std::string& folder, size_t number, const std::string& bytes) {
  const std::string path = absl::StrFormat("%s/%02d.gmtrace", folder, number);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) std::fprintf(stderr, "made_traces: %s cannot be written\n", path.c_str());
  return file.good();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: made_traces FOLDER\n");
    return 2;
  }
  const std::string good = std::string(argv[1]) + "/good", hostile = std::string(argv[1]) + "/hostile";
  std::filesystem::create_directories(good);
  std::filesystem::create_directories(hostile);
  const std::vector<gpumem::testing::Bomb> bombs = gpumem::testing::MakeBombs();
  bool ok = true;
  for (size_t number = 0; number < kTraces; ++number) {
    ok = Write(good, number, Good(number % 15, kCodecs[number / 15])) && ok;
    const bool is_bomb = number % 8 == 7 && number / 8 < bombs.size();  // BombTest has all of them
    ok = Write(hostile, number, is_bomb ? bombs[number / 8].bytes : Hostile(number)) && ok;
  }
  return ok ? 0 : 1;
}
