// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Calls every function of the driver that is hooked, each variant by its own name, and prints a line for each call:
//
//   <function> <kind of event that a success makes, or -> <result>
//
// Runs on the simulated driver, where what is not simulated fails, and on a fake that lets everything succeed.

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void* Find(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* found = driver == nullptr ? nullptr : dlsym(driver, name);
  if (found == nullptr) {
    std::fprintf(stderr, "coverage_driver: no %s\n", name);
    std::exit(1);
  }
  return found;
}

CUresult Say(const char* name, const char* kind, CUresult result) {
  std::printf("%s %s %d\n", name, kind, static_cast<int>(result));
  std::fflush(stdout);
  return result;
}

#define CALL(kind, name, ...) Say(#name, kind, reinterpret_cast<decltype(&::name)>(Find(#name))(__VA_ARGS__))

constexpr size_t kPiece = 2 << 20;

CUcontext UseContexts() {
  CUcontext primary = nullptr;
  CUcontext own = nullptr;
  CUgreenCtx green = nullptr;
  CALL("context_create", cuDevicePrimaryCtxRetain, &primary, 0);
  CALL("-", cuDevicePrimaryCtxRetain, &primary, 0);
  reinterpret_cast<decltype(&::cuCtxSetCurrent)>(Find("cuCtxSetCurrent"))(primary);
  if (CALL("context_create", cuCtxCreate, &own, 0, 0) == CUDA_SUCCESS) CALL("context_destroy", cuCtxDestroy, own);
  if (CALL("context_create", cuCtxCreate_v3, &own, nullptr, 0, 0, 0) == CUDA_SUCCESS) {
    CALL("context_destroy", cuCtxDestroy_v2, own);
  }
  if (CALL("context_create", cuCtxCreate_v4, &own, nullptr, 0, 0) == CUDA_SUCCESS) {
    CALL("context_destroy", cuCtxDestroy_v2, own);
  }
  if (CALL("context_create", cuCtxCreate_v2, &own, 0, 0) == CUDA_SUCCESS) {
    CUdeviceptr lost = 0;
    CALL("alloc", cuMemAlloc_v2, &lost, 3 * kPiece);  // goes with its context
    CALL("context_growth", cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, 64 << 20);
    CUcontext same = own;
    CALL("-", cuCtxAttach, &same, 0);
    CALL("-", cuCtxDetach, own);
    CALL("context_destroy", cuCtxDetach, own);
  }
  if (CALL("context_create", cuGreenCtxCreate, &green, nullptr, 0, 1) == CUDA_SUCCESS) {
    CALL("context_destroy", cuGreenCtxDestroy, green);
  }
  reinterpret_cast<decltype(&::cuCtxSetCurrent)>(Find("cuCtxSetCurrent"))(primary);
  CALL("-", cuDevicePrimaryCtxRelease, 0);
  return primary;
}

