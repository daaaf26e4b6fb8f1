// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuDNN: version, errors, handles. The version is the one that torch 2.11.0 pins (9.19.0); SIMCUDA_CUDNN_VERSION
// (91900 and the like) reports another.
#include <stdio.h>
#include <string.h>

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

namespace {

// cuDNN's legacy API where it answers: tensor and filter descriptors are echoed, one algorithm fits every convolution,
// batch normalisation's spaces are measured ones, or at most a copy of its input (docs/workspaces.md). The workspaces
// of these convolutions are SIMCUDA_CUDNN_WS bytes, else not known: PyTorch goes by cudnn_backend.cc.
//
// Thread-safety: a descriptor is one thread's, as in the real library.

// cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t: the three share this layout.
struct AlgoPerf {
  int algo;
  int status;
  float time;
  size_t memory;
  int determinism;
  int math_type;
  int reserved[3];
};

size_t ConvolutionWorkspace() { return Workspace("convolution_legacy", "", SIMCUDA_NO_BOUND); }

int Create(void** out) {
  if (out == nullptr) return kBadParamNullPointer;
  *out = stub_handle();
  return *out == nullptr ? kHostAllocationFailed : kSuccess;
}

int Destroy(void* descriptor) {
  stub_release(descriptor);
  return kSuccess;
}

int Describe(void* descriptor, int type, int format, int rank, const int* dims, const int* strides) {
  if (descriptor == nullptr || dims == nullptr) return kBadParamNullPointer;
  if (rank < 0 || rank > kDimMax) return kBadParam;
  auto* tensor = static_cast<Tensor*>(descriptor);
  *tensor = Tensor{type, format, rank, {}, {}};
  int packed = 1;
  for (int i = rank - 1; i >= 0; --i) {
    tensor->dims[i] = dims[i];
    tensor->strides[i] = strides != nullptr ? strides[i] : packed;
    packed *= dims[i];
  }
  return kSuccess;
}

// Copies at most `requested` dimensions out; any output may be null.
int Report(const void* descriptor, int requested, int* type, int* format, int* rank, int* dims, int* strides) {
  if (descriptor == nullptr) return kBadParamNullPointer;
  const auto* tensor = static_cast<const Tensor*>(descriptor);
  if (type != nullptr) *type = tensor->type;
  if (format != nullptr) *format = tensor->format;
  if (rank != nullptr) *rank = tensor->rank;
  for (int i = 0; i < tensor->rank && i < requested; ++i) {
    if (dims != nullptr) dims[i] = tensor->dims[i];
    if (strides != nullptr) strides[i] = tensor->strides[i];
  }
  return kSuccess;
}

int OfferOneAlgorithm(int requested, int* returned, AlgoPerf* results) {
  if (requested < 1 || returned == nullptr || results == nullptr) return kBadParam;
  memset(results, 0, sizeof(*results));
  results->algo = 1;  // precomputed implicit GEMM, or "algorithm 1": deterministic in all three directions
  results->memory = ConvolutionWorkspace();
  results->determinism = 1;
  *returned = 1;
  return kSuccess;
}

int WriteSize(size_t* out, size_t value) {
  if (out == nullptr) return kBadParamNullPointer;
  *out = value;
  return kSuccess;
}

int WriteNormSize(const char* operation, const char* setting, int mode, int fused, const void* x, size_t* size) {
  if (x == nullptr || size == nullptr) return kBadParamNullPointer;
  const auto* tensor = static_cast<const Tensor*>(x);
  char text[128];
  TextLine line(text, sizeof(text));
  line.Add("%s x=", TypeName(tensor->type));
  line.AddNumbers(tensor->dims, tensor->rank);
  line.Add(" %s mode=%d fused=%d", LayoutName(*tensor), mode, fused);
  uint64_t bound = SizeOf(tensor->type) < 4 ? 4 : SizeOf(tensor->type);
  for (int i = 0; i < tensor->rank; ++i) bound *= static_cast<uint64_t>(tensor->dims[i]);
  return WriteSize(size, Workspace(operation, text, bound, setting));
}

}  // namespace

STUB_API int cudnnCreateTensorDescriptor(void** out) { return Create(out); }
STUB_API int cudnnDestroyTensorDescriptor(void* descriptor) { return Destroy(descriptor); }
STUB_API int cudnnSetTensorNdDescriptor(void* d, int type, int rank, const int* dims, const int* strides) {
  return Describe(d, type, 0, rank, dims, strides);
}
STUB_API int cudnnSetTensorNdDescriptorEx(void* d, int format, int type, int rank, const int* dims) {
  return Describe(d, type, format, rank, dims, nullptr);
}
STUB_API int cudnnSetTensor4dDescriptor(void* d, int format, int type, int n, int c, int h, int w) {
  const int dims[] = {n, c, h, w};
  return Describe(d, type, format, 4, dims, nullptr);
}
STUB_API int cudnnSetTensor4dDescriptorEx(void* d, int type, int n, int c, int h, int w, int sn, int sc, int sh,
                                          int sw) {
  const int dims[] = {n, c, h, w}, strides[] = {sn, sc, sh, sw};
  return Describe(d, type, 0, 4, dims, strides);
}
STUB_API int cudnnGetTensorNdDescriptor(void* d, int requested, int* type, int* rank, int* dims, int* strides) {
  return Report(d, requested, type, nullptr, rank, dims, strides);
}
STUB_API int cudnnGetTensorSizeInBytes(void* d, size_t* size) {
  if (d == nullptr) return kBadParamNullPointer;
  const auto* tensor = static_cast<const Tensor*>(d);
  size_t elements = tensor->rank > 0 ? 1 : 0;  // up to the last element that the strides reach
  for (int i = 0; i < tensor->rank; ++i) elements += static_cast<size_t>(tensor->dims[i] - 1) * tensor->strides[i];
  return WriteSize(size, elements * SizeOf(tensor->type));
}

