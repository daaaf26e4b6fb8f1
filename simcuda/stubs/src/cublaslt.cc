// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuBLASLt: descriptors, and a heuristic that always offers one algorithm which needs no workspace.
//
// PyTorch allocates the workspace that its own preference names before it asks, so that memory is accounted for.
// Thread-safety: stateless. Failure mode: CUBLAS_STATUS_INVALID_VALUE (7) for null outputs.
#include <string.h>

#include "stub.h"

namespace {

enum Status { kSuccess = 0, kAllocFailed = 3, kInvalidValue = 7 };

// The layout that the public documentation gives cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  uint64_t algo[8];
  size_t workspace_size;
  int state;
  float waves_count;
  int reserved[4];
};

int Create(void** out) {
  if (out == nullptr) return kInvalidValue;
  *out = stub_handle();
  return *out == nullptr ? kAllocFailed : kSuccess;
}

int Destroy(void* descriptor) {
  stub_release(descriptor);
  return kSuccess;
}

}  // namespace

STUB_API int cublasLtCreate(void** handle) { return Create(handle); }
STUB_API int cublasLtDestroy(void* handle) { return Destroy(handle); }
STUB_API int cublasLtMatmulDescCreate(void** out, int, int) { return Create(out); }
STUB_API int cublasLtMatmulDescDestroy(void* descriptor) { return Destroy(descriptor); }
STUB_API int cublasLtMatrixLayoutCreate(void** out, int, uint64_t, uint64_t, int64_t) { return Create(out); }
STUB_API int cublasLtMatrixLayoutDestroy(void* layout) { return Destroy(layout); }
STUB_API int cublasLtMatmulPreferenceCreate(void** out) { return Create(out); }
STUB_API int cublasLtMatmulPreferenceDestroy(void* preference) { return Destroy(preference); }

STUB_API int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int requested,
                                            HeuristicResult* results, int* returned) {
  if (requested < 1 || results == nullptr || returned == nullptr) return kInvalidValue;
  memset(results, 0, sizeof(*results));
  results->waves_count = 1;
  *returned = 1;
  return kSuccess;
}

STUB_API int cublasLtMatmulAlgoGetIds(void*, int, int, int, int, int, int, int requested, int* ids, int* returned) {
  if (requested < 1 || ids == nullptr || returned == nullptr) return kInvalidValue;
  ids[0] = 0;
  *returned = 1;
  return kSuccess;
}

STUB_API int cublasLtMatmulAlgoCheck(void*, void*, void*, void*, void*, void*, void*, HeuristicResult* result) {
  if (result == nullptr) return kInvalidValue;
  memset(result, 0, sizeof(*result));
  return kSuccess;
}

STUB_API size_t cublasLtGetVersion() { return STUB_CUDA_MAJOR == 12 ? 120900 : 130100; }
STUB_API size_t cublasLtGetCudartVersion() { return STUB_CUDA_MAJOR * 1000; }
STUB_API const char* cublasLtGetStatusName(int) { return "CUBLAS_STATUS"; }
STUB_API const char* cublasLtGetStatusString(int) { return "simulated cuBLASLt"; }
STUB_API int cublasLtGetProperty(int type, int* value) {
  if (value == nullptr || type < 0 || type > 2) return kInvalidValue;
  const int parts[] = {STUB_CUDA_MAJOR, STUB_CUDA_MAJOR == 12 ? 9 : 1, 0};
  *value = parts[type];
  return kSuccess;
}
