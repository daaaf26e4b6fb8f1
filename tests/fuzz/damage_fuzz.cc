// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A good trace, damaged as the input says (bits, holes, cuts, pieces moved or doubled, foreign bytes): the answer is
// that of the whole file, or says that something is wrong or missing. Never another number without a word.

#include <fuzzer/FuzzedDataProvider.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "replay/analyze.h"
#include "testing/trace_builder.h"

namespace {

constexpr uint64_t kSegment = 0x7f0000000000;

std::string WholeTrace(gpumem::trace::Codec codec) {
  gpumem::testing::TraceBuilder trace(10);
  trace.Compress(codec);
  trace.Device(0, "GPU", 1 << 30);
  const uint64_t stack = trace.PythonStack({{"f", "m.py", 7}, {"g", "m.py", 9}});
  trace.CudaAlloc(kSegment, 64 << 20, stack);
  for (uint64_t i = 0; i < 60; ++i) {
    trace.TorchAlloc(kSegment + i * 4096, 4096 + 512 * (i % 3), stack);
    if (i % 3 == 2) trace.TorchFree(kSegment + (i - 2) * 4096, 4096);
  }
  return trace.Losses({}).End().Bytes();
}

std::string Say(const gpumem::Analysis& analysis) {
  std::string text = absl::StrCat(analysis.events.torch, " ", analysis.events.runtime, " ", analysis.process.pid);
  for (const gpumem::DeviceAnalysis& device : analysis.devices) {
    absl::StrAppend(&text, "\n", device.name, " ", device.peak_allocated.bytes, " ", device.peak_reserved.bytes, " ",
                    device.end.allocated, " ", device.leaks.unknown_frees);
    for (const gpumem::StackUse& use : device.at_peak_allocated.stacks)
      absl::StrAppend(&text, " ", use.stack_id, ":", use.bytes);
  }
  return text;
}

absl::StatusOr<gpumem::Analysis> Read(const std::string& bytes) {
  static const int file = memfd_create("fuzz", MFD_CLOEXEC);
  if (ftruncate(file, 0) != 0 || pwrite(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  return gpumem::Analyze(absl::StrCat("/proc/self/fd/", file));
}

void Damage(FuzzedDataProvider* input, std::string* bytes) {
  if (bytes->empty()) return;
  const size_t at = input->ConsumeIntegralInRange<size_t>(0, bytes->size() - 1);
  const size_t size = input->ConsumeIntegralInRange<size_t>(0, bytes->size() - at);
  const size_t to = input->ConsumeIntegralInRange<size_t>(0, bytes->size());
  const std::string piece = bytes->substr(at, size);
  switch (input->ConsumeIntegralInRange<int>(0, 6)) {
    case 0:
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << (size % 8)));
      break;
    case 1:
      bytes->replace(at, size, size, '\0');
      break;
    case 2:
      bytes->erase(at, size);
      break;
    case 3:
      bytes->insert(to, piece);
      break;
    case 4:
      bytes->erase(at, size);
      bytes->insert(to % (bytes->size() + 1), piece);
      break;
    case 5:
      bytes->insert(at, input->ConsumeRandomLengthString(64));
      break;
    default:
      bytes->resize(at);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr gpumem::trace::Codec kCodecs[] = {gpumem::trace::CODEC_NONE, gpumem::trace::CODEC_LZ4_BLOCK,
                                              gpumem::trace::CODEC_LZ4_CHAINED};
  static const std::string wholes[] = {WholeTrace(kCodecs[0]), WholeTrace(kCodecs[1]), WholeTrace(kCodecs[2])};
  static const std::string truth = Say(*Read(wholes[0]));
  FuzzedDataProvider input(data, size);
  std::string bytes = wholes[input.ConsumeIntegralInRange<int>(0, 2)];
  for (int left = input.ConsumeIntegralInRange<int>(1, 4); left > 0; --left) Damage(&input, &bytes);
  const absl::StatusOr<gpumem::Analysis> analysis = Read(bytes);
  if (!analysis.ok() || !analysis->damage.empty() || !analysis->complete) return 0;
  if (Say(*analysis) != truth) std::abort();
  return 0;
}
