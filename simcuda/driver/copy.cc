// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Copies and fills. Captured ones become graph nodes and move nothing, then and at the graph's launch.
#include <cstring>

#include "include/gpumemshim.h"
#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// One row or block at a time: addresses are unified, so host and device need no telling apart.
struct Block {
  uint64_t target, source;
  size_t target_pitch, source_pitch;
  size_t width, height;
};

bool IsKnown(Machine* machine, const Block& block) {
  if (block.source_pitch == block.width) return machine->IsKnown(block.source, block.width * block.height);
  for (size_t row = 0; row < block.height; ++row) {
    if (!machine->IsKnown(block.source + row * block.source_pitch, block.width)) return false;
  }
  return true;
}

CUresult Copy(const Block& block, CUstream stream) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  bool captured = false;
  if (const CUresult result = Enqueue(stream, CU_GRAPH_NODE_TYPE_MEMCPY, &captured); result != CUDA_SUCCESS)
    return result;
  if (captured || block.width == 0 || block.height == 0) return CUDA_SUCCESS;
  if (block.target == 0 || block.source == 0) return CUDA_ERROR_INVALID_VALUE;
  WatchProgress(0);
  Machine& machine = GetSimulation()->machine;
  if (machine.addresses.Contains(block.source) && !machine.addresses.Contains(block.target)) {
    const bool is_near_end = WatchRead();  // then it is to be seen who reads, whatever it is
    if (is_near_end || !IsKnown(&machine, block))
      gpumemshim_read(reinterpret_cast<const void*>(block.source), block.width * block.height);
  }
  const bool contiguous = block.target_pitch == block.width && block.source_pitch == block.width;
  if (contiguous) {
    machine.Copy(block.target, block.source, block.width * block.height);
    return CUDA_SUCCESS;
  }
  for (size_t row = 0; row < block.height; ++row) {
    machine.Copy(block.target + row * block.target_pitch, block.source + row * block.source_pitch, block.width);
  }
  return CUDA_SUCCESS;
}

CUresult Copy(uint64_t target, uint64_t source, size_t size, CUstream stream) {
  const bool reads_truth = size == 1 && LastKernelWasAnd() && GetSimulation() != nullptr &&
                           !GetSimulation()->machine.addresses.Contains(target) &&
                           GetSimulation()->machine.addresses.Contains(source) &&
                           !GetSimulation()->machine.IsKnown(source, size);
  const CUresult result = Copy({target, source, size, size, size, 1}, stream);
  // "All elements are true" is the answer that lets a program go on; the kernel that would say so did not run.
  if (result == CUDA_SUCCESS && reads_truth) *reinterpret_cast<char*>(target) = 1;
  return result;
}

uint64_t Start(CUmemorytype type, const void* host, CUdeviceptr device) {
  return type == CU_MEMORYTYPE_HOST ? Address(host) : type == CU_MEMORYTYPE_ARRAY ? 0 : device;
}

CUresult Copy2D(const CUDA_MEMCPY2D* copy, CUstream stream) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool arrays = copy->srcMemoryType == CU_MEMORYTYPE_ARRAY || copy->dstMemoryType == CU_MEMORYTYPE_ARRAY;
  if (arrays) return CheckContext();  // arrays have no contents
  const size_t source_pitch = copy->srcPitch != 0 ? copy->srcPitch : copy->WidthInBytes;
  const size_t target_pitch = copy->dstPitch != 0 ? copy->dstPitch : copy->WidthInBytes;
  const uint64_t source = Start(copy->srcMemoryType, copy->srcHost, copy->srcDevice);
  const uint64_t target = Start(copy->dstMemoryType, copy->dstHost, copy->dstDevice);
  return Copy(
      {target + copy->dstY * target_pitch + copy->dstXInBytes, source + copy->srcY * source_pitch + copy->srcXInBytes,
       target_pitch, source_pitch, copy->WidthInBytes, copy->Height},
      stream);
}

