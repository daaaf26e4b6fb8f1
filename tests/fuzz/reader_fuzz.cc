// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as a trace file: read, replayed and answered without a crash. The input's first byte chooses whether
// packets get correct checksums first: without that the checksum would hide everything behind it from the fuzzer.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "replay/analyze.h"
#include "testing/right_checksums.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if ((data[0] & 1) == 0) gpumem::testing::GiveRightChecksums(&bytes);
  static const int file = memfd_create("fuzz", MFD_CLOEXEC);
  if (ftruncate(file, 0) != 0 || pwrite(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return 0;
  gpumem::AnalyzeOptions options;
  options.layer = static_cast<gpumem::LayerFilter>((data[0] >> 1) & 3);
  gpumem::StackTable stacks;
  const auto analysis = gpumem::Analyze(absl::StrCat("/proc/self/fd/", file), options, &stacks);
  if (analysis.ok() && !analysis->devices.empty()) {
    for (const gpumem::StackUse& use : analysis->devices[0].at_peak_total.stacks) stacks.Frames(use.stack_id);
  }
  return 0;
}
