// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/objects.h"

#include <cstdint>
#include <iterator>
#include <utility>

#include "shim/base/clock.h"
#include "shim/stack/module_objects.h"

namespace gpumemshim::python {
namespace {

using Number = unsigned long long;  // NOLINT(google-runtime-int): what the format "K" is for

constexpr int kMaxThreads = 4096;
constexpr int kMaxFrames = 20000;         // of a thread
constexpr Number kMaxObjects = 20000000;  // that the collector knows: about 0.3 s

const Api* g_python;

// A new reference, given back at the end of the scope.
class Owned {
 public:
  explicit Owned(Object* object) : object_(object) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (object_ != nullptr) g_python->decrement(object_);
  }
  Object* get() const { return object_; }
  Object* Release() { return std::exchange(object_, nullptr); }
  void Reset(Object* object) {
    if (object_ != nullptr) g_python->decrement(object_);
    object_ = object;
  }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  Object* object_;
};

Object* Keep(Object* object) {
  g_python->increment(object);
  return object;
}

Object* None() { return Keep(g_python->none); }

// What the program's objects are not asked for: nothing that failed here is anybody's business.
Object* NoneAfterError() {
  g_python->clear_error();
  return None();
}

bool IsOfType(Object* object, Object* type) {
  const Owned own(g_python->type_of(object));
  return own.get() == type;
}

bool IsA(Object* object, Object* type) {
  const Owned own(g_python->type_of(object));
  const Owned metatype(g_python->type_of(type));
  return g_python->is_subtype(metatype.get(), g_python->type_type) != 0 && g_python->is_subtype(own.get(), type) != 0;
}

Object* IsAFunction(Object*, Object* arguments) {
  Object *object = nullptr, *type = nullptr;
  if (g_python->parse(arguments, "OO", &object, &type) == 0) return nullptr;
  return Keep(IsA(object, type) ? g_python->true_object : g_python->false_object);
}

Object* Address(Object*, Object* arguments) {
  Object* object = nullptr;
  if (g_python->parse(arguments, "O", &object) == 0) return nullptr;
  return g_python->new_number(reinterpret_cast<uintptr_t>(object));
}

Object* Modules(Object*, Object*) {
  Object* const modules = g_python->modules();
  return modules == nullptr ? NoneAfterError() : Keep(modules);
}

Object* Code(Object*, Object* arguments) {
  Object* function = nullptr;
  if (g_python->parse(arguments, "O", &function) == 0) return nullptr;
  return IsOfType(function, g_python->function_type) ? Keep(g_python->function_code(function)) : None();
}

// The frames of one thread that run `code`, outermost first; nullptr: an error is set.
Object* CallsOf(Object* thread, Object* code) {
  Owned found(g_python->new_list(0));
  Owned frame(found ? g_python->thread_frame(thread) : nullptr);
  for (int count = 0; frame && count < kMaxFrames; ++count) {
    const Owned running(g_python->frame_code(frame.get()));
    if (running.get() == code && g_python->insert(found.get(), 0, frame.get()) != 0) return nullptr;
    frame.Reset(g_python->frame_back(frame.get()));
  }
  return found.Release();
}

Object* Calls(Object*, Object* arguments) {
  Object* code = nullptr;
  if (g_python->parse(arguments, "O", &code) == 0) return nullptr;
  Owned all(g_python->new_list(0));
  Object* thread = all ? g_python->first_thread(g_python->interpreter_of(g_python->current_thread())) : nullptr;
  for (int count = 0; thread != nullptr && count < kMaxThreads; ++count, thread = g_python->next_thread(thread)) {
    const Owned calls(CallsOf(thread, code));
    if (!calls) return nullptr;
    if (g_python->list_size(calls.get()) != 0 && g_python->append(all.get(), calls.get()) != 0) return nullptr;
  }
  return all.Release();
}

Object* Callers(Object*, Object*) {
  Owned codes(g_python->new_list(0));
  Owned frame(codes ? g_python->thread_frame(g_python->current_thread()) : nullptr);
  for (int count = 0; frame && count < kMaxFrames; ++count) {
    const Owned code(g_python->frame_code(frame.get()));
    if (g_python->append(codes.get(), code.get()) != 0) return nullptr;
    frame.Reset(g_python->frame_back(frame.get()));
  }
  return codes.Release();
}

// `getters` but the first, each called with `object`.
Object* ReadAll(Object* getters, Object* object) {
  const std::ptrdiff_t count = g_python->tuple_size(getters);
  Owned values(g_python->new_tuple(count - 1));
  for (std::ptrdiff_t i = 1; values && i < count; ++i) {
    Object* value = g_python->call_with(g_python->tuple_item(getters, i), object, nullptr);
    if (value == nullptr) value = NoneAfterError();
    if (g_python->set_tuple_item(values.get(), i - 1, value) != 0) return nullptr;
  }
  return values.Release();
}

Object* Read(Object*, Object* arguments) {
  Object *getters = nullptr, *object = nullptr;
  if (g_python->parse(arguments, "O!O", g_python->tuple_type, &getters, &object) == 0) return nullptr;
  const CollectorOff off;
  Object* const make_guard = g_python->tuple_item(getters, 0);
  if (make_guard == nullptr) return nullptr;
  if (make_guard == g_python->none) return ReadAll(getters, object);
  const Owned guard(g_python->call(make_guard, nullptr));
  const Owned entered(guard ? g_python->call_method(guard.get(), "__enter__", nullptr) : nullptr);
  if (!entered) return NoneAfterError();
  Object* const values = ReadAll(getters, object);
  const Owned left(
      g_python->call_method(guard.get(), "__exit__", "OOO", g_python->none, g_python->none, g_python->none));
  if (!left) g_python->clear_error();
  return values;
}

Object* Attribute(Object*, Object* arguments) {
  Object *object = nullptr, *name = nullptr;
  if (g_python->parse(arguments, "OO", &object, &name) == 0) return nullptr;
  Object* const value = g_python->plain_attribute(object, name);
  return value == nullptr ? NoneAfterError() : value;
}

struct Search {
  Object* type;  // None: all
  Object* found;
  Number left;
  bool failed;
  struct Known {
    Object* kind;
    bool is_one;
  } known[256];  // kinds that were asked about before, by address
};

void Look(Search* search, Object* object) {
  if (object == search->found) return;  // it would keep itself
  Object* const kind = g_python->type_of(object);
  g_python->decrement(kind);  // the object has it
  Search::Known& known = search->known[(reinterpret_cast<uintptr_t>(kind) >> 4) % std::size(search->known)];
  if (known.kind != kind) known = {kind, search->type == g_python->none || IsA(object, search->type)};
  if (known.is_one && g_python->append(search->found, object) != 0) search->failed = true;
}

int Visit(Object* object, void* argument) {
  auto* const search = static_cast<Search*>(argument);
  if (search->left-- == 0) search->failed = true;
  if (!search->failed) Look(search, object);
  return search->failed ? 0 : 1;
}

// Before CPython 3.12: all objects in a list, which is what is found where all are asked for. How many there will be is
// not known before; how many blocks there are is.
Object* SearchList(Search* search) {
  Object* const gc = g_python->get_item(g_python->modules(), "gc");
  Object* const count = g_python->of_sys("getallocatedblocks");
  const Owned blocks(count == nullptr ? nullptr : g_python->call(count, nullptr));
  if (gc == nullptr || !blocks || g_python->as_number(blocks.get()) > search->left) {
    search->failed = true;
    return nullptr;
  }
  Owned objects(g_python->call_method(gc, "get_objects", nullptr));
  if (!objects || !IsOfType(objects.get(), g_python->list_type)) {
    search->failed = true;
    return nullptr;
  }
  if (search->type == g_python->none) return objects.Release();
  for (std::ptrdiff_t i = 0, size = g_python->list_size(objects.get()); i < size && !search->failed; ++i)
    Look(search, g_python->list_item(objects.get(), i));
  return nullptr;
}

// Of a weak reference. In C, so that no signal handler's exception is lost in it.
Object* Ended(Object* self, Object*) {
  Number address = 0;
  Object *number = nullptr, *ended = nullptr;
  if (g_python->parse(self, "KOO", &address, &number, &ended) == 0) return nullptr;
  stack::ForgetObject(reinterpret_cast<const void*>(static_cast<uintptr_t>(address)));
  return g_python->append(ended, number) == 0 ? None() : nullptr;
}

Method g_ended = {"ended", &Ended, kVarArguments, "of a weak reference"};

Object* Reference(Object*, Object* arguments) {
  Object *object = nullptr, *number = nullptr, *ended = nullptr;
  if (g_python->parse(arguments, "OOO", &object, &number, &ended) == 0) return nullptr;
  Owned callback(nullptr);
  if (ended != g_python->none) {
    const Owned self(g_python->build("KOO", Number{reinterpret_cast<uintptr_t>(object)}, number, ended));
    callback.Reset(self ? g_python->new_function(&g_ended, self.get(), nullptr) : nullptr);
    if (!callback) return NoneAfterError();
  }
  Object* const reference = g_python->new_reference(object, callback.get());
  return reference == nullptr ? NoneAfterError() : reference;
}

Object* Quietly(Object*, Object* arguments) {
  Object *function = nullptr, *passed = nullptr;
  if (g_python->parse(arguments, "OO!", &function, g_python->tuple_type, &passed) == 0) return nullptr;
  return CallQuietly(g_python, function, passed);
}

Object* Clock(Object*, Object*) { return g_python->new_number(MonotonicNs()); }

Object* Work(Object*, Object*) { return g_python->new_number(WorkNs()); }

Method g_methods[] = {
    {"is_a", &IsAFunction, kVarArguments, "is_a(object, class)"},
    {"address", &Address, kVarArguments, "address(object)"},
    {"modules", &Modules, kVarArguments, "modules()"},
    {"code", &Code, kVarArguments, "code(function)"},
    {"calls", &Calls, kVarArguments, "calls(code)"},
    {"callers", &Callers, kVarArguments, "callers()"},
    {"read", &Read, kVarArguments, "read(getters, object)"},
    {"attribute", &Attribute, kVarArguments, "attribute(object, name)"},
    {"instances", &Instances, kVarArguments, "instances(class)"},
    {"reference", &Reference, kVarArguments, "reference(object, number, ended)"},
    {"quietly", &Quietly, kVarArguments, "quietly(function, arguments)"},
    {"clock", &Clock, kVarArguments, "clock()"},
    {"work", &Work, kVarArguments, "work()"},
};

}  // namespace