STUB_API int cudnnCreateFilterDescriptor(void** out) { return Create(out); }
STUB_API int cudnnDestroyFilterDescriptor(void* descriptor) { return Destroy(descriptor); }
STUB_API int cudnnSetFilterNdDescriptor(void* d, int type, int format, int rank, const int* dims) {
  return Describe(d, type, format, rank, dims, nullptr);
}
STUB_API int cudnnSetFilter4dDescriptor(void* d, int type, int format, int k, int c, int h, int w) {
  const int dims[] = {k, c, h, w};
  return Describe(d, type, format, 4, dims, nullptr);
}
STUB_API int cudnnGetFilterNdDescriptor(void* d, int requested, int* type, int* format, int* rank, int* dims) {
  return Report(d, requested, type, format, rank, dims, nullptr);
}

STUB_API int cudnnCreateConvolutionDescriptor(void** out) { return Create(out); }
STUB_API int cudnnDestroyConvolutionDescriptor(void* descriptor) { return Destroy(descriptor); }
STUB_API int cudnnSetConvolutionNdDescriptor(void*, int, const int*, const int*, const int*, int, int) {
  return kSuccess;
}
STUB_API int cudnnSetConvolutionMathType(void*, int) { return kSuccess; }
STUB_API int cudnnSetConvolutionGroupCount(void*, int) { return kSuccess; }

STUB_API int cudnnFindConvolutionForwardAlgorithmEx(void*, void*, void*, void*, void*, void*, void*, void*,
                                                    int requested, int* returned, AlgoPerf* results, void*, size_t) {
  return OfferOneAlgorithm(requested, returned, results);
}
STUB_API int cudnnFindConvolutionBackwardDataAlgorithmEx(void*, void*, void*, void*, void*, void*, void*, void*,
                                                         int requested, int* returned, AlgoPerf* results, void*,
                                                         size_t) {
  return OfferOneAlgorithm(requested, returned, results);
}
STUB_API int cudnnFindConvolutionBackwardFilterAlgorithmEx(void*, void*, void*, void*, void*, void*, void*, void*,
                                                           int requested, int* returned, AlgoPerf* results, void*,
                                                           size_t) {
  return OfferOneAlgorithm(requested, returned, results);
}
STUB_API int cudnnGetConvolutionForwardAlgorithm_v7(void*, void*, void*, void*, void*, int requested, int* returned,
                                                    AlgoPerf* results) {
  return OfferOneAlgorithm(requested, returned, results);
}
STUB_API int cudnnGetConvolutionBackwardDataAlgorithm_v7(void*, void*, void*, void*, void*, int requested,
                                                         int* returned, AlgoPerf* results) {
  return OfferOneAlgorithm(requested, returned, results);
}
STUB_API int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void*, void*, void*, void*, void*, int requested,
                                                           int* returned, AlgoPerf* results) {
  return OfferOneAlgorithm(requested, returned, results);
}
STUB_API int cudnnGetConvolutionForwardWorkspaceSize(void*, void*, void*, void*, void*, int, size_t* size) {
  return WriteSize(size, ConvolutionWorkspace());
}
STUB_API int cudnnGetConvolutionBackwardDataWorkspaceSize(void*, void*, void*, void*, void*, int, size_t* size) {
  return WriteSize(size, ConvolutionWorkspace());
}
STUB_API int cudnnGetConvolutionBackwardFilterWorkspaceSize(void*, void*, void*, void*, void*, int, size_t* size) {
  return WriteSize(size, ConvolutionWorkspace());
}

STUB_API int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void*, int mode, int fused, void* x, void*, void*,
                                                                      void*, void*, size_t* size) {
  return WriteNormSize("batch_norm_forward", "SIMCUDA_CUDNN_BN_WS", mode, fused, x, size);
}
STUB_API int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void*, int mode, int fused, void* x, void*, void*, void*,
                                                               void*, void*, void*, size_t* size) {
  return WriteNormSize("batch_norm_backward", "SIMCUDA_CUDNN_BN_WS", mode, fused, x, size);
}
STUB_API int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void*, int mode, int fused, void*, void* x,
                                                                  size_t* size) {
  return WriteNormSize("batch_norm_reserve", "SIMCUDA_CUDNN_BN_RESERVE", mode, fused, x, size);
}

namespace {

struct Dropout {
  float share;
};

}  // namespace

float simcudnn::DropoutOf(const void* descriptor) {
  return descriptor == nullptr ? 0 : static_cast<const Dropout*>(descriptor)->share;
}

#ifndef STUB_CUDNN8
STUB_API int cudnnSetDropoutDescriptor(void* descriptor, void*, float share, void*, size_t, unsigned long long) {
  if (descriptor == nullptr) return kBadParamNullPointer;
  static_cast<Dropout*>(descriptor)->share = share;
  return kSuccess;
}
STUB_API int cudnnRestoreDropoutDescriptor(void* descriptor, void* handle, float share, void* states, size_t size,
                                           unsigned long long seed) {
  return cudnnSetDropoutDescriptor(descriptor, handle, share, states, size, seed);
}
#endif

// The random states of a dropout descriptor: never 0, since callers allocate and check it.
STUB_API int cudnnDropoutGetStatesSize(void*, size_t* size) {
  return WriteSize(size, stub_setting("SIMCUDA_CUDNN_DROPOUT_STATES", 4096));
}
