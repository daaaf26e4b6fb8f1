// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuBLAS's handles: what is set is what is read back. The work itself is in the generated stubs and does nothing.
//
// Thread-safety: as the real library, a handle is one thread's. Failure mode: out of host memory gives status 3
// (CUBLAS_STATUS_ALLOC_FAILED), a null handle 1 (CUBLAS_STATUS_NOT_INITIALIZED).
#include "stub.h"

namespace {

enum Status { kSuccess = 0, kNotInitialized = 1, kAllocFailed = 3, kInvalidValue = 7 };
constexpr int kVersion = STUB_CUDA_MAJOR == 12 ? 120900 : 130100;  // of CUDA 12.9 and 13.0

struct Handle {
  void* stream;
  int math_mode;
  int pointer_mode;
  uint64_t memory;  // what the library takes for itself; 0: nothing
};

template <typename T>
int Get(const void* handle, T Handle::*field, T* out) {
  if (handle == nullptr) return kNotInitialized;
  if (out == nullptr) return kInvalidValue;
  *out = static_cast<const Handle*>(handle)->*field;
  return kSuccess;
}

template <typename T>
int Set(void* handle, T Handle::*field, T value) {
  if (handle == nullptr) return kNotInitialized;
  static_cast<Handle*>(handle)->*field = value;
  return kSuccess;
}

}  // namespace

STUB_API int cublasCreate_v2(void** handle) {
  if (handle == nullptr) return kNotInitialized;
  *handle = stub_handle();
  if (*handle == nullptr) return kAllocFailed;
  const size_t bytes = stub_workspace("SIMCUDA_CUBLAS_HANDLE", "cuBLAS", nullptr, "handle", "", SIMCUDA_NO_BOUND);
  if (bytes == 0) return kSuccess;
  const auto allocate = reinterpret_cast<int (*)(uint64_t*, size_t)>(stub_driver("cuMemAlloc_v2"));
  if (allocate != nullptr && allocate(&static_cast<Handle*>(*handle)->memory, bytes) == kSuccess) return kSuccess;
  stub_release(*handle);
  *handle = nullptr;
  return kAllocFailed;
}

STUB_API int cublasDestroy_v2(void* handle) {
  if (handle == nullptr) return kNotInitialized;
  const auto release = reinterpret_cast<int (*)(uint64_t)>(stub_driver("cuMemFree_v2"));
  if (const uint64_t memory = static_cast<Handle*>(handle)->memory; memory != 0 && release != nullptr) release(memory);
  stub_release(handle);
  return kSuccess;
}

STUB_API int cublasSetStream_v2(void* handle, void* stream) { return Set(handle, &Handle::stream, stream); }
STUB_API int cublasGetStream_v2(void* handle, void** stream) { return Get(handle, &Handle::stream, stream); }
STUB_API int cublasSetMathMode(void* handle, int mode) { return Set(handle, &Handle::math_mode, mode); }
STUB_API int cublasGetMathMode(void* handle, int* mode) { return Get(handle, &Handle::math_mode, mode); }
STUB_API int cublasSetPointerMode_v2(void* handle, int mode) { return Set(handle, &Handle::pointer_mode, mode); }
STUB_API int cublasGetPointerMode_v2(void* handle, int* mode) { return Get(handle, &Handle::pointer_mode, mode); }

// The caller's workspace: PyTorch sizes and allocates it itself.
STUB_API int cublasSetWorkspace_v2(void* handle, void*, size_t) {
  return handle == nullptr ? kNotInitialized : kSuccess;
}

STUB_API int cublasGetVersion_v2(void*, int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = kVersion;
  return kSuccess;
}

STUB_API int cublasGetProperty(int type, int* value) {  // 0 major, 1 minor, 2 patch level
  if (value == nullptr || type < 0 || type > 2) return kInvalidValue;
  const int parts[] = {kVersion / 10000, kVersion / 100 % 100, kVersion % 100};
  *value = parts[type];
  return kSuccess;
}

STUB_API size_t cublasGetCudartVersion() { return STUB_CUDA_MAJOR * 1000; }
STUB_API const char* cublasGetStatusName(int status) {
  return status == kSuccess ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INTERNAL_ERROR";
}
STUB_API const char* cublasGetStatusString(int status) {
  return status == kSuccess ? "the operation completed successfully" : "simulated cuBLAS error";
}
