// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Copies and fills.
#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

cudaError_t Copy2D(void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width,
                   size_t height, cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  if (width > target_pitch || width > source_pitch) return Fail(cudaErrorInvalidPitchValue);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = Pointer(source);
  copy.dstDevice = Pointer(target);
  copy.srcPitch = source_pitch;
  copy.dstPitch = target_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return Check(Driver().cuMemcpy2DAsync(&copy, stream));
}

cudaError_t Copy3D(const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  if (parameters == nullptr) return Fail(cudaErrorInvalidValue);
  if (parameters->srcArray != nullptr || parameters->dstArray != nullptr) return cudaSuccess;  // arrays hold nothing
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = Pointer(parameters->srcPtr.ptr);
  copy.dstDevice = Pointer(parameters->dstPtr.ptr);
  copy.srcPitch = parameters->srcPtr.pitch;
  copy.dstPitch = parameters->dstPtr.pitch;
  copy.srcHeight = parameters->srcPtr.ysize;
  copy.dstHeight = parameters->dstPtr.ysize;
  copy.srcXInBytes = parameters->srcPos.x;
  copy.srcY = parameters->srcPos.y;
  copy.srcZ = parameters->srcPos.z;
  copy.dstXInBytes = parameters->dstPos.x;
  copy.dstY = parameters->dstPos.y;
  copy.dstZ = parameters->dstPos.z;
  copy.WidthInBytes = parameters->extent.width;
  copy.Height = parameters->extent.height;
  copy.Depth = parameters->extent.depth;
  return Check(Driver().cuMemcpy3DAsync(&copy, stream));
}

bool IsDirection(cudaMemcpyKind kind) { return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault; }

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* target, const void* source, size_t size, cudaMemcpyKind kind) {
  if (!IsDirection(kind)) return Fail(cudaErrorInvalidMemcpyDirection);
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemcpy(Pointer(target), Pointer(source), size));
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!IsDirection(kind)) return Fail(cudaErrorInvalidMemcpyDirection);
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemcpyAsync(Pointer(target), Pointer(source), size, stream));
}

cudaError_t cudaMemcpyPeerAsync(void* target, int, const void* source, int, size_t size, cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemcpyPeerAsync(Pointer(target), nullptr, Pointer(source), nullptr, size, stream));
}

cudaError_t cudaMemcpyPeer(void* target, int target_device, const void* source, int source_device, size_t size) {
  return cudaMemcpyPeerAsync(target, target_device, source, source_device, size, nullptr);
}

cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
  return Copy2D(target, target_pitch, source, source_pitch, width, height, stream);
}

cudaError_t cudaMemcpy2D(void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width,
                         size_t height, cudaMemcpyKind) {
  return Copy2D(target, target_pitch, source, source_pitch, width, height, nullptr);
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
  return Copy3D(parameters, stream);
}
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters) { return Copy3D(parameters, nullptr); }

cudaError_t cudaMemset(void* target, int value, size_t size) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemsetD8(Pointer(target), static_cast<unsigned char>(value), size));
}

cudaError_t cudaMemsetAsync(void* target, int value, size_t size, cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMemsetD8Async(Pointer(target), static_cast<unsigned char>(value), size, stream));
}

cudaError_t cudaMemset2DAsync(void* target, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  return Check(
      Driver().cuMemsetD2D8Async(Pointer(target), pitch, static_cast<unsigned char>(value), width, height, stream));
}

cudaError_t cudaMemset2D(void* target, size_t pitch, int value, size_t width, size_t height) {
  return cudaMemset2DAsync(target, pitch, value, width, height, nullptr);
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr target, int value, cudaExtent extent, cudaStream_t stream) {
  return cudaMemset2DAsync(target.ptr, target.pitch, value, extent.width, extent.height * extent.depth, stream);
}

cudaError_t cudaMemset3D(cudaPitchedPtr target, int value, cudaExtent extent) {
  return cudaMemset3DAsync(target, value, extent, nullptr);
}

}  // extern "C"

// Arrays and mipmapped arrays; as in the real runtime, every kind of array is the driver's three-dimensional one.

namespace simcuda {

bool DescribeArray(const cudaChannelFormatDesc* format, const cudaExtent& extent, unsigned flags,
                   CUDA_ARRAY3D_DESCRIPTOR* shape) {
  if (format == nullptr || extent.width == 0) return false;
  const int bits = format->x;
  const unsigned channels =
      static_cast<unsigned>((format->x > 0) + (format->y > 0) + (format->z > 0) + (format->w > 0));
  const bool is_float = format->f == cudaChannelFormatKindFloat;
  const bool is_signed = format->f == cudaChannelFormatKindSigned;
  *shape = {};
  if (is_float) {
    shape->Format = bits == 16 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
  } else if (bits == 8) {
    shape->Format = is_signed ? CU_AD_FORMAT_SIGNED_INT8 : CU_AD_FORMAT_UNSIGNED_INT8;
  } else if (bits == 16) {
    shape->Format = is_signed ? CU_AD_FORMAT_SIGNED_INT16 : CU_AD_FORMAT_UNSIGNED_INT16;
  } else {
    shape->Format = is_signed ? CU_AD_FORMAT_SIGNED_INT32 : CU_AD_FORMAT_UNSIGNED_INT32;
  }
  shape->Width = extent.width;
  shape->Height = extent.height;
  shape->Depth = extent.depth;
  shape->NumChannels = channels;
  shape->Flags = flags;
  const bool supported = format->f == cudaChannelFormatKindFloat || format->f == cudaChannelFormatKindSigned ||
                         format->f == cudaChannelFormatKindUnsigned;
  return supported && channels > 0;
}

}  // namespace simcuda

extern "C" {

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* format, cudaExtent extent,
                              unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR shape;
  if (array == nullptr || !DescribeArray(format, extent, flags, &shape)) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuArray3DCreate(reinterpret_cast<CUarray*>(array), &shape));
}

cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* format, size_t width, size_t height,
                            unsigned flags) {
  return cudaMalloc3DArray(array, format, {width, height, 0}, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array) {
  SIMCUDA_NEED_CONTEXT();
  if (array == nullptr) return cudaSuccess;
  return Check(Driver().cuArrayDestroy(reinterpret_cast<CUarray>(array)));
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* array, const cudaChannelFormatDesc* format,
                                     cudaExtent extent, unsigned levels, unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR shape;
  if (array == nullptr || !DescribeArray(format, extent, flags, &shape)) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(array), &shape, levels));
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  SIMCUDA_NEED_CONTEXT();
  if (array == nullptr) return cudaSuccess;
  return Check(Driver().cuMipmappedArrayDestroy(reinterpret_cast<CUmipmappedArray>(array)));
}

cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* level_array, cudaMipmappedArray_const_t array, unsigned level) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuMipmappedArrayGetLevel(
      reinterpret_cast<CUarray*>(level_array),
      reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray*>(array)), level));
}

}  // extern "C"
