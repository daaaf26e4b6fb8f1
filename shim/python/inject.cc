// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/inject.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "shim/base/descriptors.h"
#include "shim/base/event.h"
#include "shim/base/kernel.h"
#include "shim/python/api.h"
#include "shim/python/climb.h"
#include "shim/python/existing.h"
#include "shim/python/objects.h"
#include "shim/python/owners.h"
#include "shim/ring/ring.h"
#include "shim/stack/autograd_nodes.h"
#include "shim/stack/module_objects.h"
#include "shim/stack/thread_state.h"

extern "C" __attribute__((visibility("hidden"))) const char gpumem_helper_source[];

namespace gpumemshim::python {
namespace {

// The recorder as helper.py sees it: the object `record` and its functions.

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

std::atomic<uint64_t> g_torch_limit;

Object* TorchLimit(Object*, Object*) { return g_python->new_number(g_torch_limit.load(std::memory_order_relaxed)); }

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
    {"torch_limit", &TorchLimit, kVarArguments, "torch_limit(): bytes that PyTorch may reserve on a device; 0 = any"},
    {"generation", &Generation, kVarArguments, "generation(): another number means that nothing was defined yet"},
};

Object* MakeRecord(const Api* api) {
  g_python = api;
  Object* record = api->new_module("gpumemshim_record");
  if (record == nullptr) return nullptr;
  const bool good = AddObjectFunctions(api, record) && AddClimbFunctions(api, record) &&
                    AddOwnersFunctions(api, record) && AddFunctions(api, record, g_methods);
  if (good) return record;
  api->decrement(record);
  return nullptr;
}

// A program whose modules cannot be named asks again with each new stack; it is heard so often.
constexpr uint32_t kMaxLooks = 2000;

std::atomic<bool> g_on{false};
std::atomic<bool> g_pending{false};
std::atomic<uint32_t> g_looks{0};

// With the GIL held, from here on.

Object* g_look;    // the function, once the helper stands
Object* g_owners;  // its function of that name
Object* g_record;  // what it was given
bool g_broken;

Object* MakeLook(const Api* api) {
  if (g_record == nullptr) g_record = MakeRecord(api);
  Object* globals = g_record == nullptr ? nullptr : RunSource(api, gpumem_helper_source, g_record);
  Object* look = globals == nullptr ? nullptr : api->get_item(globals, "look");
  if (look != nullptr) api->increment(look);
  g_owners = globals == nullptr ? nullptr : api->get_item(globals, "owners");
  if (g_owners != nullptr) api->increment(g_owners);
  if (globals != nullptr) api->decrement(globals);
  return look;
}

// The error that is set, if one is, ends here.
void TellThatItDoesNotRun(const Api* api) {
  char text[96] = "it does not run in this Python";
  size_t size = std::strlen(text);
  if (Object* const kind = api->has_error(); kind != nullptr) {
    api->increment(kind);
    api->clear_error();
    Object* const name = api->get_attribute(kind, "__name__");
    Object* const encoded = name == nullptr ? nullptr : api->call_method(name, "encode", nullptr);
    char* bytes = nullptr;
    std::ptrdiff_t length = 0;
    if (encoded != nullptr && api->bytes(encoded, &bytes, &length) == 0)
      size += static_cast<size_t>(snprintf(text + size, sizeof text - size, ": %.40s", bytes));
    for (Object* object : {encoded, name, kind}) {
      if (object != nullptr) api->decrement(object);
    }
    api->clear_error();
  }
  AddFailure(text, size, true);
}

int Look(void*) {
  g_pending.store(false, std::memory_order_relaxed);
  const Api* api = Load();
  if (api == nullptr || g_broken) {
    EndExisting(ExistingResult::kNotAsked);
    return 0;
  }
  const int saved_errno = errno;
  if (g_look == nullptr) g_look = MakeLook(api);
  if (g_look == nullptr) {
    // An interrupt, or what else a signal handler of the program raised meanwhile: the next look begins afresh.
    if (api->has_error() != nullptr && api->error_matches(api->exception) == 0) return -1;
    g_broken = true;
    EndExisting(ExistingResult::kNotAsked);
    TellThatItDoesNotRun(api);
    errno = saved_errno;
    return 0;
  }
  Object* result = CallQuietly(api, g_look, nullptr);
  errno = saved_errno;
  // The helper lets through only what the program raised: a signal handler of its own.
  if (result == nullptr) return -1;
  const bool has_torch = result != api->none;
  api->decrement(result);
  return has_torch ? RunInjectedScript(api, g_record) : 0;
}

}  // namespace

void Enable(bool on) {
  g_on.store(on, std::memory_order_relaxed);
  stack::SetUnnamedListener(on ? &RequestLook : nullptr);
}

