// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// host_embeds LIBPYTHON HOME local|global: a C++ program that loads Python only after its first CUDA call, runs a
// script that allocates, ends the interpreter, allocates without one, and starts it again. Needs no header of Python.

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kMiB = 1 << 20;

struct MethodDef {  // PyMethodDef
  const char* name;
  void* (*call)(void*, void*);
  int flags;
  const char* doc;
};
constexpr int kNoArguments = 4;  // METH_NOARGS

void* g_python;
void* g_none;

template <typename Function>
Function Python(const char* name) {
  void* found = dlsym(g_python, name);
  if (found == nullptr) std::exit(std::fprintf(stderr, "no %s\n", name));
  return reinterpret_cast<Function>(found);
}

void Allocate(size_t mib) {
  CUdeviceptr address = 0;
  if (cuMemAlloc(&address, mib * kMiB) != CUDA_SUCCESS) std::exit(std::fprintf(stderr, "no memory\n"));
}

void* AllocateFromPython(void*, void*) {
  Allocate(16);
  static const auto keep = Python<void (*)(void*)>("Py_IncRef");
  keep(g_none);
  return g_none;
}

void Run(const char* home) {
  static MethodDef method{"allocate", &AllocateFromPython, kNoArguments, nullptr};
  setenv("PYTHONHOME", home, 1);
  Python<void (*)()>("Py_Initialize")();
  g_none = Python<void*>("_Py_NoneStruct");
  void* function = Python<void* (*)(void*, void*, void*)>("PyCFunction_NewEx")(&method, nullptr, nullptr);
  void* main_module = Python<void* (*)(const char*)>("PyImport_AddModule")("__main__");
  Python<int (*)(void*, const char*, void*)>("PyObject_SetAttrString")(main_module, "allocate", function);
  const char* script = "def embedded():\n  allocate()\n\nclass Within:\n  embedded()\n";
  if (Python<int (*)(const char*)>("PyRun_SimpleString")(script) != 0) std::exit(1);
  Python<int (*)()>("Py_FinalizeEx")();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  CUdevice device = 0;
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS) return 1;
  if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS) return 1;
  Allocate(1);
  g_python = dlopen(argv[1], RTLD_NOW | (std::strcmp(argv[3], "local") == 0 ? RTLD_LOCAL : RTLD_GLOBAL));
  if (g_python == nullptr) return std::fprintf(stderr, "%s\n", dlerror());
  Run(argv[2]);
  Allocate(2);
  Run(argv[2]);
  Allocate(4);
  return 0;
}
