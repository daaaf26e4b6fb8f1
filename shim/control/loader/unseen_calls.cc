// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/loader/unseen_calls.h"

#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "shim/base/calls/real.h"
#include "shim/base/clock.h"
#include "shim/base/flat_table.h"
#include "shim/base/loader.h"
#include "shim/base/symbol_lookup.h"
#include "shim/control/loader/elf_slots.h"
#include "shim/settings/text.h"
#include "shim/writer/fields.h"

namespace gpumemshim::control {
namespace {

constexpr uint32_t kMaxNamed = 8;
constexpr uint32_t kMaxInterruptions = 8;
constexpr int kInterrupted = 1;
constexpr uint64_t kFirstWaitNs = 1'000'000'000, kLongestWaitNs = 64 * kFirstWaitNs;
constexpr size_t kMaxWritableBytes = size_t{64} << 20;  // of an object that is searched for the driver's addresses

// Numbers of trace.proto's UnseenCause.
enum class Cause : uint8_t { kBoundPast = 1, kLookedUpPast = 2, kOtherNamespace = 3, kSecondDriver = 4 };

struct Finding {
  Cause cause;
  char object[256];
  uint64_t functions[(kApiCount + 63) / 64];
  uint32_t function_count;
};

Finding g_findings[kMaxUnseen];
std::atomic<uint32_t> g_finding_count;  // grows once an entry is whole
uint32_t g_known;                       // findings and functions

// The objects that were looked at: by a hash of place and name, its lowest bit set where slots wait to be bound.
constexpr uint32_t kMaxObjects = 4096;
uint64_t g_objects[kMaxObjects];
uint64_t g_adds, g_subs;
uint64_t g_due_ns, g_wait_ns;

// One look.
struct Look {
  bool first = true;
  bool again = false;  // also at objects that have slots to wait for
  bool waits = false;  // some still have
  uint32_t interruptions = 0;
  uintptr_t driver = 0;  // an address inside the driver that our hooks call
  uintptr_t driver_start = 0, driver_end = 0;
};

const char* FileName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

bool IsDriver(const char* path) { return strncmp(FileName(path), "libcuda.so", 10) == 0; }
bool IsRuntime(const char* path) { return strncmp(FileName(path), "libcudart", 9) == 0; }

Finding* Find(Cause cause, const char* object) {
  char program[sizeof(Finding::object)];
  if (object[0] == '\0') {  // the program itself has no name in the loader's list
    const ssize_t size = readlink("/proc/self/exe", program, sizeof(program) - 1);
    program[size > 0 ? size : 0] = '\0';
    object = program;
  }
  const uint32_t count = g_finding_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; i++) {
    if (g_findings[i].cause == cause && strncmp(g_findings[i].object, object, sizeof(g_findings[i].object) - 1) == 0) {
      return &g_findings[i];
    }
  }
  if (count == kMaxUnseen) return nullptr;
  Finding* finding = &g_findings[count];
  finding->cause = cause;
  snprintf(finding->object, sizeof(finding->object), "%s", object);
  g_finding_count.store(count + 1, std::memory_order_release);
  g_known++;
  return finding;
}

void AddFunction(Finding* finding, ApiId id) {
  const auto number = static_cast<uint32_t>(id);
  if (finding == nullptr || (finding->functions[number / 64] >> number % 64 & 1) != 0) return;
  finding->functions[number / 64] |= uint64_t{1} << number % 64;
  finding->function_count++;
  g_known++;
}

uint64_t KeyOf(const dl_phdr_info& object) {
  uint64_t hash = MixBits(object.dlpi_addr);
  for (const char* c = object.dlpi_name; *c != '\0'; c++) hash = (hash ^ static_cast<uint8_t>(*c)) * 0x100000001b3;
  return (hash | 2) & ~uint64_t{1};
}

// Where `key` is, or may be put; nullptr = the table is full.
uint64_t* PlaceOf(uint64_t key) {
  for (uint32_t i = 0; i < kMaxObjects; i++) {
    uint64_t* place = &g_objects[(key + i) % kMaxObjects];
    if (*place == 0 || (*place & ~uint64_t{1}) == key) return place;
  }
  return nullptr;
}

// What one object's slots tell.
struct Slots {
  const dl_phdr_info* object;
  const char* path;
  bool is_runtime;
  bool waits = false;
  bool asks_the_c_library = false;  // for addresses
};

// Whose function is in the slot? What goes past us to a runtime reaches the driver through us, unless the runtime
// itself looked up the driver past us.
void Judge(const Slot& slot, void* data) {
  auto* const slots = static_cast<Slots*>(data);
  const auto* bound = reinterpret_cast<const void*>(slot.bound);
  if (IsOwnAddress(bound)) return;
  if (HoldsAddress(*slots->object, slot.bound)) {
    slots->waits = true;
  } else if (slot.id == ApiId::kNone) {
    slots->asks_the_c_library |= LiesIn(bound, "libc.so") || LiesIn(bound, "libdl.so") || LiesIn(bound, "ld-");
  } else if (ApiLayer(slot.id) == Layer::kDriver && LiesIn(bound, "libcuda.so")) {
    AddFunction(Find(Cause::kBoundPast, slots->path), slot.id);
  }
}

// An object with a runtime linked into it keeps the driver's addresses in its data.
bool KeepsDriverAddresses(const dl_phdr_info& object, const Look& look) {
  if (look.driver_end == 0) return false;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object.dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0 || header.p_memsz > kMaxWritableBytes) continue;
    const uintptr_t start = (object.dlpi_addr + header.p_vaddr + 7) & ~uintptr_t{7};
    const uintptr_t end = object.dlpi_addr + header.p_vaddr + header.p_memsz;
    for (uintptr_t at = start; at + sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
      const uintptr_t value = *reinterpret_cast<const volatile uintptr_t*>(at);
      if (value - look.driver_start < look.driver_end - look.driver_start) return true;
    }
  }
  return false;
}

