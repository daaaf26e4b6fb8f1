// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A Python callable that runs another one and lets a third look at its result, with no Python frame of its own around
// the call: a recorder that takes the stack of an allocation inside of it sees the program's frames alone.
//
//   simcuda_observe((mask, call, numbers, plain, guard, before, after)) -> callable(keys, *args, **kwargs)
//     before(args, kwargs)            None: go on; a tuple of one: the result, without a call
//     call(keys & mask, *args, **kwargs)
//     plain(*args, **kwargs)          instead, where one of the arguments named by `numbers` (a tuple of positions) is
//     a
//                                     number: PyTorch shows a tensor that wraps one so, and does not take it back.
//                                     `guard` = (type, included, excluded, without, cuda, cpu) keeps it from coming
//                                     here again: a context manager of type(included() | cuda or cpu, excluded() |
//                                     without)
//     after(result, args, kwargs)     None, or a tuple of one: the result
//
// While before or after run, observed calls of this thread are plain calls. An error of theirs is dropped: what they do
// must not change the program. Only functions of Python's stable ABI are used, found at the first call.
//
// Thread-safety: with the GIL held. Ownership: as of Python objects. Failure: NULL where Python cannot be found or a
// call fails, with Python's error set by whoever failed.
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
  Object* (*bit_and)(Object*, Object*);
  Object* (*bit_or)(Object*, Object*);
  intptr_t (*as_size)(Object*);
  int (*is_instance)(Object*, Object* type);
  Object* (*attribute)(Object*, const char* name);
  void (*increment)(Object*);
  void (*decrement)(Object*);
  void (*clear_error)();
  void (*fetch_error)(Object** type, Object** value, Object** trace);
  void (*restore_error)(Object* type, Object* value, Object* trace);
  Object *none, *yes, *whole, *floating, *complex;
  bool ok;
};

template <typename Pointer>
bool Find(const char* name, Pointer* pointer) {
  *pointer = reinterpret_cast<Pointer>(dlsym(RTLD_DEFAULT, name));
  return *pointer != nullptr;
}

const Python& GetPython() {
  static Python python;  // under the GIL
  if (python.ok) return python;
  python.ok = Find("PyCFunction_NewEx", &python.new_function) && Find("PyObject_Call", &python.call) &&
              Find("PyTuple_GetItem", &python.item) && Find("PyTuple_Size", &python.size) &&
              Find("PyTuple_New", &python.new_tuple) && Find("PyTuple_SetItem", &python.set_item) &&
              Find("PyTuple_GetSlice", &python.slice) && Find("PyNumber_And", &python.bit_and) &&
              Find("PyNumber_Or", &python.bit_or) && Find("PyLong_AsSsize_t", &python.as_size) &&
              Find("PyObject_IsInstance", &python.is_instance) && Find("PyObject_GetAttrString", &python.attribute) &&
              Find("_Py_TrueStruct", &python.yes) && Find("Py_IncRef", &python.increment) &&
              Find("Py_DecRef", &python.decrement) && Find("PyErr_Clear", &python.clear_error) &&
              Find("PyErr_Fetch", &python.fetch_error) && Find("PyErr_Restore", &python.restore_error) &&
              Find("_Py_NoneStruct", &python.none) && Find("PyLong_Type", &python.whole) &&
              Find("PyFloat_Type", &python.floating) && Find("PyComplex_Type", &python.complex);
  return python;
}

enum Part { kMask, kCall, kNumbers, kPlain, kGuard, kBefore, kAfter, kParts };

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

