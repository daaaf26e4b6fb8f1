// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as what `gpumemshim import` takes: refused with a message, or made into a trace that reads without damage.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
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
  // SQLite opens files by their names.
  static const std::string path =
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/import_fuzz.", getpid());
  static const int input = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  static const int output = memfd_create("output", MFD_CLOEXEC);
  static const bool removes = std::atexit([] { unlink(path.c_str()); }) == 0;
  if (!removes || !Fill(input, absl::string_view(reinterpret_cast<const char*>(data), size))) return 0;
  std::string trace;
  const auto result = gpumem::ImportFile(path, [&](absl::string_view bytes) {
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
