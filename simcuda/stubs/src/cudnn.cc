// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuDNN: version, errors, handles. The version is the one that torch 2.11.0 pins (9.19.0); SIMCUDA_CUDNN_VERSION
// (91900 and the like) reports another.
#include <stdio.h>

#include "cudnn_types.h"
#include "stub.h"

using namespace simcudnn;

namespace {

#ifdef STUB_CUDNN8
constexpr size_t kVersion = 8902;
#else
constexpr size_t kVersion = 91900;
#endif

struct Handle {
  void* stream;
};

size_t Version() {
  const size_t version = stub_setting("SIMCUDA_CUDNN_VERSION", kVersion);
  return version < 1000 ? kVersion : version;
}

}  // namespace

size_t simcudnn::Workspace(const char* operation, const char* parameters, uint64_t bound, const char* setting) {
  char version[24];
  snprintf(version, sizeof(version), "%zu", Version());
  return stub_workspace(setting, "cuDNN", version, operation, parameters, bound);
}

STUB_API size_t cudnnGetVersion() { return Version(); }
STUB_API size_t cudnnGetMaxDeviceVersion() { return 1200; }
STUB_API size_t cudnnGetCudartVersion() { return 13000; }

STUB_API int cudnnGetProperty(int type, int* value) {  // 0 major, 1 minor, 2 patch level
  if (value == nullptr) return kBadParamNullPointer;
  if (type < 0 || type > 2) return kBadParam;
  const size_t version = Version();
  const size_t thousands = version < 10000 ? 1000 : 10000;  // cuDNN 8 counts otherwise
  const size_t parts[] = {version / thousands, version % thousands / 100, version % 100};
  *value = static_cast<int>(parts[type]);
  return kSuccess;
}

STUB_API const char* cudnnGetErrorString(int status) {
#ifdef STUB_CUDNN8
  if (status == 9) {
    return "CUDNN_STATUS_NOT_SUPPORTED: recurrent nets of cuDNN 8 are not simulated. Use PyTorch 2.4 or newer, which "
           "has "
           "cuDNN 9, or torch.backends.cudnn.enabled = False";
  }
#endif
  return status == kSuccess ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_BAD_PARAM (simulated cuDNN)";
}

STUB_API void cudnnGetLastErrorString(char* message, size_t max_size) {
  if (message != nullptr && max_size > 0) message[0] = '\0';
}

STUB_API int cudnnCreate(void** handle) {
  if (handle == nullptr) return kBadParamNullPointer;
  *handle = stub_handle();
  return *handle == nullptr ? kHostAllocationFailed : kSuccess;
}

STUB_API int cudnnDestroy(void* handle) {
  stub_release(handle);
  return kSuccess;
}

STUB_API int cudnnSetStream(void* handle, void* stream) {
  if (handle == nullptr) return kBadParamNullPointer;
  static_cast<Handle*>(handle)->stream = stream;
  return kSuccess;
}

STUB_API int cudnnGetStream(void* handle, void** stream) {
  if (handle == nullptr || stream == nullptr) return kBadParamNullPointer;
  *stream = static_cast<Handle*>(handle)->stream;
  return kSuccess;
}
