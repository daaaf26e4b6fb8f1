// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/loader/slot_scan.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "shim/base/api.h"
#include "shim/base/calls/own_symbols.h"
#include "shim/base/calls/real.h"
#include "shim/base/descriptors.h"
#include "shim/base/import_slots.h"
#include "shim/base/loader.h"
#include "shim/base/symbol_lookup.h"

// PyTorch's reports under both manglings, as hooks/torch.cc defines them.
#define GPUMEM_TORCH_REPORTS(X)                                                  \
  X(GpumemReport, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")       \
  X(GpumemReportSigned, "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE") \
  X(GpumemReportOom, "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE")      \
  X(GpumemReportOomSigned, "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE")
#define GPUMEM_DECLARE(function, name) extern "C" void function() asm(name);
GPUMEM_TORCH_REPORTS(GPUMEM_DECLARE)
#undef GPUMEM_DECLARE

namespace {

// One at a time. By the thread, since whoever else looks the name up gets a function that does nothing.
void (*g_run)(void* data);
void* g_data;
std::atomic<pid_t> g_thread;

void Nothing() {}

pid_t ThisThread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

}  // namespace

extern "C" {

__attribute__((visibility("hidden"), used)) void (*GpumemUnderLoaderLock())() {
  if (g_thread.load(std::memory_order_relaxed) == ThisThread()) {
    g_thread.store(0, std::memory_order_relaxed);
    g_run(g_data);
  }
  return &Nothing;
}

__attribute__((visibility("default"), ifunc("GpumemUnderLoaderLock"))) void gpumemshim_loader_lock_v1();
}

namespace gpumemshim::control {
namespace {

// Runs something while the loader neither loads, relocates nor unloads anything. dl_iterate_phdr alone does not give
// that: its lock protects the list of objects, which has a new object before its slots are relocated. A slot that we
// wrote then would be relocated on top (lazy binding adds the base to what it finds), and a page that we made
// read-only again would fault in the loader.
//
// The lock is glibc's own and nobody may take it; but dlsym holds it while the resolver of an indirect function (IFUNC)
// runs (dlsym_implementation in glibc's dlfcn/dlsym.c). So we look up one of ours, whose resolver runs `run`.
void UnderLoaderLock(void (*run)(void* data), void* data) {
  const loader::Use use;  // a child forked meanwhile would have the lock for ever
  Dl_info info;
  link_map* own = nullptr;
  const calls::DlsymFunction find = calls::RealDlsym();
  g_run = run;
  g_data = data;
  g_thread.store(ThisThread(), std::memory_order_relaxed);
  if (dladdr1 != nullptr) {
    dladdr1(reinterpret_cast<const void*>(&Nothing), &info, reinterpret_cast<void**>(&own), RTLD_DL_LINKMAP);
  }
  if (find != nullptr && own != nullptr) find(own, "gpumemshim_loader_lock_v1");
  if (g_thread.exchange(0, std::memory_order_relaxed) != 0) run(data);
}

constexpr uintptr_t kPage = 4096;

struct Report {
  const char* name;
  void (*wrapper)();
};
#define GPUMEM_ROW(function, name) {name, &::function},
constexpr Report kReports[] = {GPUMEM_TORCH_REPORTS(GPUMEM_ROW)};
#undef GPUMEM_ROW
constexpr size_t kReportCount = sizeof kReports / sizeof *kReports;

struct Wanted {
  uintptr_t real;
  uintptr_t wrapper;
  Layer layer;
};

struct Scan {
  Wanted wanted[kApiCount + kReportCount];
  uint32_t count;
  uintptr_t lowest, highest;  // of Wanted.real
  int pagemap;
  SlotCounts counts;
};

// One loaded object, as far as the scan needs it.
struct Object : imports::Object {
  bool is_runtime = false;
};

void Add(uintptr_t real, uintptr_t wrapper, Layer layer, Scan* scan) {
  if (real == 0 || wrapper == 0) return;
  scan->wanted[scan->count++] = {real, wrapper, layer};
  if (real < scan->lowest) scan->lowest = real;
  if (real > scan->highest) scan->highest = real;
}

void AddWanted(Scan* scan) {
  scan->lowest = UINTPTR_MAX;
  for (uint16_t i = 1; i < kApiCount; ++i) {
    const auto id = static_cast<ApiId>(i);
    const auto wrapper = reinterpret_cast<uintptr_t>(calls::OwnAddress(id));
    if (wrapper != 0) Add(reinterpret_cast<uintptr_t>(calls::RealFunction(id)), wrapper, ApiLayer(id), scan);
  }
  for (const Report& report : kReports) {
    Add(reinterpret_cast<uintptr_t>(FindInLoaded("libc10.so", report.name)),
        reinterpret_cast<uintptr_t>(report.wrapper), Layer::kTorch, scan);
  }
}

bool StartsWith(const char* text, const char* prefix) { return std::strncmp(text, prefix, std::strlen(prefix)) == 0; }

const char* FileName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

void Count(Layer layer, SlotCounts* counts) {
  ++(layer == Layer::kDriver ? counts->driver : layer == Layer::kRuntime ? counts->runtime : counts->torch);
}

[[gnu::noinline]] void Exchange(Scan* scan, const Object& object, uintptr_t address, uintptr_t value) {
  for (uint32_t i = 0; i < scan->count; ++i) {
    const Wanted& wanted = scan->wanted[i];
    // A runtime's own tables of its own functions are its business.
    if (wanted.real != value || (object.is_runtime && wanted.layer == Layer::kRuntime)) continue;
    if (imports::Store(object, address, wanted.wrapper)) Count(wanted.layer, &scan->counts);
    return;
  }
}

void ScanWords(Scan* scan, const Object& object, uintptr_t start, uintptr_t end) {
  const uintptr_t lowest = scan->lowest, span = scan->highest - scan->lowest;
  for (uintptr_t at = start; at + sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
    const uintptr_t value = *reinterpret_cast<const volatile uintptr_t*>(at);
    if (value - lowest <= span) [[unlikely]]
      Exchange(scan, object, at, value);
  }
}

// Pages that were never touched hold no slot, and are not to be touched by us: 512 of them at a time.
void ScanRange(Scan* scan, const Object& object, uintptr_t start, uintptr_t end) {
  constexpr uint64_t kPresentOrSwapped = uint64_t{3} << 62;
  constexpr size_t kAtATime = 512;
  static uint64_t entries[kAtATime];  // under the loader's lock
  for (uintptr_t page = start & ~(kPage - 1); page < end; page += kAtATime * kPage) {
    const ssize_t got = scan->pagemap < 0 ? -1
                                          : pread(scan->pagemap, entries, sizeof entries,
                                                  static_cast<off_t>(page / kPage * sizeof(uint64_t)));
    for (size_t i = 0; i < kAtATime && page + i * kPage < end; ++i) {
      const bool known = got > static_cast<ssize_t>(i * sizeof(uint64_t));
      if (known && (entries[i] & kPresentOrSwapped) == 0) continue;
      const uintptr_t from = page + i * kPage < start ? start : page + i * kPage;
      const uintptr_t to = page + (i + 1) * kPage > end ? end : page + (i + 1) * kPage;
      ScanWords(scan, object, from, to);
    }
  }
}

// What a call by this name is to reach, with its layer; nullptr where it is none of ours. dlsym has no layer.
void* WrapperOfName(const Object& object, const char* name, Layer* layer) {
  *layer = Layer::kUnspecified;
  if (std::strcmp(name, "dlsym") == 0) return reinterpret_cast<void*>(&::dlsym);
  if (std::strcmp(name, "dlvsym") == 0) return reinterpret_cast<void*>(&::dlvsym);
  for (const Report& report : kReports) {
    *layer = Layer::kTorch;
    if (std::strcmp(name, report.name) == 0) return reinterpret_cast<void*>(report.wrapper);
  }
  const ApiId id = calls::FindOwnSymbol(name);
  *layer = ApiLayer(id);
  return id == ApiId::kNone || object.is_runtime || calls::RealFunction(id) == nullptr ? nullptr
                                                                                       : calls::OwnAddress(id);
}

// Calls that the loader has not bound yet, and dlsym however it is bound.
void PatchCalls(Scan* scan, const Object& object) {
  imports::ForEach(object, imports::Which::kCalls, [&](const imports::Import& import) {
    Layer layer;
    const auto wrapper = reinterpret_cast<uintptr_t>(WrapperOfName(object, import.name, &layer));
    if (wrapper == 0 || *reinterpret_cast<const volatile uintptr_t*>(import.slot) == wrapper) return;
    if (!imports::Store(object, import.slot, wrapper)) return;
    if (layer == Layer::kUnspecified) {
      ++scan->counts.lookups;
    } else {
      Count(layer, &scan->counts);
    }
  });
}

int Visit(dl_phdr_info* info, size_t, void* data) {
  auto* const scan = static_cast<Scan*>(data);
  const char* name = FileName(info->dlpi_name == nullptr ? "" : info->dlpi_name);
  if (StartsWith(name, "libcuda.so") || StartsWith(name, "ld-linux") || StartsWith(name, "linux-vdso") ||
      StartsWith(name, "libc.so")) {
    return 0;
  }
  const Object object{{info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum}, StartsWith(name, "libcudart")};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && IsOwnAddress(reinterpret_cast<const void*>(start))) return 0;
  }
  ++scan->counts.objects;
  PatchCalls(scan, object);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
    const uintptr_t start = (info->dlpi_addr + header.p_vaddr + 7) & ~uintptr_t{7};
    ScanRange(scan, object, start, info->dlpi_addr + header.p_vaddr + header.p_memsz);
  }
  return 0;
}

