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
  // What only some versions have.
  template <typename Pointer>
  void FindOptional(const char* name, Pointer* out) {
    *out = reinterpret_cast<Pointer>(stack::FindInInterpreter(name));
  }
  bool all() const { return all_; }

 private:
  bool all_ = true;
};

// What looks at the program's objects.
void FindForObjects(Finder* finder, Api* api) {
  finder->Find("PyObject_Type", &api->type_of);
  finder->Find("PyType_IsSubtype", &api->is_subtype);
  finder->Find("PyImport_GetModuleDict", &api->modules);
  finder->Find("PySys_GetObject", &api->of_sys);
  finder->Find("PyList_New", &api->new_list);
  finder->Find("PyList_Append", &api->append);
  finder->Find("PyList_Insert", &api->insert);
  finder->Find("PyList_Size", &api->list_size);
  finder->Find("PyList_GetItem", &api->list_item);
  finder->Find("PyTuple_New", &api->new_tuple);
  finder->Find("PyTuple_Size", &api->tuple_size);
  finder->Find("PyTuple_GetItem", &api->tuple_item);
  finder->Find("PyTuple_SetItem", &api->set_tuple_item);
  finder->Find("Py_BuildValue", &api->build);
  finder->Find("PyObject_CallFunctionObjArgs", &api->call_with);
  finder->Find("PyObject_CallMethod", &api->call_method);
  finder->Find("PyWeakref_NewRef", &api->new_reference);
  finder->Find("PyObject_GenericGetAttr", &api->plain_attribute);
  finder->Find("PyLong_AsUnsignedLongLong", &api->as_number);
  finder->Find("PyFunction_GetCode", &api->function_code);
  finder->Find("PyThreadState_Get", &api->current_thread);
  finder->Find("PyThreadState_GetInterpreter", &api->interpreter_of);
  finder->Find("PyInterpreterState_ThreadHead", &api->first_thread);
  finder->Find("PyThreadState_Next", &api->next_thread);
  finder->Find("PyThreadState_GetFrame", &api->thread_frame);
  finder->Find("PyFrame_GetCode", &api->frame_code);
  finder->Find("PyFrame_GetBack", &api->frame_back);
  finder->Find("_Py_TrueStruct", &api->true_object);
  finder->Find("_Py_FalseStruct", &api->false_object);
  finder->Find("PyType_Type", &api->type_type);
  finder->Find("PyTuple_Type", &api->tuple_type);
  finder->Find("PyList_Type", &api->list_type);
  finder->Find("PyFunction_Type", &api->function_type);
  finder->Find("PyModule_Type", &api->module_type);
  finder->FindOptional("PyThreadState_EnterTracing", &api->enter_tracing);
  finder->FindOptional("PyThreadState_LeaveTracing", &api->leave_tracing);
  finder->FindOptional("PyGC_Enable", &api->collector_on);
  finder->FindOptional("PyGC_Disable", &api->collector_off);
  if (api->collector_off != nullptr) finder->FindOptional("PyType_GetSlot", &api->type_slot);  // from 3.10 on
  finder->FindOptional("PyUnstable_GC_VisitObjects", &api->visit_objects);
}

bool FindAll(Api* api) {
  Finder finder;
  FindForObjects(&finder, api);
  finder.Find("Py_IsInitialized", &api->is_initialized);
  finder.Find("Py_AddPendingCall", &api->add_pending_call);
  finder.Find("Py_CompileString", &api->compile);
  finder.Find("PyEval_EvalCode", &api->evaluate);
  finder.Find("PyModule_GetDict", &api->module_fields);
  finder.Find("PyDict_New", &api->new_dict);
  finder.Find("PyDict_SetItemString", &api->set_item);
  finder.Find("PyDict_GetItemString", &api->get_item);
  finder.Find("PyModule_New", &api->new_module);
  finder.Find("PyObject_SetAttrString", &api->set_attribute);
  finder.Find("PyObject_GetAttrString", &api->get_attribute);
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

// The interpreter's. Those of the frame that we come into may be others: collections.namedtuple's functions have none.
Object* Builtins(const Api* api) {
  Object* const module = api->get_item(api->modules(), "builtins");
  Object* const fields = module == nullptr ? nullptr : api->module_fields(module);
  if (fields != nullptr) return fields;
  api->clear_error();
  return api->none;
}

// The program's trace and profile functions see nothing of it (CPython 3.11 and later).
Object* EvaluateQuietly(const Api* api, Object* code, Object* globals) {
  if (api->enter_tracing == nullptr || api->leave_tracing == nullptr) return api->evaluate(code, globals, globals);
  Object* const thread = api->current_thread();
  api->enter_tracing(thread);
  Object* const result = api->evaluate(code, globals, globals);
  api->leave_tracing(thread);
  return result;
}

}  // namespace

const Api* Load() {
  if (!g_loaded.load(std::memory_order_acquire)) {
    if (!stack::KnowsInterpreter() || !FindAll(&g_api)) return nullptr;
    g_loaded.store(true, std::memory_order_release);
  }
  return g_api.is_initialized() != 0 ? &g_api : nullptr;
}

Object* RunSource(const Api* api, const char* source, Object* record) {
  Object* globals = api->new_dict();
  Object* file = globals == nullptr ? nullptr : api->new_string(kFile);
  Object* code = file == nullptr ? nullptr : api->compile(source, kFile, kFileInput);
  // No signal handler runs while C code compiles: it failed, or an audit hook was against it.
  if (code == nullptr) api->clear_error();
  Object* result = nullptr;
  if (code != nullptr && api->set_item(globals, "__builtins__", Builtins(api)) == 0 &&
      api->set_item(globals, "__file__", file) == 0 && api->set_item(globals, "__name__", file) == 0 &&
      api->set_item(globals, "__code__", code) == 0 &&
      (record == nullptr || api->set_item(globals, "record", record) == 0)) {
    result = EvaluateQuietly(api, code, globals);
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
