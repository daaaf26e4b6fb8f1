// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The few functions of Python's stable C API that the helper needs, looked up in the program's own interpreter: we
// neither link with it nor include its headers.
//
// Thread-safety: Load from any thread, idempotent. Failure: Load returns nullptr where a function is missing.

#ifndef GPUMEM_SHIM_PYTHON_API_H_
#define GPUMEM_SHIM_PYTHON_API_H_

#include <cstddef>

namespace gpumemshim::python {

using Object = void;
using Function = Object* (*)(Object* self, Object* arguments);

// PyMethodDef, part of the stable ABI.
struct Method {
  const char* name;
  Function function;
  int flags;
  const char* doc;
};
inline constexpr int kVarArguments = 1;  // METH_VARARGS
inline constexpr int kFileInput = 257;   // Py_file_input

struct Api {
  int (*is_initialized)();  // any thread, any time
  int (*add_pending_call)(int (*call)(void*), void* argument);
  Object* (*compile)(const char* text, const char* file, int start);
  Object* (*evaluate)(Object* code, Object* globals, Object* locals);
  Object* (*module_fields)(Object* module);  // borrowed
  Object* (*new_dict)();
  int (*set_item)(Object* dict, const char* key, Object* value);
  Object* (*get_item)(Object* dict, const char* key);  // borrowed
  Object* (*new_module)(const char* name);
  int (*set_attribute)(Object* object, const char* name, Object* value);
  Object* (*get_attribute)(Object* object, const char* name);
  Object* (*plain_attribute)(Object* object, Object* name);
  Object* (*new_function)(Method* method, Object* self, Object* module);
  Object* (*call)(Object* callable, Object* arguments);
  int (*parse)(Object* arguments, const char* format, ...);
  int (*bytes)(Object* object, char** text, std::ptrdiff_t* size);
  Object* (*new_number)(unsigned long long value);  // NOLINT(google-runtime-int): Python's type
  Object* (*new_string)(const char* text);
  void (*clear_error)();
  Object* (*has_error)();
  int (*error_matches)(Object* exception);
  void (*increment)(Object* object);
  void (*decrement)(Object* object);
  Object* (*type_of)(Object* object);
  int (*is_subtype)(Object* type, Object* base);
  Object* (*modules)();                 // borrowed
  Object* (*of_sys)(const char* name);  // borrowed
  Object* (*new_list)(std::ptrdiff_t size);
  int (*append)(Object* list, Object* object);
  int (*insert)(Object* list, std::ptrdiff_t index, Object* object);
  std::ptrdiff_t (*list_size)(Object* list);
  Object* (*list_item)(Object* list, std::ptrdiff_t index);  // borrowed
  Object* (*new_tuple)(std::ptrdiff_t size);
  std::ptrdiff_t (*tuple_size)(Object* tuple);
  Object* (*tuple_item)(Object* tuple, std::ptrdiff_t index);                  // borrowed
  int (*set_tuple_item)(Object* tuple, std::ptrdiff_t index, Object* object);  // takes the reference
  Object* (*build)(const char* format, ...);
  Object* (*call_with)(Object* callable, ...);  // ends with nullptr
  Object* (*call_method)(Object* object, const char* name, const char* format, ...);
  Object* (*new_reference)(Object* object, Object* callback);
  unsigned long long (*as_number)(Object* number);  // NOLINT(google-runtime-int): Python's type
  Object* (*function_code)(Object* function);       // borrowed
  Object* (*current_thread)();                      // a thread's state, and an interpreter's: no objects
  Object* (*interpreter_of)(Object* thread);
  Object* (*first_thread)(Object* interpreter);
  Object* (*next_thread)(Object* thread);
  Object* (*thread_frame)(Object* thread);
  Object* (*frame_code)(Object* frame);
  Object* (*frame_back)(Object* frame);
  // Absent from older versions: nullptr.
  void (*enter_tracing)(Object* thread);
  void (*leave_tracing)(Object* thread);
  int (*collector_on)();
  int (*collector_off)();
  void* (*type_slot)(Object* type, int slot);  // also of types that are not of the heap: from 3.10 on
  void (*visit_objects)(int (*visit)(Object* object, void* argument), void* argument);
  Object* exception;  // the class Exception
  Object* none;
  Object* true_object;
  Object* false_object;
  Object* type_type;
  Object* tuple_type;
  Object* list_type;
  Object* function_type;
  Object* module_type;
};

// Also nullptr once the interpreter is being ended: nothing may be asked of it any more.
const Api* Load();

// With the GIL held: runs `source`, and returns its globals, which the caller has a reference to. Among them before it
// runs: the builtins, a name and file of our own, its code, and `record` where there is one. nullptr: an error is set,
// or it does not compile.
Object* RunSource(const Api* api, const char* source, Object* record);

// What a pending call returns. An Exception is cleared; what is none is the program's: an interrupt, or an exit asked
// for by a signal handler.
int EndCall(const Api* api);

// Gives `module` the functions. False: Python's error is set.
template <size_t kCount>
bool AddFunctions(const Api* api, Object* module, Method (&methods)[kCount]) {
  for (Method& method : methods) {
    Object* const function = api->new_function(&method, nullptr, nullptr);
    if (function == nullptr) return false;
    const bool is_set = api->set_attribute(module, method.name, function) == 0;
    api->decrement(function);
    if (!is_set) return false;
  }
  return true;
}

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_API_H_