CollectorOff::CollectorOff() : was_on_(g_python->collector_off != nullptr && g_python->collector_off() != 0) {}

CollectorOff::~CollectorOff() {
  if (was_on_) g_python->collector_on();
}

Object* Instances(Object*, Object* arguments) {
  Object* type = nullptr;
  if (g_python->parse(arguments, "O", &type) == 0) return nullptr;
  Owned found(g_python->new_list(0));
  if (!found) return nullptr;
  Search search{type, found.get(), kMaxObjects, false, {}};
  if (g_python->visit_objects != nullptr) {
    g_python->visit_objects(&Visit, &search);
  } else {
    if (Object* const all = SearchList(&search); all != nullptr) found.Reset(all);
  }
  return search.failed ? NoneAfterError() : found.Release();
}

bool AddObjectFunctions(const Api* api, Object* record) {
  g_python = api;
  if (api->set_attribute(record, "Exception", api->exception) != 0) return false;
  return AddFunctions(api, record, g_methods);
}

Object* CallQuietly(const Api* api, Object* function, Object* arguments) {
  if (api->enter_tracing == nullptr || api->leave_tracing == nullptr) return api->call(function, arguments);
  Object* const thread = api->current_thread();
  api->enter_tracing(thread);
  Object* const result = api->call(function, arguments);
  api->leave_tracing(thread);
  return result;
}

}  // namespace gpumemshim::python
