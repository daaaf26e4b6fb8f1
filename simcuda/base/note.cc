// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/base/note.h"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "simcuda/base/environment.h"

namespace simcuda {

void NoteUnsupported(const char* library, const char* function, std::atomic<bool>* reported) {
  if (!GetEnvironment().verbose || reported->exchange(true, std::memory_order_relaxed)) return;
  PrintLine("%s: %s is not simulated, returns 801", library, function);
}

void PrintLine(const char* format, ...) {
  char line[512] = "simcuda: ";
  constexpr int kPrefix = 9;
  std::va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line + kPrefix, sizeof line - kPrefix - 1, format, arguments);
  va_end(arguments);
  const int end = kPrefix + std::min<int>(std::max(length, 0), static_cast<int>(sizeof line) - kPrefix - 2);
  line[end] = '\n';
  if (::write(STDERR_FILENO, line, static_cast<size_t>(end) + 1) < 0) return;  // nobody listens
}

namespace {

struct Entry {
  int code;
  const char* text;
};

constexpr Entry kTexts[] = {
    {0, "no error"},
    {1, "invalid argument"},
    {2, "out of memory"},
    {3, "initialization error"},
    {4, "driver shutting down"},
    {9, "invalid configuration argument"},
    {13, "invalid device symbol"},
    {21, "invalid copy direction for memcpy"},
    {34, "API call is a stub library"},
    {35, "CUDA driver version is insufficient for CUDA runtime version"},
    {98, "invalid device function"},
    {100, "no CUDA-capable device is detected"},
    {101, "invalid device ordinal"},
    {200, "device kernel image is invalid"},
    {201, "invalid device context"},
    {208, "resource already mapped"},
    {209, "no kernel image is available for execution on the device"},
    {218, "a PTX JIT compilation failed"},
    {304, "OS call failed or operation not supported on this OS"},
    {400, "invalid resource handle"},
    {401, "the operation cannot be performed in the present state"},
    {500, "named symbol not found"},
    {600, "device not ready"},
    {700, "an illegal memory access was encountered"},
    {701, "too many resources requested for launch"},
    {704, "peer access is already enabled"},
    {705, "peer access has not been enabled"},
    {709, "context is destroyed"},
    {710, "device-side assert triggered"},
    {712, "part or all of the requested memory range is already mapped"},
    {713, "pointer does not correspond to a registered memory region"},
    {719, "unspecified launch failure"},
    {800, "operation not permitted"},
    {801, "operation not supported"},
    {900, "operation not permitted when stream is capturing"},
    {901, "operation failed due to a previous error during capture"},
    {902, "operation would result in a merge of separate capture sequences"},
    {903, "capture was not ended in the same stream as it began"},
    {907, "operation not permitted on an event last recorded in a capturing stream"},
    {908, "attempt to terminate a thread-local capture sequence from another thread"},
    {999, "unknown error"},
};

}  // namespace

const char* ErrorText(int code) {
  for (const Entry& entry : kTexts) {
    if (entry.code == code) return entry.text;
  }
  return nullptr;
}

}  // namespace simcuda
