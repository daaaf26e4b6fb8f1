// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The program that is killed: eight threads that call the CUDA driver and PyTorch's reports at random, through the real
// hooks, pass memory to each other, and write down each call. Usage: torture_victim TRUTH SEED.

#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "truth.h"

namespace torture {
namespace {

constexpr int kSlots = 24;
constexpr size_t kPage = 4096, kGranule = size_t{2} << 20;

struct Device {
  int8_t type, index;
};
using Report = void (*)(void*, int64_t, uint64_t, uint64_t, Device);

// Something that is there or not. Whoever holds it may change that, so what one thread makes another ends.
struct alignas(64) Slot {
  std::atomic<bool> held;
  int state;  // 0 = nothing is there
  uint64_t value, handle;
};

Truth* g_truth;
char* g_file;
CUcontext g_context;
CUmemoryPool g_pool;
Report g_report;
char g_pages[kSlots][kPage] __attribute__((aligned(4096)));

void Check(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "torture_victim: a call failed with %d\n", static_cast<int>(result));
  _exit(9);
}

class Worker {
 public:
  Worker(ThreadTruth* truth, uint64_t seed)
      : truth_(truth), entries_(reinterpret_cast<Entry*>(g_file + truth->entries_offset)), random_(seed) {}

  void Run() {
    Check(cuCtxSetCurrent(g_context));
    truth_->tid = static_cast<uint32_t>(syscall(SYS_gettid));
    // Two spare: a call may leave two events.
    while (truth_->begun.load(std::memory_order_relaxed) + 2 < g_truth->capacity) Step();
  }

 private:
  using Action = void (Worker::*)(Slot*, int);
  void Step();
  void Begin(Kind kind, uint64_t key, uint64_t size, Layer layer = kDriver) {
    truth_->Begin(entries_, kind, layer, key, size);
  }
  void Acknowledge(uint64_t key = 0) { truth_->Acknowledge(entries_, key); }
  uint64_t Bytes() { return 256 * (1 + random_() % 4000); }

  void Torch(Slot* slot, int index);
  void Plain(Slot* slot, int);
  void Async(Slot* slot, int);
  void FromPool(Slot* slot, int);
  void Managed(Slot* slot, int);
  void Host(Slot* slot, int);
  void Register(Slot* slot, int index);
  void Virtual(Slot* slot, int);
  void Pool(Slot* slot, int);
  void Fail(Slot* slot, int index);