void UseModules() {
  static const char image[64] = ".version 8.0\n.target sm_90\n.address_size 64\n";
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  if (CALL("module_load", cuModuleLoadData, &module, image) == CUDA_SUCCESS)
    CALL("module_unload", cuModuleUnload, module);
  CALL("module_load", cuModuleLoad, &module, "/nowhere.cubin");
  CALL("module_load", cuModuleLoadDataEx, &module, image, 0, nullptr, nullptr);
  CALL("module_load", cuModuleLoadFatBinary, &module, image);
  CALL("module_load", cuLibraryLoadFromFile, &library, "/nowhere.cubin", nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (CALL("module_load", cuLibraryLoadData, &library, image, nullptr, nullptr, 0, nullptr, nullptr, 0) ==
      CUDA_SUCCESS) {
    CALL("module_unload", cuLibraryUnload, library);
  }
}

// Each needs a kernel, of which the images here have none; the fake gives one out.
void UseKernels() {
  static const char image[64] = ".version 8.0\n.target sm_90\n.address_size 64\n";
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUkernel kernel = nullptr;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  if (CALL("module_load", cuModuleLoadData, &module, image) != CUDA_SUCCESS) return;
  CALL("-", cuModuleGetFunction, &function, module, "none");
  CALL("-", cuLibraryGetKernel, &kernel, nullptr, "none");
  CALL("-", cuKernelGetFunction, &function, kernel);
  CALL("-", cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  CALL("-", cuLaunchKernel_ptsz, function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  CALL("-", cuLaunchKernelEx, &config, function, nullptr, nullptr);
  CALL("-", cuLaunchKernelEx_ptsz, &config, function, nullptr, nullptr);
  CALL("-", cuLaunchCooperativeKernel, function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr);
  CALL("-", cuLaunchCooperativeKernel_ptsz, function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr);
  CALL("module_unload", cuModuleUnload, module);
}

void UseLinear() {
  CUdeviceptr address = 0;
  CUdeviceptr_v1 old_address = 0;
  size_t pitch = 0;
  unsigned int old_pitch = 0;
  if (CALL("alloc", cuMemAlloc_v2, &address, 5000) == CUDA_SUCCESS) CALL("free", cuMemFree_v2, address);
  if (CALL("alloc", cuMemAlloc, &old_address, 5000) == CUDA_SUCCESS) CALL("free", cuMemFree, old_address);
  if (CALL("alloc", cuMemAllocPitch_v2, &address, &pitch, 1000, 64, 4) == CUDA_SUCCESS)
    CALL("free", cuMemFree_v2, address);
  if (CALL("alloc", cuMemAllocPitch, &old_address, &old_pitch, 1000, 64, 4) == CUDA_SUCCESS) {
    CALL("free", cuMemFree, old_address);
  }
  if (CALL("alloc", cuMemAllocManaged, &address, kPiece, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS) {
    CALL("free", cuMemFree_v2, address);
  }
}

void UseHost() {
  void* pinned = nullptr;
  void* own = std::aligned_alloc(4096, 1 << 16);
  if (CALL("alloc", cuMemAllocHost_v2, &pinned, 4096) == CUDA_SUCCESS) CALL("free", cuMemFreeHost, pinned);
  if (CALL("alloc", cuMemAllocHost, &pinned, 4096) == CUDA_SUCCESS) CALL("free", cuMemFreeHost, pinned);
  if (CALL("alloc", cuMemHostAlloc, &pinned, 4096, 0) == CUDA_SUCCESS) CALL("free", cuMemFreeHost, pinned);
  if (CALL("host_register", cuMemHostRegister_v2, own, 1 << 16, 0) == CUDA_SUCCESS) {
    CALL("host_unregister", cuMemHostUnregister, own);
  }
  if (CALL("host_register", cuMemHostRegister, own, 1 << 16, 0) == CUDA_SUCCESS) {
    CALL("host_unregister", cuMemHostUnregister, own);
  }
  std::free(own);
}

void UsePools() {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool = nullptr;
  CUmemoryPool imported = nullptr;
  CUdeviceptr address = 0;
  CUmemPoolPtrExportData shared{};
  cuuint64_t threshold = 1 << 30;
  int reuse = 1;
  CALL("pool_create", cuMemPoolCreate, &pool, &props);
  CALL("pool_setting", cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  CALL("-", cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse);
  CALL("alloc", cuMemAllocFromPoolAsync, &address, kPiece, pool, nullptr);
  CALL("free", cuMemFree_v2, address);  // a pool's pointer under another name
  if (CALL("alloc", cuMemAllocFromPoolAsync_ptsz, &address, kPiece, pool, nullptr) == CUDA_SUCCESS) {
    CALL("free", cuMemFreeAsync_ptsz, address, nullptr);
  }
  CALL("pool_trim", cuMemPoolTrimTo, pool, 0);
  CALL("pool_setting", cuDeviceSetMemPool, 0, pool);
  CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CALL("pool_setting", cuMemSetMemPool, &location, CU_MEM_ALLOCATION_TYPE_PINNED, pool);
  CALL("alloc", cuMemAllocAsync, &address, 3 * kPiece, nullptr);
  CALL("free", cuMemFreeAsync, address, nullptr);
  if (CALL("alloc", cuMemAllocAsync_ptsz, &address, kPiece, nullptr) == CUDA_SUCCESS) {
    CALL("free", cuMemFreeAsync_ptsz, address, nullptr);
  }
  CALL("pool_create", cuMemPoolImportFromShareableHandle, &imported, &threshold,
       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (CALL("import", cuMemPoolImportPointer, &address, imported, &shared) == CUDA_SUCCESS) {
    CALL("free", cuMemFreeAsync, address, nullptr);
  }
  CALL("pool_destroy", cuMemPoolDestroy, pool);
}

void UseVirtual() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle memory = 0;
  CUmemGenericAllocationHandle again = 0;
  CUmemGenericAllocationHandle imported = 0;
  CUdeviceptr base = 0;
  CALL("address_reserve", cuMemAddressReserve, &base, 4 * kPiece, 0, 0, 0);
  CALL("physical_create", cuMemCreate, &memory, kPiece, &prop, 0);
  CALL("map", cuMemMap, base, kPiece, 0, memory, 0);
  CALL("physical_retain", cuMemRetainAllocationHandle, &again, reinterpret_cast<void*>(base));
  CALL("physical_release", cuMemRelease, again);
  CALL("physical_release", cuMemRelease, memory);
  CALL("unmap", cuMemUnmap, base, kPiece);
  CALL("address_free", cuMemAddressFree, base, 4 * kPiece);
  if (CALL("import", cuMemImportFromShareableHandle, &imported, nullptr, CU_MEM_HANDLE_TYPE_FABRIC) == CUDA_SUCCESS) {
    CALL("physical_release", cuMemRelease, imported);
  }
}

void UseMulticast() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmulticastObjectProp team{};
  team.numDevices = 1;
  team.size = kPiece;
  CUmemGenericAllocationHandle object = 0;
  CUmemGenericAllocationHandle memory = 0;
  if (CALL("physical_create", cuMulticastCreate, &object, &team) != CUDA_SUCCESS) return;
  const auto join = reinterpret_cast<decltype(&::cuMulticastAddDevice)>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMulticastAddDevice"));
  if (join != nullptr) join(object, 0);  // the fake asks for no members
  CALL("physical_create", cuMemCreate, &memory, kPiece, &prop, 0);
  CALL("multicast_bind", cuMulticastBindMem, object, 0, memory, 0, kPiece, 0);
  CALL("physical_release", cuMemRelease, memory);
  CALL("multicast_unbind", cuMulticastUnbind, object, 0, 0, kPiece);
  CALL("multicast_bind", cuMulticastBindAddr, object, 0, 0x1000, kPiece, 0);
  CALL("physical_release", cuMemRelease, object);
}

void UseArrays() {
  CUDA_ARRAY_DESCRIPTOR plain{64, 64, CU_AD_FORMAT_FLOAT, 4};
  CUDA_ARRAY_DESCRIPTOR_v1 plain_old{64, 64, CU_AD_FORMAT_FLOAT, 4};
  CUDA_ARRAY3D_DESCRIPTOR solid{64, 64, 4, CU_AD_FORMAT_HALF, 2, 0};
  CUDA_ARRAY3D_DESCRIPTOR_v1 solid_old{64, 64, 4, CU_AD_FORMAT_HALF, 2, 0};
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  if (CALL("alloc", cuArrayCreate_v2, &array, &plain) == CUDA_SUCCESS) CALL("free", cuArrayDestroy, array);
  if (CALL("alloc", cuArrayCreate, &array, &plain_old) == CUDA_SUCCESS) CALL("free", cuArrayDestroy, array);
  if (CALL("alloc", cuArray3DCreate_v2, &array, &solid) == CUDA_SUCCESS) CALL("free", cuArrayDestroy, array);
  if (CALL("alloc", cuArray3DCreate, &array, &solid_old) == CUDA_SUCCESS) CALL("free", cuArrayDestroy, array);
  if (CALL("alloc", cuMipmappedArrayCreate, &mipmap, &solid, 3) == CUDA_SUCCESS) {
    CALL("free", cuMipmappedArrayDestroy, mipmap);
  }
  CUarrayMapInfo info{};
  info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  CALL("map", cuMemMapArrayAsync, &info, 1, nullptr);
  info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
  CALL("unmap", cuMemMapArrayAsync_ptsz, &info, 1, nullptr);
}

void UseOthers() {
  CUdeviceptr address = 0;
  CUipcMemHandle name{};
  if (CALL("import", cuIpcOpenMemHandle_v2, &address, name, 1) == CUDA_SUCCESS) {
    CALL("import_close", cuIpcCloseMemHandle, address);
  }
  if (CALL("import", cuIpcOpenMemHandle, &address, name, 1) == CUDA_SUCCESS) {
    CALL("import_close", cuIpcCloseMemHandle, address);
  }
  CUexternalMemory memory = nullptr;
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC object{};
  object.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  object.size = 4 * kPiece;
  if (CALL("import", cuImportExternalMemory, &memory, &object) != CUDA_SUCCESS) return;
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC part{};
  part.size = kPiece;
  CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC levels{};
  CUmipmappedArray mipmap = nullptr;
  if (CALL("map", cuExternalMemoryGetMappedBuffer, &address, memory, &part) == CUDA_SUCCESS) {
    CALL("free", cuMemFree_v2, address);
  }
  if (CALL("import", cuExternalMemoryGetMappedMipmappedArray, &mipmap, memory, &levels) == CUDA_SUCCESS) {
    CALL("free", cuMipmappedArrayDestroy, mipmap);
  }
  CALL("import_close", cuDestroyExternalMemory, memory);
}

CUgraphNodeParams AllocNode(const CUDA_MEM_ALLOC_NODE_PARAMS& params) {
  CUgraphNodeParams node{};
  node.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  node.alloc.poolProps = params.poolProps;
  node.alloc.bytesize = params.bytesize;
  return node;
}

template <typename Function>
Function Plain(const char* name) {
  return reinterpret_cast<Function>(Find(name));
}

void UseGraphs() {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CUgraphNode first = nullptr;
  CUgraphNode last = nullptr;
  if (Plain<decltype(&::cuGraphCreate)>("cuGraphCreate")(&graph, 0) != CUDA_SUCCESS) return;
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  params.bytesize = 6 * kPiece;
  if (CALL("graph_node_alloc", cuGraphAddMemAllocNode, &first, graph, nullptr, 0, &params) == CUDA_SUCCESS) {
    CALL("graph_node_free", cuGraphAddMemFreeNode, &last, graph, &first, 1, params.dptr);
  }
  CUgraphNodeParams node = AllocNode(params);
  if (CALL("graph_node_alloc", cuGraphAddNode_v2, &first, graph, nullptr, nullptr, 0, &node) == CUDA_SUCCESS) {
    CUgraphNodeParams end{};
    end.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    end.free.dptr = node.alloc.dptr;
    CALL("graph_node_free", cuGraphAddNode, &last, graph, &first, 1, &end);
  }
  CUgraphNodeParams nothing{};
  nothing.type = CU_GRAPH_NODE_TYPE_EMPTY;
  CALL("-", cuGraphAddNode_v2, &last, graph, nullptr, nullptr, 0, &nothing);
  const auto instantiate = Plain<decltype(&::cuGraphInstantiateWithFlags)>("cuGraphInstantiateWithFlags");
  if (instantiate(&executable, graph, 0) != CUDA_SUCCESS) return;
  CALL("-", cuGraphLaunch, executable, nullptr);
  CALL("-", cuGraphLaunch_ptsz, executable, nullptr);
  CALL("-", cuGraphExecDestroy, executable);
  CALL("-", cuDeviceGraphMemTrim, 0);
}

// What is allocated and freed while a stream is captured is a node each, in every way to begin a capture.
template <typename Begin, typename End>
void Capture(CUstream stream, Begin begin, End end) {
  CUgraph graph = nullptr;
  CUdeviceptr address = 0;
  if (begin(stream) != CUDA_SUCCESS) return;
  if (CALL("graph_node_alloc", cuMemAllocAsync, &address, kPiece, stream) == CUDA_SUCCESS) {
    CALL("graph_node_free", cuMemFreeAsync, address, stream);
  }
  end(stream, &graph);
}

void UseCapture() {
  CUstream stream = nullptr;
  const auto create = Plain<decltype(&::cuStreamCreate)>("cuStreamCreate");
  if (create(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return;
  const auto end = [](CUstream s, CUgraph* out) { return CALL("-", cuStreamEndCapture, s, out); };
  const auto end_ptsz = [](CUstream s, CUgraph* out) { return CALL("-", cuStreamEndCapture_ptsz, s, out); };
  constexpr auto kMode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  Capture(
      stream, [](CUstream s) { return CALL("-", cuStreamBeginCapture_v2, s, kMode); }, end);
  Capture(
      stream, [](CUstream s) { return CALL("-", cuStreamBeginCapture_v2_ptsz, s, kMode); }, end_ptsz);
  Capture(
      stream, [](CUstream s) { return CALL("-", cuStreamBeginCapture, s); }, end);
  Capture(
      stream, [](CUstream s) { return CALL("-", cuStreamBeginCapture_ptsz, s); }, end_ptsz);
  CUgraph graph = nullptr;
  Plain<decltype(&::cuGraphCreate)>("cuGraphCreate")(&graph, 0);
  const auto to_graph = [&](CUstream s) {
    return CALL("-", cuStreamBeginCaptureToGraph, s, graph, nullptr, nullptr, 0, kMode);
  };
  const auto to_graph_ptsz = [&](CUstream s) {
    return CALL("-", cuStreamBeginCaptureToGraph_ptsz, s, graph, nullptr, nullptr, 0, kMode);
  };
  Capture(stream, to_graph, end);
  Capture(stream, to_graph_ptsz, end_ptsz);
  CUdeviceptr address = 0;
  CALL("alloc", cuMemAllocAsync, &address, kPiece, stream);  // no capture is left
  CALL("free", cuMemFreeAsync, address, stream);
}

void UseResolvers() {
  void* found = nullptr;
  CALL("-", cuGetProcAddress, "cuMemAlloc", &found, 3020, 0);
  CALL("-", cuGetProcAddress_v2, "cuMemAlloc", &found, 3020, 0, nullptr);
}

}  // namespace

int main() {
  CALL("-", cuInit, 0);
  UseContexts();
  UseResolvers();
  UseModules();
  UseKernels();
  UseLinear();
  UseHost();
  UsePools();
  UseVirtual();
  UseMulticast();
  UseArrays();
  UseOthers();
  UseGraphs();
  UseCapture();
  CUdeviceptr left = 0;
  CALL("alloc", cuMemAlloc_v2, &left, 7 * kPiece);  // goes with its device
  CALL("device_reset", cuDevicePrimaryCtxReset, 0);
  CALL("device_reset", cuDevicePrimaryCtxReset_v2, 0);
  CUcontext primary = nullptr;
  CALL("context_create", cuDevicePrimaryCtxRetain, &primary, 0);
  CALL("context_destroy", cuDevicePrimaryCtxRelease_v2, 0);
  return 0;
}