std::atomic<uint64_t> g_loads;  // that the loader had counted when the scan began; 0: there was none

int ReadLoads(dl_phdr_info* info, size_t, void* data) {
  *static_cast<uint64_t*>(data) = info->dlpi_adds;
  return 1;
}

uint64_t CountLoads() {
  uint64_t loads = 0;
  loader::Iterate(&ReadLoads, &loads);
  return loads;
}

void ScanAll(void* data) {
  g_loads.store(CountLoads(), std::memory_order_relaxed);
  loader::Iterate(&Visit, data);
}

}  // namespace

SlotCounts PatchSlots() {
  const int saved = errno;
  static Scan scan;
  static std::atomic_flag busy = ATOMIC_FLAG_INIT;
  if (busy.test_and_set(std::memory_order_acquire)) return {};
  scan = Scan();
  AddWanted(&scan);
  scan.pagemap = descriptors::Raise(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  UnderLoaderLock(&ScanAll, &scan);
  if (scan.pagemap >= 0) close(scan.pagemap);
  const SlotCounts counts = scan.counts;
  busy.clear(std::memory_order_release);
  errno = saved;
  return counts;
}

bool AreSlotsStale() {
  const uint64_t known = g_loads.load(std::memory_order_relaxed);
  return known != 0 && CountLoads() != known;
}

}  // namespace gpumemshim::control