  ThreadTruth* const truth_;
  Entry* const entries_;
  std::minstd_rand random_;
};

void Worker::Torch(Slot* slot, int index) {
  const uint64_t address = 0x6e0000000000 + static_cast<uint64_t>(index) * kGranule;
  if (slot->state == 0) slot->value = Bytes();
  const auto bytes = static_cast<int64_t>(slot->value);
  Begin(slot->state == 0 ? kAlloc : kFree, address, slot->value, kTorch);
  g_report(reinterpret_cast<void*>(address), slot->state == 0 ? bytes : -bytes, slot->value, kGranule, {1, 0});
  Acknowledge();
  slot->state ^= 1;
}

void Worker::Plain(Slot* slot, int) {
  if (slot->state == 0) {
    CUdeviceptr address = 0;
    const size_t bytes = Bytes();
    Begin(kAlloc, 0, bytes);
    Check(cuMemAlloc(&address, bytes));
    Acknowledge(slot->value = address);
  } else {
    Begin(kFree, slot->value, 0);
    Check(cuMemFree(slot->value));
    Acknowledge();
  }
  slot->state ^= 1;
}

void Worker::Async(Slot* slot, int) {
  if (slot->state == 0) {
    CUdeviceptr address = 0;
    const size_t bytes = Bytes();
    Begin(kAlloc, 0, bytes);
    Check(cuMemAllocAsync(&address, bytes, nullptr));
    Acknowledge(slot->value = address);
  } else {
    Begin(kFree, slot->value, 0);
    Check(cuMemFreeAsync(slot->value, nullptr));
    Acknowledge();
  }
  slot->state ^= 1;
}

void Worker::FromPool(Slot* slot, int) {
  if (slot->state == 0) {
    CUdeviceptr address = 0;
    const size_t bytes = Bytes();
    Begin(kAlloc, 0, bytes);
    Check(cuMemAllocFromPoolAsync(&address, bytes, g_pool, nullptr));
    Acknowledge(slot->value = address);
  } else {
    Begin(kFree, slot->value, 0);
    Check(cuMemFreeAsync(slot->value, nullptr));
    Acknowledge();
  }
  slot->state ^= 1;
}

void Worker::Managed(Slot* slot, int) {
  if (slot->state == 0) {
    CUdeviceptr address = 0;
    Begin(kAlloc, 0, kPage);
    Check(cuMemAllocManaged(&address, kPage, CU_MEM_ATTACH_GLOBAL));
    Acknowledge(slot->value = address);
  } else {
    Begin(kFree, slot->value, 0);
    Check(cuMemFree(slot->value));
    Acknowledge();
  }
  slot->state ^= 1;
}

void Worker::Host(Slot* slot, int) {
  if (slot->state == 0) {
    void* address = nullptr;
    Begin(kAlloc, 0, kPage);
    Check(cuMemHostAlloc(&address, kPage, 0));
    Acknowledge(slot->value = reinterpret_cast<uint64_t>(address));
  } else {
    Begin(kFree, slot->value, 0);
    Check(cuMemFreeHost(reinterpret_cast<void*>(slot->value)));
    Acknowledge();
  }
  slot->state ^= 1;
}

void Worker::Register(Slot* slot, int index) {
  void* const page = g_pages[index];
  const auto address = reinterpret_cast<uint64_t>(page);
  Begin(slot->state == 0 ? kHostRegister : kHostUnregister, address, slot->state == 0 ? kPage : 0);
  Check(slot->state == 0 ? cuMemHostRegister(page, kPage, 0) : cuMemHostUnregister(page));
  Acknowledge();
  slot->state ^= 1;
}

// Nothing -> reserved -> with memory -> mapped -> unmapped -> reserved, and now and then back to nothing.
void Worker::Virtual(Slot* slot, int) {
  enum { kNothing, kReserved, kWithMemory, kMapped, kUnmapped };
  CUmemGenericAllocationHandle handle = slot->handle;
  switch (slot->state) {
    case kNothing: {
      CUdeviceptr address = 0;
      Begin(kAddressReserve, 0, kGranule);
      Check(cuMemAddressReserve(&address, kGranule, 0, 0, 0));
      Acknowledge(slot->value = address);
      slot->state = kReserved;
      break;
    }
    case kReserved:
      if (random_() % 4 == 0) {
        Begin(kAddressFree, slot->value, kGranule);
        Check(cuMemAddressFree(slot->value, kGranule));
        Acknowledge();
        slot->state = kNothing;
      } else {
        CUmemAllocationProp prop{};
        prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        Begin(kPhysicalCreate, 0, kGranule);
        Check(cuMemCreate(&handle, kGranule, &prop, 0));
        Acknowledge(slot->handle = handle);
        slot->state = kWithMemory;
      }
      break;
    case kWithMemory:
      Begin(kMap, slot->value, kGranule);
      Check(cuMemMap(slot->value, kGranule, 0, handle, 0));
      Acknowledge();
      slot->state = kMapped;
      break;
    case kMapped:
      Begin(kUnmap, slot->value, kGranule);
      Check(cuMemUnmap(slot->value, kGranule));
      Acknowledge();
      slot->state = kUnmapped;
      break;
    default:
      Begin(kPhysicalRelease, handle, 0);
      Check(cuMemRelease(handle));
      Acknowledge();
      slot->state = kReserved;
  }
}

void Worker::Pool(Slot* slot, int) {
  if (slot->state == 0) {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool pool = nullptr;
    Begin(kPoolCreate, 0, 0);
    Check(cuMemPoolCreate(&pool, &props));
    Acknowledge(slot->value = reinterpret_cast<uint64_t>(pool));
  } else {
    Begin(kPoolDestroy, slot->value, 0);
    Check(cuMemPoolDestroy(reinterpret_cast<CUmemoryPool>(slot->value)));
    Acknowledge();
  }
  slot->state ^= 1;
}

// A free that the driver turns down leaves two events: the free, and that it was none.
void Worker::Fail(Slot*, int index) {
  const uint64_t address = kBogusAddresses + 16 * static_cast<uint64_t>(index);
  Begin(kFree, address, 0);
  Begin(kFreeFailed, address, 0);
  if (cuMemFree(address) == CUDA_SUCCESS) _exit(8);
  Acknowledge();
}

// How often each action is chosen, of 64, and what it acts on.
constexpr struct {
  int share;
  int row;
} kMix[] = {{28, 0}, {9, 1}, {7, 2}, {5, 3}, {2, 4}, {2, 5}, {3, 6}, {6, 7}, {1, 8}, {1, 9}};
Slot g_slots[std::size(kMix)][kSlots];

void Worker::Step() {
  static constexpr Action kActions[] = {&Worker::Torch,   &Worker::Plain, &Worker::Async,    &Worker::FromPool,
                                        &Worker::Managed, &Worker::Host,  &Worker::Register, &Worker::Virtual,
                                        &Worker::Pool,    &Worker::Fail};
  int choice = static_cast<int>(random_() % 64), row = 0;
  while (choice >= kMix[row].share) choice -= kMix[row++].share;
  const int index = static_cast<int>(random_() % kSlots);
  Slot& slot = g_slots[row][index];
  if (slot.held.exchange(true, std::memory_order_acquire)) return;
  (this->*kActions[row])(&slot, index);
  slot.held.store(false, std::memory_order_release);
}

void Map(const char* path) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  struct stat info {};
  if (fd < 0 || fstat(fd, &info) != 0) _exit(10);
  void* memory = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) _exit(11);
  close(fd);
  g_file = static_cast<char*>(memory);
  g_truth = static_cast<Truth*>(memory);
}

int Main(const char* path, uint64_t seed) {
  Map(path);
  CUdevice device = 0;
  Check(cuInit(0));
  Check(cuDeviceGet(&device, 0));
  Check(cuDevicePrimaryCtxRetain(&g_context, device));
  Check(cuCtxSetCurrent(g_context));
  Check(cuDeviceGetDefaultMemPool(&g_pool, device));
  g_report = reinterpret_cast<Report>(dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"));
  if (g_report == nullptr) _exit(12);  // not preloaded
  std::thread threads[kThreads];
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads[i] = std::thread([i, seed] { Worker(&g_truth->threads[i], seed * kThreads + i + 1).Run(); });
  }
  g_truth->ready.store(1, std::memory_order_release);
  for (std::thread& thread : threads) thread.join();
  for (;;) pause();  // to be killed
}

}  // namespace
}  // namespace torture

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return torture::Main(argv[1], std::strtoull(argv[2], nullptr, 10));
}