// What `look` returns for the arguments; a borrowed None, or a new reference to what is in its tuple. Errors are
// dropped.
Object* Look(const Python& python, Object* look, Object* arguments) {
  if (look == python.none || arguments == nullptr) return nullptr;
  t_looking = true;
  Object* const answer = python.call(look, arguments, nullptr);
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

bool HasNumber(const Python& python, Object* numbers, Object* args) {
  const intptr_t count = python.size(args);
  for (intptr_t i = 0; i < python.size(numbers); ++i) {
    const intptr_t at = python.as_size(python.item(numbers, i)) + 1;  // behind the keys
    if (at >= count) continue;
    Object* const value = python.item(args, at);
    Object* const types[] = {python.whole, python.floating, python.complex};
    for (Object* type : types) {
      if (python.is_instance(value, type) == 1) return true;
    }
  }
  return false;
}

bool IsOnDevice(const Python& python, Object* args) {
  for (intptr_t i = 0; i < python.size(args); ++i) {
    Object* const on_device = python.attribute(python.item(args, i), "is_cuda");
    if (on_device == nullptr) {
      python.clear_error();  // no tensor
      continue;
    }
    const bool answer = on_device == python.yes;
    python.decrement(on_device);
    if (answer) return true;
  }
  return false;
}

// A call without arguments, `|` a set.
Object* KeysWith(const Python& python, Object* now, Object* more) {
  Object* const nothing = python.new_tuple(0);
  Object* const keys = nothing == nullptr ? nullptr : python.call(now, nothing, nullptr);
  if (nothing != nullptr) python.decrement(nothing);
  Object* const both = keys == nullptr ? nullptr : python.bit_or(keys, more);
  if (keys != nullptr) python.decrement(keys);
  return both;
}

// guard.__enter__() or guard.__exit__(None, None, None).
bool CallMethod(const Python& python, Object* guard, const char* name, intptr_t nones) {
  Object* const method = python.attribute(guard, name);
  Object* const arguments = python.new_tuple(nones);
  for (intptr_t i = 0; arguments != nullptr && i < nones; ++i) {
    python.increment(python.none);
    python.set_item(arguments, i, python.none);
  }
  Object* const done = method == nullptr || arguments == nullptr ? nullptr : python.call(method, arguments, nullptr);
  for (Object* object : {method, arguments, done}) {
    if (object != nullptr) python.decrement(object);
  }
  return done != nullptr;
}

Object* NewGuard(const Python& python, Object* guard, Object* own) {
  enum { kType, kIncluded, kExcluded, kWithout, kCuda, kCpu };
  Object* const device = python.item(guard, IsOnDevice(python, own) ? kCuda : kCpu);
  Object* const included = KeysWith(python, python.item(guard, kIncluded), device);
  Object* const excluded = KeysWith(python, python.item(guard, kExcluded), python.item(guard, kWithout));
  Object* const arguments = included == nullptr || excluded == nullptr ? nullptr : Tuple(python, included, excluded);
  Object* const made = arguments == nullptr ? nullptr : python.call(python.item(guard, kType), arguments, nullptr);
  for (Object* object : {included, excluded, arguments}) {
    if (object != nullptr) python.decrement(object);
  }
  return made;
}

Object* Plain(const Python& python, Object* parts, Object* own, Object* kwargs) {
  Object* const guard = NewGuard(python, python.item(parts, kGuard), own);
  if (guard == nullptr) return nullptr;
  Object* result = nullptr;
  if (CallMethod(python, guard, "__enter__", 0)) {
    result = python.call(python.item(parts, kPlain), own, kwargs);
    Object *type = nullptr, *value = nullptr, *trace = nullptr;  // the call below must not meet an error
    if (result == nullptr) python.fetch_error(&type, &value, &trace);
    if (!CallMethod(python, guard, "__exit__", 3)) python.clear_error();
    if (result == nullptr) python.restore_error(type, value, trace);
  }
  python.decrement(guard);
  return result;
}

Object* Real(const Python& python, Object* parts, Object* args, Object* own, Object* kwargs) {
  if (HasNumber(python, python.item(parts, kNumbers), args)) return Plain(python, parts, own, kwargs);
  const intptr_t count = python.size(args);
  Object* const keys = python.bit_and(python.item(args, 0), python.item(parts, kMask));
  Object* const changed = keys == nullptr ? nullptr : python.new_tuple(count);
  if (changed == nullptr) {
    if (keys != nullptr) python.decrement(keys);
    return nullptr;
  }
  python.set_item(changed, 0, keys);
  for (intptr_t i = 1; i < count; ++i) {
    Object* const item = python.item(args, i);
    python.increment(item);
    python.set_item(changed, i, item);
  }
  Object* const result = python.call(python.item(parts, kCall), changed, kwargs);
  python.decrement(changed);
  return result;
}

Object* Observed(Object* parts, Object* args, Object* kwargs) {
  const Python& python = GetPython();
  Object* const own = python.slice(args, 1, python.size(args));
  if (own == nullptr) return nullptr;
  Object* const keywords = kwargs == nullptr ? python.none : kwargs;
  Object* result = nullptr;
  if (t_looking) {
    result = Real(python, parts, args, own, kwargs);
  } else {
    if (python.item(parts, kBefore) != python.none) {
      Object* const given = Tuple(python, own, keywords);
      result = Look(python, python.item(parts, kBefore), given);
      if (given != nullptr) python.decrement(given);
    }
    if (result == nullptr && (result = Real(python, parts, args, own, kwargs)) != nullptr) {
      Object* const given = Tuple(python, result, own, keywords);
      Object* const other = Look(python, python.item(parts, kAfter), given);
      if (given != nullptr) python.decrement(given);
      if (other != nullptr) {
        python.decrement(result);
        result = other;
      }
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
