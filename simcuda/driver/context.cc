// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Contexts: one primary a device, any number of others, and each thread's stack of current ones. Handles point to
// Context records that are never freed, so that a stale handle is an error and no crash.
#include <algorithm>
#include <deque>
#include <mutex>

#include "simcuda/base/environment.h"
#include "simcuda/device/granularity.h"
#include "simcuda/driver/driver.h"

namespace simcuda {
namespace {

std::mutex g_contexts_mutex;
thread_local std::vector<Context*>* t_stack = nullptr;  // a leaked heap object: usable in thread and process exit

// Guarded by g_contexts_mutex; addresses are stable. Never destroyed: libraries call CUDA from their destructors.
std::deque<Context>& Contexts() {
  static auto* const contexts = new std::deque<Context>();
  return *contexts;
}

std::vector<Context*>& Stack() {
  if (t_stack == nullptr) t_stack = new std::vector<Context*>();
  return *t_stack;
}

CUcontext Handle(Context* context) { return reinterpret_cast<CUcontext>(context); }

Context* Primary(int device) {
  for (Context& context : Contexts()) {
    if (context.primary && context.device == device) return &context;
  }
  Contexts().push_back({.device = device, .primary = true, .id = Contexts().size() + 1});
  return &Contexts().back();
}

CUresult Activate(const char* api, Context* context) {
  const uint64_t handle = reinterpret_cast<uint64_t>(context);
  context->bytes = context->owner != nullptr ? GetEnvironment().green_context_bytes : GetEnvironment().context_bytes;
  const CUresult result = GetSimulation()->machine.ChargeContext(api, context->device, handle, context->bytes);
  context->active = result == CUDA_SUCCESS;
  return result;
}

// Everything that the context owned dies with it.
void Deactivate(const char* api, Context* context) {
  Simulation* const simulation = GetSimulation();
  const Caller caller{.api = api, .device = context->device, .context = context};
  simulation->linear.DropContext(caller);
  simulation->arrays.DropContext(caller);
  simulation->modules.DropContext(caller);
  simulation->machine.DischargeContext(api, context->device, reinterpret_cast<uint64_t>(context), context->bytes);
  context->limits.clear();
  context->local_bytes = 0;
  context->active = false;
  context->retains = 0;
}

CUresult CreateContext(const char* api, CUcontext* handle, unsigned flags, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(g_contexts_mutex);
  Contexts().push_back({.device = device, .flags = flags, .id = Contexts().size() + 1});
  Context* const context = &Contexts().back();
  if (const CUresult result = Activate(api, context); result != CUDA_SUCCESS) return result;
  Stack().push_back(context);
  *handle = Handle(context);
  return CUDA_SUCCESS;
}

}  // namespace

Context* CurrentContext() {
  if (t_stack == nullptr || t_stack->empty()) return nullptr;
  return t_stack->back();
}

Context* FindContext(CUcontext handle) {
  const std::lock_guard lock(g_contexts_mutex);
  for (Context& context : Contexts()) {
    if (Handle(&context) == handle) return context.active ? &context : nullptr;
  }
  return nullptr;
}

CUresult CheckContext() {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const Context* const context = CurrentContext();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return context->active ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult CurrentCaller(const char* api, Caller* caller) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  const Context* const context = CurrentContext();
  *caller = {.api = api, .device = context->device, .context = context->owner != nullptr ? context->owner : context};
  return CUDA_SUCCESS;
}

CUresult MakeGreenContext(CUdevice device, unsigned flags, Context** context) {
  CUcontext primary = nullptr;
  if (const CUresult result = cuDevicePrimaryCtxRetain(&primary, device); result != CUDA_SUCCESS) return result;
  CUresult result = CUDA_SUCCESS;
  {
    const std::lock_guard lock(g_contexts_mutex);
    Contexts().push_back({.device = device,
                          .flags = flags,
                          .id = Contexts().size() + 1,
                          .owner = reinterpret_cast<const Context*>(primary)});
    *context = &Contexts().back();
    result = Activate("cuGreenCtxCreate", *context);
  }
  if (result != CUDA_SUCCESS) cuDevicePrimaryCtxRelease_v2(device);
  return result;
}

CUresult DropGreenContext(Context* context) {
  if (FindContext(Handle(context)) == nullptr || context->owner == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  {
    const std::lock_guard lock(g_contexts_mutex);
    Deactivate("cuGreenCtxDestroy", context);
  }
  return cuDevicePrimaryCtxRelease_v2(context->device);
}

}  // namespace simcuda

using namespace simcuda;  // NOLINT: C functions only from here on

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* handle, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(g_contexts_mutex);
  Context* const context = Primary(device);
  if (!context->active) {
    if (const CUresult result = Activate("cuDevicePrimaryCtxRetain", context); result != CUDA_SUCCESS) return result;
  }
  ++context->retains;
  *handle = Handle(context);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(g_contexts_mutex);
  Context* const context = Primary(device);
  if (!context->active || context->retains == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--context->retains == 0) Deactivate("cuDevicePrimaryCtxRelease_v2", context);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(g_contexts_mutex);
  Context* const context = Primary(device);
  if (context->active) Deactivate("cuDevicePrimaryCtxReset_v2", context);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(g_contexts_mutex);
  const Context* const context = Primary(device);
  if (flags != nullptr) *flags = context->flags;
  if (active != nullptr) *active = context->active ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(g_contexts_mutex);
  Primary(device)->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext* handle, unsigned flags, CUdevice device) {
  return CreateContext("cuCtxCreate_v2", handle, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext* handle, CUexecAffinityParam*, int, unsigned flags, CUdevice device) {
  return CreateContext("cuCtxCreate_v3", handle, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext* handle, CUctxCreateParams*, unsigned flags, CUdevice device) {
  return CreateContext("cuCtxCreate_v4", handle, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  Context* const context = FindContext(handle);
  if (context == nullptr || context->primary || context->owner != nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(g_contexts_mutex);
  Deactivate("cuCtxDestroy_v2", context);
  if (CurrentContext() == context) Stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxAttach(CUcontext* handle, unsigned flags) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(g_contexts_mutex);
  ++CurrentContext()->users;
  *handle = Handle(CurrentContext());
  return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  Context* const context = FindContext(handle);
  if (context == nullptr || context->primary || context->owner != nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(g_contexts_mutex);
  if (--context->users > 0) return CUDA_SUCCESS;
  Deactivate("cuCtxDetach", context);
  if (CurrentContext() == context) Stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = Handle(CurrentContext());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle == Handle(CurrentContext())) return CUDA_SUCCESS;
  Context* const context = handle != nullptr ? FindContext(handle) : nullptr;
  if (handle != nullptr && context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!Stack().empty()) Stack().pop_back();
  if (context != nullptr) Stack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  Context* const context = FindContext(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Stack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (Stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (handle != nullptr) *handle = Handle(Stack().back());
  Stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = CurrentContext()->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  if (handle == nullptr) return cuCtxGetDevice(device);
  const Context* const context = FindContext(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  const Context* const context = handle == nullptr ? CurrentContext() : FindContext(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned* flags) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  *flags = CurrentContext()->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned flags) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  CurrentContext()->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache) { return CheckContext(); }
CUresult cuCtxResetPersistingL2Cache() { return CheckContext(); }

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CheckContext();
}

CUresult cuCtxSynchronize() {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  WatchProgress(0);
  NoteSynchronisation();
  GetSimulation()->linear.Synchronize(CurrentContext()->device);
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext handle) {
  if (handle == nullptr) return cuCtxSynchronize();
  const Context* const context = FindContext(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  NoteSynchronisation();
  GetSimulation()->linear.Synchronize(context->device);
  return CUDA_SUCCESS;
}

}  // extern "C"
