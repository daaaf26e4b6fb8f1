// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as what `gpumemshim import` takes: refused with a message, or made into a trace that reads without damage.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "import/import.h"
#include "replay/analyze.h"

namespace {

bool Fill(int file, absl::string_view bytes) {
  return ftruncate(file, 0) == 0 && pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int input = memfd_create("input", MFD_CLOEXEC), output = memfd_create("output", MFD_CLOEXEC);
  if (!Fill(input, absl::string_view(reinterpret_cast<const char*>(data), size))) return 0;
  std::string trace;
  const auto result = gpumem::ImportFile(absl::StrCat("/proc/self/fd/", input), [&](absl::string_view bytes) {
    trace.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  });
  if (!result.ok()) {
    if (result.status().message().empty()) std::abort();
    return 0;
  }
  if (!Fill(output, trace)) return 0;
  gpumem::StackTable stacks;
  const auto analysis = gpumem::Analyze(absl::StrCat("/proc/self/fd/", output), {}, &stacks);
  if (!analysis.ok() || !analysis->damage.empty()) std::abort();  // what we write ourselves must be whole
  for (const gpumem::DeviceAnalysis& device : analysis->devices) {
    if (device.at_peak_allocated.bytes != device.peak_allocated.bytes) std::abort();  // and be found again
  }
  return 0;
}
