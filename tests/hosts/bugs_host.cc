// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What broke other interposers, one case a name. Each prints what CUDA answered, so that it can be compared with a run
// without the recorder. Linked to the driver by name, as llama.cpp and NCCL's tests are.
//
//   bugs_host worker | numa | null | other-device | unknown | capture | resolve | lookups | deepbind PATH | block |
//   query

#include <cuda.h>
#include <cudaTypedefs.h>
#include <dirent.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

namespace {

constexpr std::size_t kPiece = 2 << 20;

void Say(const char* what, CUresult result) { std::printf("%s %d\n", what, static_cast<int>(result)); }

void UseDevice(int device) {
  CUcontext context = nullptr;
  cuDevicePrimaryCtxRetain(&context, device);
  cuCtxSetCurrent(context);
}

CUresult Create(CUmemLocationType type, int id, CUmemGenericAllocationHandle* handle) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = type;
  prop.location.id = id;
  return cuMemCreate(handle, kPiece, &prop, 0);
}

// The thread has no context, so the device can only come from the properties.
void OnWorker(CUmemLocationType type, int id) {
  std::thread worker([type, id] {
    CUmemGenericAllocationHandle handle = 0;
    Say("cuMemCreate", Create(type, id, &handle));
    Say("cuMemRelease", cuMemRelease(handle));
    Say("cuMemCreate", Create(type, id, &handle));
  });
  worker.join();
}

void PassNothing() {
  std::size_t total = 0, pitch = 0;
  Say("cuMemGetInfo", cuMemGetInfo(nullptr, &total));
  Say("cuMemAlloc", cuMemAlloc(nullptr, kPiece));
  Say("cuMemAllocPitch", cuMemAllocPitch(nullptr, &pitch, 100, 100, 4));
  Say("cuMemAllocHost", cuMemAllocHost(nullptr, kPiece));
  Say("cuMemAllocAsync", cuMemAllocAsync(nullptr, kPiece, nullptr));
  Say("cuMemAllocManaged", cuMemAllocManaged(nullptr, kPiece, CU_MEM_ATTACH_GLOBAL));
  Say("cuMemCreate", cuMemCreate(nullptr, kPiece, nullptr, 0));
  Say("cuMemAddressReserve", cuMemAddressReserve(nullptr, kPiece, 0, 0, 0));
  Say("cuMemPoolCreate", cuMemPoolCreate(nullptr, nullptr));
  Say("cuArrayCreate", cuArrayCreate(nullptr, nullptr));
  Say("cuGetProcAddress", cuGetProcAddress("cuMemAlloc", nullptr, 12000, 0, nullptr));
  Say("cuMemFree", cuMemFree(0));
  Say("cuMemFreeHost", cuMemFreeHost(nullptr));
}

void FreeElsewhere() {
  CUdeviceptr first = 0, second = 0;
  Say("cuMemAlloc", cuMemAlloc(&first, 3 * kPiece));
  UseDevice(1);
  Say("cuMemAlloc", cuMemAlloc(&second, 5 * kPiece));
  Say("cuMemFree", cuMemFree(first));
}

void FreeUnknown() {
  CUdeviceptr memory = 0;
  Say("cuMemAlloc", cuMemAlloc(&memory, kPiece));
  Say("cuMemFree", cuMemFree(0x1234567));
  Say("cuMemFreeAsync", cuMemFreeAsync(memory + 512, nullptr));
  Say("cuMemFreeHost", cuMemFreeHost(&memory));
  Say("cuMemRelease", cuMemRelease(99));
  Say("cuMemUnmap", cuMemUnmap(memory, kPiece));
  Say("cuMemHostUnregister", cuMemHostUnregister(&memory));
  Say("cuIpcCloseMemHandle", cuIpcCloseMemHandle(0x1234567));
  Say("cuMemFree", cuMemFree(memory));
}

void Capture(CUstreamCaptureMode mode) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUdeviceptr memory = 0, other = 0;
  void* host = nullptr;
  Say("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Say("cuStreamBeginCapture", cuStreamBeginCapture(stream, mode));
  Say("cuMemAllocAsync", cuMemAllocAsync(&memory, kPiece, stream));
  Say("cuMemFreeAsync", cuMemFreeAsync(memory, stream));
  Say("cuMemHostAlloc", cuMemHostAlloc(&host, kPiece, 0));
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) Say("cuMemAlloc", cuMemAlloc(&other, kPiece));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  Say("cuStreamIsCapturing", cuStreamIsCapturing(stream, &status));
  std::printf("status %d\n", static_cast<int>(status));
  Say("cuStreamEndCapture", cuStreamEndCapture(stream, &graph));
  std::printf("graph %s\n", graph == nullptr ? "lost" : "there");
}