int TellOwners(uint32_t cause) {
  const Api* api = Load();
  if (api == nullptr || g_broken || g_owners == nullptr) return 0;
  Object* const arguments = api->build("(k)", static_cast<unsigned long>(cause));  // NOLINT(google-runtime-int)
  Object* const result = arguments == nullptr ? nullptr : CallQuietly(api, g_owners, arguments);
  for (Object* const object : {arguments, result}) {
    if (object != nullptr) api->decrement(object);
  }
  return result == nullptr ? EndCall(api) : 0;
}

void SetTorchLimit(uint64_t bytes) { g_torch_limit.store(bytes, std::memory_order_relaxed); }

bool IsEnabled() { return g_on.load(std::memory_order_relaxed); }

void RequestLook() {
  if (!g_on.load(std::memory_order_relaxed) || g_pending.exchange(true, std::memory_order_relaxed)) return;
  const Api* api = g_looks.fetch_add(1, std::memory_order_relaxed) < kMaxLooks ? Load() : nullptr;
  if (api == nullptr || api->add_pending_call(&Look, nullptr) != 0) g_pending.store(false, std::memory_order_relaxed);
}

namespace {

constexpr size_t kMaxText = 160;

// Written once, before g_count leaves 0 (release).
char g_first[kMaxText];
std::atomic<uint32_t> g_count{0};
std::atomic<bool> g_is_off{false};

size_t Append(char* out, size_t capacity, size_t at, const char* text) {
  while (*text != '\0' && at + 1 < capacity) out[at++] = *text++;
  out[at] = '\0';
  return at;
}

}  // namespace

void AddFailure(const char* text, size_t size, bool is_last) {
  const uint32_t before = g_count.load(std::memory_order_relaxed);
  if (before == 0) {
    size_t length = 0;
    // One line of what can be printed.
    for (; length < size && length + 1 < kMaxText; ++length) {
      const auto c = static_cast<unsigned char>(text[length]);
      g_first[length] = c < 0x20 || c == 0x7F ? ' ' : text[length];
    }
    // Not within a character of UTF-8.
    if (length < size)
      while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
    g_first[length] = '\0';
  }
  if (is_last) g_is_off.store(true, std::memory_order_relaxed);
  g_count.store(before + 1, std::memory_order_release);
}

uint32_t CountFailures() { return g_count.load(std::memory_order_acquire); }

bool DescribeFailures(char* out, size_t capacity) {
  const uint32_t count = CountFailures();
  if (count == 0 || capacity == 0) return false;
  size_t at = Append(out, capacity, 0, g_first);
  char digits[] = {'0', '0', '\0'};
  const uint32_t shown = count < 99 ? count : 99;
  digits[0] = static_cast<char>('0' + shown / 10);
  digits[1] = static_cast<char>('0' + shown % 10);
  if (count > 1) {
    at = Append(out, capacity, at, " (");
    at = Append(out, capacity, at, shown < 10 ? digits + 1 : digits);
    Append(out, capacity, at, g_is_off.load(std::memory_order_relaxed) ? " times; switched off)" : " times)");
  }
  return true;
}

namespace {

constexpr size_t kMaxSource = 256 << 10;

const char* g_path = "";
void (*g_end)();
const Api* g_api;  // of whoever may call us
bool g_ran;        // with the GIL held
char g_source[kMaxSource];

bool ReadSource() {
  struct stat status;
  // A pipe would wait, with the GIL held.
  const int file = descriptors::Raise(open(g_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file < 0) return false;
  if (kernel::Fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    return false;
  }
  size_t size = 0;
  ssize_t count = 0;
  while (size + 1 < kMaxSource && (count = read(file, g_source + size, kMaxSource - 1 - size)) > 0)
    size += static_cast<size_t>(count);
  close(file);
  g_source[size] = '\0';
  return count == 0 && size > 0;
}

void Fail(const char* text) { AddFailure(text, std::strlen(text), false); }

}  // namespace

void SetInjectedScript(const char* path, void (*end)()) {
  g_path = path;
  g_end = end;
}

int RunInjectedScript(const Api* api, Object* record) {
  if (g_ran || *g_path == '\0') return 0;
  g_ran = true;
  g_api = api;
  if (!ReadSource()) {
    Fail("the file of GPUMEMSHIM_INJECTED_SCRIPT cannot be read");
    return 0;
  }
  Object* globals = RunSource(api, g_source, record);
  if (globals == nullptr) Fail("the file of GPUMEMSHIM_INJECTED_SCRIPT failed");
  if (globals != nullptr) api->decrement(globals);
  return EndCall(api);
}

Object* EndRecording(Object*, Object*) {
  if (g_end != nullptr) g_end();
  const Api* const api = g_api;
  api->increment(api->none);
  return api->none;
}

}  // namespace gpumemshim::python