template <typename Parameters>
CUresult Copy3D(const Parameters* copy, CUstream stream) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool arrays = copy->srcMemoryType == CU_MEMORYTYPE_ARRAY || copy->dstMemoryType == CU_MEMORYTYPE_ARRAY;
  if (arrays) return CheckContext();
  const size_t source_pitch = copy->srcPitch != 0 ? copy->srcPitch : copy->WidthInBytes;
  const size_t target_pitch = copy->dstPitch != 0 ? copy->dstPitch : copy->WidthInBytes;
  const size_t source_rows = copy->srcHeight != 0 ? copy->srcHeight : copy->Height;
  const size_t target_rows = copy->dstHeight != 0 ? copy->dstHeight : copy->Height;
  const uint64_t source = Start(copy->srcMemoryType, copy->srcHost, copy->srcDevice) + copy->srcXInBytes;
  const uint64_t target = Start(copy->dstMemoryType, copy->dstHost, copy->dstDevice) + copy->dstXInBytes;
  for (size_t slice = 0; slice < copy->Depth; ++slice) {
    const size_t source_row = (copy->srcZ + slice) * source_rows + copy->srcY;
    const size_t target_row = (copy->dstZ + slice) * target_rows + copy->dstY;
    const CUresult result = Copy({target + target_row * target_pitch, source + source_row * source_pitch, target_pitch,
                                  source_pitch, copy->WidthInBytes, copy->Height},
                                 stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult Fill(CUdeviceptr target, uint32_t value, unsigned width, size_t count, CUstream stream) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  bool captured = false;
  if (const CUresult result = Enqueue(stream, CU_GRAPH_NODE_TYPE_MEMSET, &captured); result != CUDA_SUCCESS)
    return result;
  if (captured || count == 0) return CUDA_SUCCESS;
  if (target == 0 || target % width != 0) return CUDA_ERROR_INVALID_VALUE;
  GetSimulation()->machine.Fill(target, value, width, count);
  return CUDA_SUCCESS;
}

CUresult Fill2D(CUdeviceptr target, size_t pitch, uint32_t value, unsigned width, size_t columns, size_t rows,
                CUstream stream) {
  for (size_t row = 0; row < rows; ++row) {
    const CUresult result = Fill(target + row * pitch, value, width, columns, stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemcpy(CUdeviceptr target, CUdeviceptr source, size_t size) { return Copy(target, source, size, nullptr); }
CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream) {
  return Copy(target, source, size, stream);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void* source, size_t size) {
  return Copy(target, Address(source), size, nullptr);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void* source, size_t size, CUstream stream) {
  return Copy(target, Address(source), size, stream);
}
CUresult cuMemcpyDtoH_v2(void* target, CUdeviceptr source, size_t size) {
  return Copy(Address(target), source, size, nullptr);
}
CUresult cuMemcpyDtoHAsync_v2(void* target, CUdeviceptr source, size_t size, CUstream stream) {
  return Copy(Address(target), source, size, stream);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t size) {
  return Copy(target, source, size, nullptr);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream) {
  return Copy(target, source, size, stream);
}
CUresult cuMemcpyPeer(CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext, size_t size) {
  return Copy(target, source, size, nullptr);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext, size_t size, CUstream stream) {
  return Copy(target, source, size, stream);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) { return Copy2D(copy, nullptr); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) { return Copy2D(copy, nullptr); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) { return Copy2D(copy, stream); }
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) { return Copy3D(copy, nullptr); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) { return Copy3D(copy, stream); }
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) { return Copy3D(copy, nullptr); }
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) { return Copy3D(copy, stream); }

// Arrays have no contents.
CUresult cuMemcpyHtoA_v2(CUarray, size_t, const void*, size_t) { return CheckContext(); }
CUresult cuMemcpyDtoA_v2(CUarray, size_t, CUdeviceptr, size_t) { return CheckContext(); }
CUresult cuMemcpyAtoD_v2(CUdeviceptr target, CUarray, size_t, size_t size) { return Fill(target, 0, 1, size, nullptr); }
CUresult cuMemcpyAtoH_v2(void* target, CUarray, size_t, size_t size) {
  std::memset(target, 0, size);
  return CheckContext();
}

CUresult cuMemsetD8_v2(CUdeviceptr target, unsigned char value, size_t count) {
  return Fill(target, value, 1, count, nullptr);
}
CUresult cuMemsetD16_v2(CUdeviceptr target, unsigned short value, size_t count) {
  return Fill(target, value, 2, count, nullptr);
}
CUresult cuMemsetD32_v2(CUdeviceptr target, unsigned value, size_t count) {
  return Fill(target, value, 4, count, nullptr);
}
CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
  return Fill(target, value, 1, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr target, unsigned short value, size_t count, CUstream stream) {
  return Fill(target, value, 2, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count, CUstream stream) {
  return Fill(target, value, 4, count, stream);
}
CUresult cuMemsetD2D8_v2(CUdeviceptr target, size_t pitch, unsigned char value, size_t columns, size_t rows) {
  return Fill2D(target, pitch, value, 1, columns, rows, nullptr);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr target, size_t pitch, unsigned short value, size_t columns, size_t rows) {
  return Fill2D(target, pitch, value, 2, columns, rows, nullptr);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr target, size_t pitch, unsigned value, size_t columns, size_t rows) {
  return Fill2D(target, pitch, value, 4, columns, rows, nullptr);
}
CUresult cuMemsetD2D8Async(CUdeviceptr target, size_t pitch, unsigned char value, size_t columns, size_t rows,
                           CUstream stream) {
  return Fill2D(target, pitch, value, 1, columns, rows, stream);
}
CUresult cuMemsetD2D16Async(CUdeviceptr target, size_t pitch, unsigned short value, size_t columns, size_t rows,
                            CUstream stream) {
  return Fill2D(target, pitch, value, 2, columns, rows, stream);
}
CUresult cuMemsetD2D32Async(CUdeviceptr target, size_t pitch, unsigned value, size_t columns, size_t rows,
                            CUstream stream) {
  return Fill2D(target, pitch, value, 4, columns, rows, stream);
}

}  // extern "C"
