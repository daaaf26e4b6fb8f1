// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Modules, libraries and the linker. Images are not looked at: for which architectures a kernel was compiled is known
// where its name tells, else it is taken to be made for the device. A module takes memory when it is loaded, a library
// in each context that first asks for something in it (lazy loading, the default of CUDA).
#include "simcuda/driver/module.h"

#include <cstring>
#include <mutex>

#include "simcuda/base/environment.h"
#include "simcuda/driver/ptx.h"

using namespace simcuda;  // NOLINT: C functions only below

namespace {

std::mutex g_modules_mutex;
constexpr size_t kVariableBytes = 4096;  // an image that we do not read has variables of unknown size

// What a compiler made at run time (Triton, Inductor, NVRTC) is PTX or a cubin: it fits into what the context has (24
// Triton kernels and a compiled transformer took 0 bytes of an H100). Others are libraries' code.
uint64_t CodeBytes(const void* image) {
  const Environment& environment = GetEnvironment();
  if (environment.module_known == Known::kSet) return environment.module_bytes;
  const bool is_cubin = image != nullptr && std::memcmp(image, "\177ELF", 4) == 0;
  return is_cubin || IsPtx(static_cast<const char*>(image)) ? 0 : environment.module_bytes;
}

CUresult Load(const char* api, CUmodule* handle, const void* image) {
  Caller caller;
  if (const CUresult result = CurrentCaller(api, &caller); result != CUDA_SUCCESS) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto module = std::make_unique<Module>();
  module->local_bytes = LocalBytesInPtx(image);
  module->code_bytes = CodeBytes(image);
  const CUresult result = GetSimulation()->modules.Load(caller, module.get(), module->code_bytes);
  if (result != CUDA_SUCCESS) return result;
  *handle = reinterpret_cast<CUmodule>(module.release());
  return CUDA_SUCCESS;
}

// The library's code in the current context.
CUresult Use(const char* api, const void* library) {
  Caller caller;
  if (const CUresult result = CurrentCaller(api, &caller); result != CUDA_SUCCESS) return result;
  return GetSimulation()->modules.Load(caller, library, static_cast<const Module*>(library)->code_bytes);
}

CUresult Unload(const char* api, const void* handle) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  GetSimulation()->modules.Unload({.api = api}, handle);
  return CUDA_SUCCESS;
}

CUresult GetFunction(void* handle, const char* name, void** function) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(g_modules_mutex);
  auto* const module = static_cast<Module*>(handle);
  std::unique_ptr<Function>& slot = module->functions[name];
  if (slot == nullptr) {
    const CodeVersion code = Choose(ArchitecturesIn(name), GetEnvironment().compute_capability);
    const auto local = module->local_bytes.find(name);
    slot.reset(
        new Function{name, module, code, RecipeOf(name), local == module->local_bytes.end() ? 0 : local->second});
  }
  *function = slot.get();
  return CUDA_SUCCESS;
}

CUresult GetVariable(CUdeviceptr* pointer, size_t* bytes, void* handle, const char* name) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuModuleGetGlobal_v2", &caller); result != CUDA_SUCCESS) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(g_modules_mutex);
  uint64_t& address = static_cast<Module*>(handle)->variables[name];
  if (address == 0) {
    const CUresult result = GetSimulation()->linear.Allocate(caller, kVariableBytes, AllocationKind::kStatic, &address);
    if (result != CUDA_SUCCESS) return result;
  }
  if (pointer != nullptr) *pointer = address;
  if (bytes != nullptr) *bytes = kVariableBytes;
  return CUDA_SUCCESS;
}

CUresult FunctionAttribute(int* value, CUfunction_attribute attribute, const Function* function) {
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function->code.binary == 0) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = function->code.ptx;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = function->code.binary;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = GetEnvironment().shared_memory;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(function->local_bytes);
      return CUDA_SUCCESS;
    default:
      *value = 0;
      return CUDA_SUCCESS;
  }
}

}  // namespace

extern "C" {

CUresult cuModuleLoad(CUmodule* module, const char*) { return Load("cuModuleLoad", module, nullptr); }
CUresult cuModuleLoadData(CUmodule* module, const void* image) { return Load("cuModuleLoadData", module, image); }
CUresult cuModuleLoadFatBinary(CUmodule* module, const void*) { return Load("cuModuleLoadFatBinary", module, nullptr); }
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return Load("cuModuleLoadDataEx", module, image);
}

CUresult cuModuleUnload(CUmodule module) { return Unload("cuModuleUnload", module); }

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  void* found = nullptr;
  if (const CUresult result = GetFunction(module, name, &found); result != CUDA_SUCCESS) return result;
  if (static_cast<const Function*>(found)->code.binary == 0) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = static_cast<CUfunction>(found);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* pointer, size_t* bytes, CUmodule module, const char* name) {
  return GetVariable(pointer, bytes, module, name);
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  auto* const module = new Module();
  module->local_bytes = LocalBytesInPtx(code);
  module->code_bytes = CodeBytes(code);
  *library = reinterpret_cast<CUlibrary>(module);
  return CUDA_SUCCESS;
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char*, CUjit_option*, void**, unsigned, CUlibraryOption*,
                               void**, unsigned) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  auto* const module = new Module();
  module->code_bytes = CodeBytes(nullptr);
  *library = reinterpret_cast<CUlibrary>(module);
  return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library) { return Unload("cuLibraryUnload", library); }

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return GetFunction(library, name, reinterpret_cast<void**>(kernel));
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = Use("cuLibraryGetModule", library); result != CUDA_SUCCESS) return result;
  *module = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* pointer, size_t* bytes, CUlibrary library, const char* name) {
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = Use("cuLibraryGetGlobal", library); result != CUDA_SUCCESS) return result;
  return GetVariable(pointer, bytes, library, name);
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto* const known = reinterpret_cast<const Function*>(kernel);
  if (known->code.binary == 0) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (const CUresult result = Use("cuKernelGetFunction", known->module); result != CUDA_SUCCESS) return result;
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = reinterpret_cast<const Function*>(kernel)->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  return cuKernelGetName(name, reinterpret_cast<CUkernel>(function));
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *module = reinterpret_cast<CUmodule>(reinterpret_cast<const Function*>(function)->module);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return FunctionAttribute(value, attribute, reinterpret_cast<const Function*>(function));
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice) {
  return FunctionAttribute(value, attribute, reinterpret_cast<const Function*>(kernel));
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CheckContext(); }
CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) { return CheckContext(); }
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CheckContext(); }
CUresult cuKernelSetCacheConfig(CUkernel, CUfunc_cache, CUdevice) { return CheckContext(); }
CUresult cuFuncLoad(CUfunction) { return CheckContext(); }

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction) {
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CheckContext();
}

CUresult cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState* state) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  *state = reinterpret_cast<CUlinkState>(new Module());
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned, CUjit_option*, void**) {
  return CheckContext();
}

CUresult cuLinkAddFile_v2(CUlinkState, CUjitInputType, const char*, unsigned, CUjit_option*, void**) {
  return CheckContext();
}

CUresult cuLinkComplete(CUlinkState, void** image, size_t* bytes) {
  static char empty_image[64];
  *image = empty_image;
  if (bytes != nullptr) *bytes = sizeof empty_image;
  return CheckContext();
}

CUresult cuLinkDestroy(CUlinkState state) {
  delete reinterpret_cast<Module*>(state);
  return CUDA_SUCCESS;
}

}  // extern "C"
