// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// embeds_static_host HOME: a C++ program with Python linked into it (libpythonX.Y.a) that runs a script which allocates
// device memory, in Python called from C++ called from Python. Built by embeds_static_test.py for each interpreter that
// has such a library, with and without -rdynamic.

#include <Python.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr size_t kMiB = 1 << 20;

template <typename Function>
Function Driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) std::exit(std::fprintf(stderr, "no %s\n", name));
  return reinterpret_cast<Function>(found);
}

void Check(int result) {
  if (result != 0) std::exit(std::fprintf(stderr, "CUDA error %d\n", result));
}

void Allocate(size_t mib) {
  uint64_t address = 0;
  Check(Driver<int (*)(uint64_t*, size_t)>("cuMemAlloc_v2")(&address, mib * kMiB));
}

PyObject* AllocateFromPython(PyObject*, PyObject*) {
  Allocate(16);
  Py_RETURN_NONE;
}

PyObject* CallBack(PyObject*, PyObject* function) { return PyObject_CallObject(function, nullptr); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  void* context = nullptr;
  int device = 0;
  Check(Driver<int (*)(unsigned)>("cuInit")(0));
  Check(Driver<int (*)(int*, int)>("cuDeviceGet")(&device, 0));
  Check(Driver<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device));
  Check(Driver<int (*)(void*)>("cuCtxSetCurrent")(context));
  Allocate(1);
  static PyMethodDef methods[] = {{"allocate", &AllocateFromPython, METH_NOARGS, nullptr},
                                  {"call_back", &CallBack, METH_O, nullptr}};
  setenv("PYTHONHOME", argv[1], 1);
  Py_Initialize();
  PyObject* main_module = PyImport_AddModule("__main__");
  for (PyMethodDef& method : methods)
    PyObject_SetAttrString(main_module, method.ml_name, PyCFunction_New(&method, nullptr));
  const char* script =
      "def inner():\n  allocate()\n\nclass Within:\n  def method(self):\n    call_back(inner)\n\nWithin().method()\n";
  if (PyRun_SimpleString(script) != 0) return 1;
  if (Py_FinalizeEx() != 0) return 1;
  Allocate(2);
  return 0;
}
