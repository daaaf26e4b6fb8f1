// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/api.h"

#include <atomic>

#include "shim/stack/python_interpreter.h"

namespace gpumemshim::python {
namespace {

constexpr char kFile[] = "<gpumemshim>";  // in tracebacks

constinit Api g_api{};
std::atomic<bool> g_loaded{false};

class Finder {
 public:
  template <typename Pointer>
  void Find(const char* name, Pointer* out) {
    *out = reinterpret_cast<Pointer>(stack::FindInInterpreter(name));
    all_ = all_ && *out != nullptr;
  }
  bool all() const { return all_; }

 private:
  bool all_ = true;
};

bool FindAll(Api* api) {
  Finder finder;
  finder.Find("Py_IsInitialized", &api->is_initialized);
  finder.Find("Py_AddPendingCall", &api->add_pending_call);
  finder.Find("Py_CompileString", &api->compile);
  finder.Find("PyEval_EvalCode", &api->evaluate);
  finder.Find("PyEval_GetBuiltins", &api->builtins);
  finder.Find("PyImport_ImportModule", &api->import_module);
  finder.Find("PyDict_New", &api->new_dict);
  finder.Find("PyDict_SetItemString", &api->set_item);
  finder.Find("PyDict_GetItemString", &api->get_item);
  finder.Find("PyModule_New", &api->new_module);
  finder.Find("PyObject_SetAttrString", &api->set_attribute);
  finder.Find("PyCFunction_NewEx", &api->new_function);
  finder.Find("PyObject_CallObject", &api->call);
  finder.Find("PyArg_ParseTuple", &api->parse);
  finder.Find("PyBytes_AsStringAndSize", &api->bytes);
  finder.Find("PyLong_FromUnsignedLongLong", &api->new_number);
  finder.Find("PyUnicode_FromString", &api->new_string);
  finder.Find("PyErr_Clear", &api->clear_error);
  finder.Find("PyErr_Occurred", &api->has_error);
  finder.Find("PyErr_ExceptionMatches", &api->error_matches);
  finder.Find("Py_IncRef", &api->increment);
  finder.Find("Py_DecRef", &api->decrement);
  Object** exception = nullptr;
  finder.Find("PyExc_Exception", &exception);
  finder.Find("_Py_NoneStruct", &api->none);
  if (!finder.all()) return false;
  api->exception = *exception;
  return true;
}

}  // namespace

const Api* Load() {
  if (!g_loaded.load(std::memory_order_acquire)) {
    if (stack::FindInterpreter() == nullptr || !FindAll(&g_api)) return nullptr;
    g_loaded.store(true, std::memory_order_release);
  }
  return g_api.is_initialized() != 0 ? &g_api : nullptr;
}

Object* RunSource(const Api* api, const char* source, Object* record) {
  Object* globals = api->new_dict();
  Object* file = globals == nullptr ? nullptr : api->new_string(kFile);
  Object* code = file == nullptr ? nullptr : api->compile(source, kFile, kFileInput);
  Object* result = nullptr;
  if (code != nullptr && api->set_item(globals, "__builtins__", api->builtins()) == 0 &&
      api->set_item(globals, "__file__", file) == 0 && api->set_item(globals, "__name__", file) == 0 &&
      (record == nullptr || api->set_item(globals, "record", record) == 0)) {
    result = api->evaluate(code, globals, globals);
  }
  for (Object* object : {code, file, result}) {
    if (object != nullptr) api->decrement(object);
  }
  if (result != nullptr) return globals;
  if (globals != nullptr) api->decrement(globals);
  return nullptr;
}

int EndCall(const Api* api) {
  if (api->has_error() == nullptr) return 0;
  if (api->error_matches(api->exception) == 0) return -1;
  api->clear_error();
  return 0;
}

}  // namespace gpumemshim::python