// True: something of it is not bound yet.
bool Examine(const dl_phdr_info& object, const char* path, const Look& look) {
  Imports imports;
  if (!FindImports(object, &imports)) return false;
  Slots slots{&object, path, IsRuntime(path)};
  VisitSlots(object, imports, &Judge, &slots);
  if (!slots.asks_the_c_library) return slots.waits;
  if (!slots.is_runtime && !KeepsDriverAddresses(object, look)) return true;
  Find(Cause::kLookedUpPast, path);
  return slots.waits;
}

// Namespaces of dlmopen, which the loader lists for debuggers (glibc from 2.35 on). Their lists change under the lock
// that the caller holds.
void ExamineNamespaces(const dl_phdr_info& program) {
  struct Extended {
    r_debug base;
    const Extended* next;
  };
  const ElfW(Dyn)* entry = DynamicOf(program);
  const Extended* list = nullptr;
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_DEBUG) list = reinterpret_cast<const Extended*>(entry->d_un.d_ptr);
  }
  if (list == nullptr || list->base.r_version < 2) return;
  for (list = list->next; list != nullptr; list = list->next) {
    for (const link_map* map = list->base.r_map; map != nullptr; map = map->l_next) {
      if (map->l_name != nullptr && IsDriver(map->l_name)) Find(Cause::kOtherNamespace, map->l_name);
    }
  }
}

void ExamineDriver(const dl_phdr_info& object, Look* look) {
  if (look->driver_end == 0 && (look->driver == 0 || HoldsAddress(object, look->driver))) {
    look->driver_start = object.dlpi_addr;
    for (int i = 0; i < object.dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = object.dlpi_phdr[i];
      const uintptr_t end = object.dlpi_addr + header.p_vaddr + header.p_memsz;
      if (header.p_type == PT_LOAD && end > look->driver_end) look->driver_end = end;
    }
    return;
  }
  // Under WSL the driver that programs load hands all calls on to one that it loads itself.
  if (strstr(object.dlpi_name, "/wsl/") == nullptr) Find(Cause::kSecondDriver, object.dlpi_name);
}

// The driver first, since the objects before it are judged by it.
int VisitDrivers(dl_phdr_info* object, size_t, void* data) {
  auto* const look = static_cast<Look*>(data);
  if (look->first) {
    look->first = false;
    if (object->dlpi_adds == g_adds && object->dlpi_subs == g_subs && !look->again) return 1;
    if (object->dlpi_adds != g_adds || object->dlpi_subs != g_subs) g_wait_ns = 0;
    g_adds = object->dlpi_adds;
    g_subs = object->dlpi_subs;
    ExamineNamespaces(*object);
  }
  if (IsDriver(object->dlpi_name)) ExamineDriver(*object, look);
  return 0;
}

