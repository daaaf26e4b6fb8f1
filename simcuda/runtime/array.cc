// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Arrays and mipmapped arrays; as in the real runtime, every kind of array is the driver's three-dimensional one.
#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only

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
