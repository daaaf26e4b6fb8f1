// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the hooks call in the rest of the recorder, in the place of the real thing: look-ups (calls/real.h), the
// session, the stack's capture, the writer. And the driver that they ask.

#include <atomic>

#include "shim/base/calls/own_symbols.h"
#include "shim/control/session.h"
#include "shim/writer/writer.h"
#include "tests/shim/hooks/fake_stack.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim {
namespace hooks {

FakeDriver g_driver;
Around g_around;

namespace {

template <typename Key>
void* Find(const std::map<Key, void*>& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : found->second;
}

CUresult Answered() {
  ++g_driver.questions;
  errno = kErrnoOfDriver;
  return g_driver.result;
}

// Out parameters are set where the answer is a success alone, as the driver does.
template <typename To, typename From>
CUresult Tell(To* out, From value) {
  const CUresult result = Answered();
  if (result == CUDA_SUCCESS) *out = static_cast<To>(value);
  return result;
}

CUresult CtxGetDevice(CUdevice* out) { return Tell(out, g_driver.device); }
CUresult CtxGetCurrent(CUcontext* out) { return Tell(out, g_driver.context); }
CUresult PointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr) {
  EXPECT_EQ(attribute, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  return Tell(static_cast<int*>(out), g_driver.device_of_address);
}
CUresult MemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  *base = address;
  return Tell(size, g_driver.size_of_address);
}
CUresult MemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *total_bytes = g_driver.total_bytes;
  return Tell(free_bytes, g_driver.free_bytes);
}
CUresult ExchangeCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, g_driver.capture_mode);
  return Answered();
}
CUresult DeviceGetMemPool(CUmemoryPool* out, CUdevice) { return Tell(out, MakeHandle<CUmemoryPool>(0x900)); }
CUresult MemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* out) {
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool used = attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
  return Tell(static_cast<cuuint64_t*>(out), used ? g_driver.pool_used : g_driver.pool_reserved);
}
CUresult DeviceGetGraphMemAttribute(CUdevice, CUgraphMem_attribute attribute, void* out) {
  EXPECT_EQ(attribute, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
  return Tell(static_cast<cuuint64_t*>(out), g_driver.graph_reserved);
}
CUresult StreamIsCapturing(CUstream, CUstreamCaptureStatus* out) { return Tell(out, g_driver.capture); }
CUresult StreamIsCapturingPerThread(CUstream, CUstreamCaptureStatus* out) {
  return Tell(out, g_driver.capture_per_thread);
}
CUresult PrimaryGetState(CUdevice, unsigned int* flags, int* active) {
  *flags = 0;
  return Tell(active, g_driver.primary_is_active);
}
CUresult FuncGetAttribute(int* out, CUfunction_attribute attribute, CUfunction) {
  EXPECT_EQ(attribute, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  return Tell(out, g_driver.local_of_function);
}
CUresult KernelGetAttribute(int* out, CUfunction_attribute attribute, CUkernel, CUdevice device) {
  EXPECT_EQ(attribute, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  EXPECT_EQ(device, g_driver.device);
  return Tell(out, g_driver.local_of_kernel);
}
CUresult CtxGetLimit(size_t* out, CUlimit limit) {
  EXPECT_EQ(limit, CU_LIMIT_STACK_SIZE);
  return Tell(out, 1024);
}
CUresult DeviceGetAttribute(int* out, CUdevice_attribute attribute, CUdevice) {
  return Tell(out, attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 4 : 100);
}
CUresult GetProcAddress(const char* symbol, void** out, int, cuuint64_t, CUdriverProcAddressQueryResult*) {
  return Tell(out, Find(g_driver.functions, std::string(symbol)));
}

template <typename Function>
std::pair<const std::string, void*> Named(const char* name, Function function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace

}  // namespace hooks

namespace calls {

using namespace hooks;  // NOLINT: what is answered instead

std::atomic<void*> g_real_functions[kApiCount];
std::atomic<bool> g_foreign_runtime[kApiCount];

void* NextInScope(const char* name) { return Find(g_around.next_in_scope, std::string(name)); }

void* FindAndPin(const char* library, const char* name) {
  return Find(g_around.libraries, std::string(library) + ":" + name);
}

void* ResolveRealFunction(ApiId id) {
  void* found = Find(g_around.resolvable, id);
  if (found != nullptr) g_real_functions[static_cast<uint16_t>(id)].store(found);
  return found;
}

void* WrapperOfDriverFunction(const void* function) { return Find(g_around.wrappers, function); }

void* WrapperOfSubstitute(void*, const void* driver_function) { return Find(g_around.substitutes, driver_function); }

void* DriverFunction(const char* name) {
  static const std::map<std::string, void*> functions = {
      Named("cuCtxGetDevice", &CtxGetDevice),
      Named("cuCtxGetCurrent", &CtxGetCurrent),
      Named("cuPointerGetAttribute", &PointerGetAttribute),
      Named("cuMemGetAddressRange_v2", &MemGetAddressRange),
      Named("cuMemGetInfo_v2", &MemGetInfo),
      Named("cuThreadExchangeStreamCaptureMode", &ExchangeCaptureMode),
      Named("cuDeviceGetMemPool", &DeviceGetMemPool),
      Named("cuMemPoolGetAttribute", &MemPoolGetAttribute),
      Named("cuDeviceGetGraphMemAttribute", &DeviceGetGraphMemAttribute),
      Named("cuStreamIsCapturing", &StreamIsCapturing),
      Named("cuStreamIsCapturing_ptsz", &StreamIsCapturingPerThread),
      Named("cuDevicePrimaryCtxGetState", &PrimaryGetState),
      Named("cuGetProcAddress_v2", &GetProcAddress),
      Named("cuFuncGetAttribute", &FuncGetAttribute),
      Named("cuKernelGetAttribute", &KernelGetAttribute),
      Named("cuCtxGetLimit", &CtxGetLimit),
      Named("cuDeviceGetAttribute", &DeviceGetAttribute),
  };
  void* found = Find(functions, std::string(name));
  EXPECT_NE(found, nullptr) << name;
  return found;
}

}  // namespace calls

namespace session {

std::atomic<bool> g_off{false};

bool StartAtInit() {
  ++hooks::g_around.starts_at_init;
  errno = hooks::kErrnoOfDriver;
  return true;
}

bool StartAtEvent() {
  ++hooks::g_around.starts_at_event;
  errno = hooks::kErrnoOfDriver;
  return hooks::g_around.start_succeeds;
}

std::atomic<bool> g_asked_helper{true};
void AskHelper() {
  ++hooks::g_around.asked_helper;
  g_asked_helper.store(true);
  errno = hooks::kErrnoOfDriver;
}

bool IsFirstEvent() { return std::exchange(hooks::g_around.is_first_event, false); }

}  // namespace session

namespace writer {

void Flush() {
  ++hooks::g_around.flushes;
  errno = hooks::kErrnoOfDriver;
}

}  // namespace writer

namespace stack {

FakeStack g_fake;
constinit thread_local uint32_t t_nodes = 0;

std::atomic<bool> g_free_stacks;

uint64_t Capture() {
  ++hooks::g_around.captures;
  return hooks::kStack;
}
uint64_t CapturePython() { return g_fake.python; }
bool NodesEnabled() { return g_fake.nodes_enabled; }
void RememberForward(uint64_t thread, uint64_t number, uint64_t stack) {
  g_fake.forwards.push_back({thread, number, stack});
}
void RememberUse(const void* accumulator, uint64_t stack) { g_fake.uses.push_back({accumulator, stack}); }
uint64_t DataOf(const void*) { return g_fake.data; }
uint32_t EnterNode(const void* node, uintptr_t) {
  g_fake.entered.push_back(node);
  return t_nodes++;
}

}  // namespace stack
}  // namespace gpumemshim
