// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A Python callable that runs another one and lets a third look at its result, with no Python frame of its own around
// the call: a recorder that takes the stack of an allocation inside of it sees the program's frames alone.
//
//   simcuda_observe((call, before, after)) -> callable(keys, *args, **kwargs)
//     before(args, kwargs)            None: go on; a tuple of one: the result, without a call
//     call(keys, *args, **kwargs)     PyTorch's own kernel. It shows a tensor that wraps a number as that number, and
//                                     takes it back only on request: ToIValueAllowNumbersAsTensors.
//     after(result, args, kwargs)     None, or a tuple of one: the result
//
// While before or after run, observed calls of this thread are plain calls. An error of theirs is dropped: what they do
// must not change the program. Only functions of Python's stable ABI are used, found at the first call.
//
// Thread-safety: with the GIL held. Ownership: as of Python objects. Failure: NULL where Python or PyTorch's guard
// cannot be found or a call fails, with Python's error set by whoever failed.
#include <dlfcn.h>
#include <stdint.h>

#include <initializer_list>

#define PRELOAD_API extern "C" __attribute__((visibility("default")))

namespace {

using Object = void;

struct Method {
  const char* name;
  Object* (*function)(Object* self, Object* args, Object* kwargs);
  int flags;
  const char* documentation;
};
constexpr int kArgumentsAndKeywords = 3;  // METH_VARARGS | METH_KEYWORDS

struct Python {
  Object* (*new_function)(Method*, Object* self, Object* module);
  Object* (*call)(Object* callable, Object* args, Object* kwargs);
  Object* (*item)(Object* tuple, intptr_t index);  // borrowed
  intptr_t (*size)(Object* tuple);
  Object* (*new_tuple)(intptr_t size);
  int (*set_item)(Object* tuple, intptr_t index, Object* item);  // takes the reference
  Object* (*slice)(Object* tuple, intptr_t low, intptr_t high);
  void (*increment)(Object*);
  void (*decrement)(Object*);
  void (*clear_error)();
  Object* none;
  // torch::jit::ToIValueAllowNumbersAsTensors, which is one byte: what held before.
  void (*allow_numbers)(void* guard, bool allow);
  void (*allow_as_before)(void* guard);
  bool ok;
};

template <typename Pointer>
bool Find(const char* name, Pointer* pointer, void* library = RTLD_DEFAULT) {
  *pointer = reinterpret_cast<Pointer>(dlsym(library, name));
  return *pointer != nullptr;
}

bool FindGuard(Python* python) {
  void* const library = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);  // stays loaded: PyTorch runs from it
  return library != nullptr &&
         Find("_ZN5torch3jit29ToIValueAllowNumbersAsTensorsC1Eb", &python->allow_numbers, library) &&
         Find("_ZN5torch3jit29ToIValueAllowNumbersAsTensorsD1Ev", &python->allow_as_before, library);
}

const Python& GetPython() {
  static Python python;  // under the GIL
  if (python.ok) return python;
  python.ok = Find("PyCFunction_NewEx", &python.new_function) && Find("PyObject_Call", &python.call) &&
              Find("PyTuple_GetItem", &python.item) && Find("PyTuple_Size", &python.size) &&
              Find("PyTuple_New", &python.new_tuple) && Find("PyTuple_SetItem", &python.set_item) &&
              Find("PyTuple_GetSlice", &python.slice) && Find("Py_IncRef", &python.increment) &&
              Find("Py_DecRef", &python.decrement) && Find("PyErr_Clear", &python.clear_error) &&
              Find("_Py_NoneStruct", &python.none) && FindGuard(&python);
  return python;
}

enum Part { kCall, kBefore, kAfter, kParts };

thread_local bool t_looking = false;

Object* Tuple(const Python& python, Object* first, Object* second, Object* third = nullptr) {
  Object* const tuple = python.new_tuple(third == nullptr ? 2 : 3);
  if (tuple == nullptr) return nullptr;
  Object* const items[] = {first, second, third};
  for (intptr_t i = 0; i < (third == nullptr ? 2 : 3); ++i) {
    python.increment(items[i]);
    python.set_item(tuple, i, items[i]);
  }
  return tuple;
}

// A call in which PyTorch takes numbers for tensors.
Object* CallWithNumbers(const Python& python, Object* callable, Object* args, Object* kwargs) {
  char guard[16];
  python.allow_numbers(guard, true);
  Object* const result = python.call(callable, args, kwargs);
  python.allow_as_before(guard);
  return result;
}

// What `look` returns for the arguments; a borrowed None, or a new reference to what is in its tuple. Errors are
// dropped.
Object* Look(const Python& python, Object* look, Object* arguments) {
  if (look == python.none || arguments == nullptr) return nullptr;
  t_looking = true;
  Object* const answer = CallWithNumbers(python, look, arguments, nullptr);
  t_looking = false;
  if (answer == nullptr) {
    python.clear_error();
    return nullptr;
  }
  Object* result = nullptr;
  if (answer != python.none && python.size(answer) == 1) {
    result = python.item(answer, 0);
    if (result != nullptr) python.increment(result);
  }
  if (answer != python.none) python.clear_error();  // it was no tuple
  python.decrement(answer);
  return result;
}

Object* Observed(Object* parts, Object* args, Object* kwargs) {
  const Python& python = GetPython();
  Object* const call = python.item(parts, kCall);
  if (t_looking) return CallWithNumbers(python, call, args, kwargs);
  Object* const own = python.slice(args, 1, python.size(args));
  if (own == nullptr) return nullptr;
  Object* const keywords = kwargs == nullptr ? python.none : kwargs;
  Object* result = nullptr;
  if (python.item(parts, kBefore) != python.none) {
    Object* const given = Tuple(python, own, keywords);
    result = Look(python, python.item(parts, kBefore), given);
    if (given != nullptr) python.decrement(given);
  }
  if (result == nullptr && (result = CallWithNumbers(python, call, args, kwargs)) != nullptr) {
    Object* const given = Tuple(python, result, own, keywords);
    Object* const other = Look(python, python.item(parts, kAfter), given);
    if (given != nullptr) python.decrement(given);
    if (other != nullptr) {
      python.decrement(result);
      result = other;
    }
  }
  python.decrement(own);
  return result;
}

Method g_method = {"observed", Observed, kArgumentsAndKeywords, nullptr};

}  // namespace

// `parts` is a tuple in the order of Part; the callable keeps it.
PRELOAD_API void* simcuda_observe(void* parts) {
  const Python& python = GetPython();
  if (!python.ok || python.size(parts) != kParts) return nullptr;
  return python.new_function(&g_method, parts, nullptr);
}
