// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/natives.h"

#include <cstdint>

#include "shim/base/event.h"
#include "shim/python/existing.h"
#include "shim/python/failures.h"
#include "shim/python/injected_script.h"
#include "shim/python/objects.h"
#include "shim/ring/ring.h"
#include "shim/stack/module_objects.h"
#include "shim/stack/saved_tensors.h"
#include "shim/stack/thread_state.h"

namespace gpumemshim::python {
namespace {

using Number = unsigned long long;  // NOLINT(google-runtime-int): what the format "K" is for

const Api* g_python;

const void* Pointer(Number address) { return reinterpret_cast<const void*>(static_cast<uintptr_t>(address)); }

Object* None() {
  g_python->increment(g_python->none);
  return g_python->none;
}

Object* NumberOf(Object*, Object* arguments) {
  Number address = 0;
  if (g_python->parse(arguments, "K", &address) == 0) return nullptr;
  return g_python->new_number(stack::ObjectNumber(Pointer(address)));
}

Object* Forget(Object*, Object* arguments) {
  Number address = 0;
  if (g_python->parse(arguments, "K", &address) == 0) return nullptr;
  stack::ForgetObject(Pointer(address));
  return None();
}

Object* Named(Object*, Object* arguments) {
  Number number = 0;
  if (g_python->parse(arguments, "K", &number) == 0) return nullptr;
  stack::SetNamed(static_cast<uint32_t>(number));
  return None();
}

Object* Unnamed(Object*, Object*) { return g_python->new_number(stack::CountUnnamed()); }

Object* Define(Object*, Object* arguments) {
  Number field = 0;
  Object* message = nullptr;
  char* bytes = nullptr;
  std::ptrdiff_t size = 0;
  if (g_python->parse(arguments, "KO", &field, &message) == 0 || g_python->bytes(message, &bytes, &size) != 0)
    return nullptr;
  if (size <= ring::kMaxReadyBytes) ring::RecordReady(static_cast<uint32_t>(field), bytes, static_cast<uint32_t>(size));
  return None();
}

Object* Happened(Object*, Object* arguments) {
  Number kind = 0, handle = 0, address = 0, size = 0;
  if (g_python->parse(arguments, "KKKK", &kind, &handle, &address, &size) == 0) return nullptr;
  Event event{};
  event.kind = static_cast<EventKind>(kind);
  event.device = kNoDevice;
  event.handle = handle;
  event.address = address;
  event.size = size;
  if (event.kind == EventKind::kTorchLimit) event.device = static_cast<int16_t>(handle);
  const bool is_end = event.kind == EventKind::kMark && handle == kMarkProgramEnd;
  const bool is_known = event.kind == EventKind::kTensor || event.kind == EventKind::kOptimizerStep ||
                        event.kind == EventKind::kTorchLimit || is_end;
  if (is_known) ring::Record(event);
  return None();
}

Object* Layout(Object*, Object* arguments) {
  Number tensor = 0, data = 0;
  if (g_python->parse(arguments, "KK", &tensor, &data) == 0) return nullptr;
  stack::LearnTensorLayout(Pointer(tensor), Pointer(data));
  return None();
}

Object* Failed(Object*, Object* arguments) {
  Object* text = nullptr;
  int is_last = 0;
  char* bytes = nullptr;
  std::ptrdiff_t size = 0;
  if (g_python->parse(arguments, "Oi", &text, &is_last) == 0 || g_python->bytes(text, &bytes, &size) != 0)
    return nullptr;
  AddFailure(bytes, static_cast<size_t>(size), is_last != 0);
  return None();
}

Object* ExistingIsAsked(Object*, Object*) {
  Object* const asked = IsExistingAsked() ? g_python->true_object : g_python->false_object;
  g_python->increment(asked);
  return asked;
}

Object* Existing(Object*, Object* arguments) {
  ExistingThing thing{};
  if (g_python->parse(arguments, "KiKKKK", &thing.kind, &thing.device, &thing.address, &thing.size, &thing.requested,
                      &thing.stream) == 0) {
    return nullptr;
  }
  TellExisting(thing);
  return None();
}

Object* ExistingEnd(Object*, Object* arguments) {
  int result = 0;
  if (g_python->parse(arguments, "i", &result) == 0) return nullptr;
  EndExisting(static_cast<ExistingResult>(result));
  return None();
}

Object* Generation(Object*, Object*) {
  return g_python->new_number(stack::g_generation.load(std::memory_order_relaxed));
}

Method g_methods[] = {
    {"number", &NumberOf, kVarArguments, "number(address): of an object; given now where it has none, 0 = no room"},
    {"forget", &Forget, kVarArguments, "forget(address): the object there died"},
    {"named", &Named, kVarArguments, "named(number): the object was defined, so nobody has to be asked for it"},
    {"unnamed", &Unnamed, kVarArguments, "unnamed(): how many objects have a number and were not named"},
    {"define", &Define, kVarArguments, "define(field, bytes): an element of trace.proto's Definitions"},
    {"event", &Happened, kVarArguments, "event(kind, handle, address, size)"},
    {"layout", &Layout, kVarArguments, "layout(tensor, data): addresses of a TensorImpl and of its storage's data"},
    {"failed", &Failed, kVarArguments,
     "failed(text, is_last): an exception was caught; after the last one nothing runs"},
    {"end", &EndRecording, kVarArguments, "end(): the recording ends here, as at the program's end"},
    {"existing_is_asked", &ExistingIsAsked, kVarArguments, "existing_is_asked(): what existed is to be told"},
    {"existing", &Existing, kVarArguments,
     "existing(kind, device, address, size, requested, stream): trace.proto's EXISTING"},
    {"existing_end", &ExistingEnd, kVarArguments, "existing_end(result): all was told"},
    {"generation", &Generation, kVarArguments, "generation(): another number means that nothing was defined yet"},
};

}  // namespace

Object* MakeRecord(const Api* api) {
  g_python = api;
  Object* record = api->new_module("gpumemshim_record");
  bool good = record != nullptr && AddObjectFunctions(api, record);
  for (Method& method : g_methods) {
    Object* function = good ? api->new_function(&method, nullptr, nullptr) : nullptr;
    good = function != nullptr && api->set_attribute(record, method.name, function) == 0;
    if (function != nullptr) api->decrement(function);
  }
  if (good) return record;
  if (record != nullptr) api->decrement(record);
  return nullptr;
}

}  // namespace gpumemshim::python
