// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/module_objects.h"

#include <cstring>

#include "shim/base/small_message.h"
#include "shim/ring/ring.h"
#include "shim/stack/hash.h"
#include "shim/stack/memory_read.h"

namespace gpumemshim::stack {

constinit std::atomic<uint64_t> g_module_call_code{0}, g_module_call_start{0}, g_module_call_size{0}, g_object_epoch{0};

namespace {

constexpr uint32_t kSlots = 1u << 17;
constexpr uint32_t kMaxProbes = 128;
constexpr uint32_t kNumberBits = 20;
constexpr uint64_t kNumberMask = (uint64_t{1} << kNumberBits) - 1;
constexpr uint64_t kDead = 1;  // the number bits of 0 are never given, so no entry looks like it
static_assert(kNumberMask <= ring::kMaxFrameObject);

// An object's address in units of 16 bytes, which the allocators of Python align to, and its number. 0: empty.
std::atomic<uint64_t> g_entries[kSlots];
std::atomic<uint32_t> g_last_number;
// An object was named in a stack since the epoch began.
std::atomic<bool> g_epoch_used;

std::atomic<uint8_t> g_named[(kNumberMask + 1) / 8];
std::atomic<uint32_t> g_named_count;
std::atomic<void (*)()> g_listener;

uint64_t AddressBits(const void* object) { return reinterpret_cast<uint64_t>(object) >> 4 << kNumberBits; }

bool Holds(uint64_t entry, uint64_t wanted) { return (entry & ~kNumberMask) == wanted; }

// Where the object's entry is, or the empty slot where it is to be; nullptr: neither within reach.
std::atomic<uint64_t>* SlotOf(uint64_t wanted) {
  const uint64_t start = Mix(kHashSeed, wanted);
  for (uint32_t probe = 0; wanted != 0 && probe < kMaxProbes; ++probe) {
    std::atomic<uint64_t>& slot = g_entries[(start + probe) % kSlots];
    const uint64_t entry = slot.load(std::memory_order_acquire);
    if (entry == 0 || Holds(entry, wanted)) return &slot;
  }
  return nullptr;
}

// Adds a stack's object to the table, or finds it there. The entry is one word, so two threads that add the same object
// agree on one: the slots are taken in order.
uint32_t FindOrAdd(const void* object) {
  const uint64_t wanted = AddressBits(object);
  if ((reinterpret_cast<uint64_t>(object) & 15) != 0) return 0;
  uint32_t fresh = 0;
  while (std::atomic<uint64_t>* slot = SlotOf(wanted)) {
    uint64_t entry = slot->load(std::memory_order_acquire);
    if (entry == 0) {
      if (fresh == 0) fresh = g_last_number.fetch_add(1, std::memory_order_relaxed) + 1;
      if (fresh > kNumberMask) return 0;
      if (slot->compare_exchange_strong(entry, wanted | fresh, std::memory_order_acq_rel)) return fresh;
    }
    if (Holds(entry, wanted)) return static_cast<uint32_t>(entry & kNumberMask);
  }
  return 0;
}

bool EndsWith(const char* text, size_t size, const char* end) {
  const size_t length = std::strlen(end);
  return size >= length && std::memcmp(text + size - length, end, length) == 0;
}

}  // namespace

void NoteModuleCall(const PythonLayout& layout, const void* code, const char* name, size_t name_size, const char* file,
                    size_t file_size) {
  if (!EndsWith(name, name_size, "_wrapped_call_impl") || !EndsWith(file, file_size, "torch/nn/modules/module.py"))
    return;
  const auto address = reinterpret_cast<uint64_t>(code);
  if (g_module_call_code.load(std::memory_order_relaxed) == address) return;
  // A frame stands at the unit before its first one until it has begun. From 3.11 on a code object is as long as its
  // code, in units.
  g_module_call_start.store(address + layout.code_bytecode - kCodeUnit, std::memory_order_relaxed);
  g_module_call_size.store((Load<uint64_t>(code, kObjectSize) + 1) * kCodeUnit, std::memory_order_relaxed);
  g_module_call_code.store(address, std::memory_order_relaxed);
}

uint32_t ObjectNumber(const void* object) {
  const uint32_t number = FindOrAdd(object);
  if (number != 0 && !g_epoch_used.load(std::memory_order_relaxed)) g_epoch_used.store(true, std::memory_order_relaxed);
  return number;
}

void ForgetObject(const void* object) {
  std::atomic<uint64_t>* slot = SlotOf(AddressBits(object));
  if (slot == nullptr || slot->load(std::memory_order_acquire) == 0) return;
  slot->store(kDead, std::memory_order_release);
  // A whole model goes one by one: one new epoch is enough for all that no stack named meanwhile.
  if (g_epoch_used.exchange(false, std::memory_order_relaxed))
    g_object_epoch.fetch_add(kHashSeed | 1, std::memory_order_relaxed);
}

void SetNamed(uint32_t number) {
  if (number > kNumberMask) return;
  const auto bit = static_cast<uint8_t>(1u << number % 8);
  if ((g_named[number / 8].fetch_or(bit, std::memory_order_relaxed) & bit) == 0)
    g_named_count.fetch_add(1, std::memory_order_relaxed);
}

uint32_t CountUnnamed() {
  const uint32_t named = g_named_count.load(std::memory_order_relaxed);  // first, so it is never the larger one
  return g_last_number.load(std::memory_order_relaxed) - named;
}

void SetUnnamedListener(void (*listener)()) { g_listener.store(listener, std::memory_order_relaxed); }

void AskForName(uint32_t number) {
  if ((g_named[number / 8].load(std::memory_order_relaxed) >> number % 8 & 1) != 0) return;
  auto* const listener = g_listener.load(std::memory_order_relaxed);
  if (listener != nullptr) listener();
}

bool SendObject(const void* object, uint32_t number) {
  constexpr uint32_t kField = 12, kId = 1, kClassName = 2;  // trace.proto: Definitions.nn_modules, NnModule
  constexpr uint16_t kTypeName = 24;                        // PyTypeObject.tp_name, behind its head of a sized object
  constexpr size_t kMaxClassName = 200;
  SmallMessage<256> message;
  message.Varint(kId, number);
  const void* type = Load<const void*>(object, kObjectType);
  const char* name = Load<const char*>(type, kTypeName);
  message.Text(kClassName, name, strnlen(name, kMaxClassName));
  return ring::RecordReady(kField, message.data(), message.size());
}

}  // namespace gpumemshim::stack