int VisitAll(dl_phdr_info* object, size_t, void* data) {
  auto* const look = static_cast<Look*>(data);
  const char* path = object->dlpi_name;
  if (IsDriver(path) || IsOwnAddress(DynamicOf(*object))) return 0;
  const uint64_t key = KeyOf(*object);
  uint64_t* place = PlaceOf(key);
  if (place == nullptr || (*place == key)) return 0;  // nothing more to learn of it
  if (*place == (key | 1) && !look->again) {
    look->waits = true;
    return 0;
  }
  if (loader::ForkWaits() && look->interruptions++ < kMaxInterruptions) return kInterrupted;
  const bool waits = Examine(*object, path, *look);
  *place = waits ? key | 1 : key;
  look->waits |= waits;
  return 0;
}

}  // namespace

uint32_t FindUnseen(bool last) {
  Look look;
  look.again = last || (g_due_ns != 0 && MonotonicNs() >= g_due_ns);
  const void* init = calls::g_real_functions[static_cast<uint16_t>(ApiId::kcuInit)].load(std::memory_order_acquire);
  if (LiesIn(init, "libcuda.so")) look.driver = reinterpret_cast<uintptr_t>(init);  // no other interposer's
  if (loader::Iterate(&VisitDrivers, &look) != 0) return g_known;
  if (look.driver_end == 0) {  // no driver, no calls
    g_adds = g_subs = 0;
    return g_known;
  }
  while (loader::Iterate(&VisitAll, &look) == kInterrupted) {
  }
  g_wait_ns = g_wait_ns == 0 ? kFirstWaitNs : g_wait_ns * 2 > kLongestWaitNs ? kLongestWaitNs : g_wait_ns * 2;
  g_due_ns = look.waits ? MonotonicNs() + g_wait_ns : 0;
  return g_known;
}

uint32_t CountUnseen() { return g_known; }

void PutUnseen(ProtoWriter* w) {
  using Field = writer::fields::Unseen;
  const uint32_t count = g_finding_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; i++) {
    const Finding& finding = g_findings[i];
    const size_t mark = w->Open(writer::fields::Losses::kUnseen);
    w->Varint(Field::kCause, static_cast<uint64_t>(finding.cause));
    w->StringIf(Field::kObject, finding.object);
    w->VarintIf(Field::kFunctionCount, finding.function_count);
    uint32_t named = 0;
    for (uint16_t id = 1; id < kApiCount && named < kMaxNamed; id++) {
      if ((finding.functions[id / 64] >> id % 64 & 1) == 0) continue;
      w->StringIf(Field::kFunctions, ApiName(id));
      named++;
    }
    w->Close(mark);
  }
}

size_t UnseenText(char* out, size_t capacity) {
  const uint32_t count = g_finding_count.load(std::memory_order_acquire);
  Text text(out, capacity);
  for (uint32_t i = 0; i < count; i++) {
    if (i != 0) text.Add("; ");
    text.AddPrintable(g_findings[i].object);
    switch (g_findings[i].cause) {
      case Cause::kBoundPast:
      case Cause::kLookedUpPast:
        text.Add(" calls it past the recorder (RTLD_DEEPBIND?)");
        break;
      case Cause::kOtherNamespace:
        text.Add(" is in a namespace of its own (dlmopen), where nothing is seen");
        break;
      case Cause::kSecondDriver:
        text.Add(" is a second driver, whose calls are not seen");
        break;
    }
  }
  if (capacity != 0) out[text.size() < capacity ? text.size() : capacity - 1] = '\0';
  return text.size();
}

size_t UnseenLine(char* out, size_t capacity) {
  static char why[1024];
  if (UnseenText(why, sizeof(why)) == 0) return 0;
  Text text(out, capacity);
  text.Add("gpumemshim: no trace written, although CUDA is there: ").Add(why).Add(". See docs/coverage.md\n");
  return text.size();
}

}  // namespace gpumemshim::control
