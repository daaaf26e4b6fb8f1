// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/error_text.h"

namespace simcuda {
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