template <typename Function>
void AllocateBy(void* entry, Function*) {
  CUdeviceptr memory = 0;
  Say("allocate", reinterpret_cast<Function*>(entry)(&memory, kPiece));
}

// By the first and the second form of the resolver, for the legacy and the per-thread stream.
void Resolve() {
  const auto first = reinterpret_cast<PFN_cuGetProcAddress_v11030>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuGetProcAddress"));
  for (const cuuint64_t flags : {0, 1, 2}) {
    void* entry = nullptr;
    Say("first", first("cuMemAlloc", &entry, 11030, flags));
    AllocateBy(entry, &cuMemAlloc);
    CUdriverProcAddressQueryResult status;
    Say("second", cuGetProcAddress("cuMemAlloc", &entry, 12000, flags, &status));
    AllocateBy(entry, &cuMemAlloc);
    Say("second", cuGetProcAddress("cuMemAllocAsync", &entry, 12000, flags, &status));
    CUdeviceptr memory = 0;
    Say("allocate", reinterpret_cast<decltype(&cuMemAllocAsync)>(entry)(&memory, kPiece, nullptr));
  }
  void* entry = reinterpret_cast<void*>(1);
  CUdriverProcAddressQueryResult status;
  Say("unknown, first", first("cuNoSuchThing", &entry, 11030, 0));
  std::printf("left %s\n", entry == reinterpret_cast<void*>(1) ? "alone" : "changed");
  Say("unknown, second", cuGetProcAddress("cuNoSuchThing", &entry, 12000, 0, &status));
  std::printf("%p, status %d\n", entry, static_cast<int>(status));
  Say("too new", cuGetProcAddress("cuMemAllocAsync", &entry, 9000, 0, nullptr));
  std::printf("%p\n", entry);
}

int CountEntries(const char* folder) {
  DIR* all = opendir(folder);
  int count = 0;
  while (all != nullptr && readdir(all) != nullptr) ++count;
  if (all != nullptr) closedir(all);
  return count;
}

// Programs look names up long before they use them, some under the loader's lock: nothing may begin there.
void LookUp() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  for (const char* name : {"cuGetExportTable", "cuInit", "cuMemAlloc_v2", "cuGetProcAddress_v2", "cuNoSuchThing"}) {
    std::printf("%s %s\n", name, dlsym(driver, name) != nullptr ? "found" : "missing");
  }
  std::printf("threads %d, files %d\n", CountEntries("/proc/self/task"), CountEntries("/proc/self/fd"));
}

// The plugin's own calls go past every preload. The runtime was there before it, so that one's look-ups do not.
void UseDeepBound(const char* path) {
  dlopen("libcudart.so.13", RTLD_NOW);
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (plugin == nullptr) return Say(dlerror(), CUDA_ERROR_UNKNOWN);
  reinterpret_cast<void (*)()>(dlsym(plugin, "UsePluginMemory"))();
}

// The driver of the preload `block` keeps one thread in cuMemAlloc until another has come out of cuMemFree.
void BlockAndFree() {
  CUdeviceptr memory = 0;
  Say("cuMemAlloc", cuMemAlloc(&memory, kPiece));
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  std::thread waits([context] {
    CUdeviceptr other = 0;
    cuCtxSetCurrent(context);
    Say("cuMemAlloc", cuMemAlloc(&other, 2 * kPiece));
  });
  std::thread frees([context, memory] {
    cuCtxSetCurrent(context);
    cuMemFree(memory);
  });
  frees.join();
  waits.join();
}

void Query() {
  CUdeviceptr memory = 0;
  Say("cuMemAlloc", cuMemAlloc(&memory, kPiece));
  Say("cuMemAllocAsync", cuMemAllocAsync(&memory, kPiece, nullptr));
  Say("cuMemFreeAsync", cuMemFreeAsync(memory, nullptr));
}

}  // namespace

int main(int, char** argv) {
  const std::string name = argv[1] == nullptr ? "" : argv[1];
  if (name == "lookups") return LookUp(), 0;
  Say("cuInit", cuInit(0));
  if (name == "worker") OnWorker(CU_MEM_LOCATION_TYPE_DEVICE, 1);
  if (name == "numa") OnWorker(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
  UseDevice(0);
  if (name == "null") PassNothing();
  if (name == "other-device") FreeElsewhere();
  if (name == "unknown") FreeUnknown();
  if (name == "capture") {
    for (const auto mode :
         {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED})
      Capture(mode);
  }
  if (name == "resolve") Resolve();
  if (name == "deepbind") UseDeepBound(argv[2]);
  if (name == "block") BlockAndFree();
  if (name == "query") Query();
  return 0;
}
