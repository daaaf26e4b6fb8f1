// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CUPTI: one subscriber, the host's clock.
// Thread-safety: all functions. Failure mode: 1 (CUPTI_ERROR_INVALID_PARAMETER) for null outputs, 39
// (CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) for a second subscriber.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "simcuda/base/memory_observer.h"
#include "stub.h"

// SIMCUDA_CUPTI, how the simulated CUPTI misbehaves: "late,drop=10" (simcuda/README.md).

/* The number behind "name="; 1 for the word alone, 0 where it is not in the list. */
inline uint32_t cupti_setting(const char* name) {
  const char* at = getenv("SIMCUDA_CUPTI");
  const size_t length = strlen(name);
  while (at != nullptr && *at != '\0') {
    if (strncmp(at, name, length) == 0) {
      if (at[length] == '=') return static_cast<uint32_t>(strtoul(at + length + 1, nullptr, 10));
      if (at[length] == '\0' || at[length] == ',') return 1;
    }
    at = strchr(at, ',');
    if (at != nullptr) ++at;
  }
  return 0;
}

/* 12.9 still counted by ones. */
inline uint32_t cupti_version() {
  const uint32_t set = cupti_setting("version");
  return set != 0 ? set : STUB_CUDA_MAJOR == 12 ? 28 : 130000;
}

/* As the real one, CUPTI ends in a destructor of its library, and what is called afterwards ends the program. */
void cupti_must_live();

namespace {

enum Result { kSuccess = 0, kInvalidParameter = 1, kMaxLimitReached = 12, kNotReady = 19, kMultipleSubscribers = 39 };

int subscribed = 0;
bool ended = false;

struct End {
  ~End() { ended = true; }
} end;

}  // namespace

void cupti_must_live() {
  if (ended) abort();
}

STUB_API int cuptiGetVersion(uint32_t* version) {
  if (version == nullptr) return kInvalidParameter;
  *version = cupti_version();
  return kSuccess;
}
STUB_API int cuptiGetResultString(int result, const char** text) {
  if (text == nullptr) return kInvalidParameter;
  *text = result == kSuccess ? "CUPTI_SUCCESS" : "simulated CUPTI error";
  return kSuccess;
}
STUB_API int cuptiGetCallbackName(int, uint32_t, const char** name) {
  if (name == nullptr) return kInvalidParameter;
  *name = "simulated";
  return kSuccess;
}
STUB_API int cuptiGetTimestamp(uint64_t* timestamp_ns) {
  cupti_must_live();
  if (timestamp_ns == nullptr) return kInvalidParameter;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *timestamp_ns = static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
  return kSuccess;
}
STUB_API int cuptiSubscribe(void** subscriber, void*, void*) {
  cupti_must_live();
  if (subscriber == nullptr) return kInvalidParameter;
  if (cupti_setting("busy") != 0) return kMultipleSubscribers;
  if (__atomic_exchange_n(&subscribed, 1, __ATOMIC_ACQ_REL) != 0) return kMultipleSubscribers;
  *subscriber = stub_handle();
  return kSuccess;
}
STUB_API int cuptiUnsubscribe(void* subscriber) {
  cupti_must_live();
  stub_release(subscriber);
  __atomic_store_n(&subscribed, 0, __ATOMIC_RELEASE);
  return kSuccess;
}

namespace {

// CUPTI's activity records of memory (MEMORY2) and of pools (MEMORY_POOL), from what the simulated driver tells of its
// calls. As with the real one (docs/cross-check.md, On a GPU), mappings have a record without a context, the launch of
// a graph has one of each node's memory, and cuMemCreate and its kin, registered host memory and imports have none.
// Each call has a correlation id of its own. Records are as long as those of the CUPTI that cuptiGetVersion names; what
// is behind the fields of their first version is zero.
//
// Thread-safety: all functions; a buffer's callbacks run in the thread that flushes, or in that of the call that filled
// a buffer, under the driver's lock: they must not call CUDA. Failure: 1 for null outputs, 12 for no more records.

enum Kind : uint32_t { kMemory2 = 49, kMemoryPool = 50 };
enum MemoryKind : uint32_t { kPinned = 2, kDevice = 3, kArray = 4, kManaged = 5, kStatic = 6 };

constexpr size_t kPending = 256;   // records that make CUPTI deliver on its own
constexpr size_t kDisorderly = 4;  // records a buffer, where buffers are to come out of order
constexpr size_t kMaxPending = size_t{1} << 20;

struct MemoryRecord {  // CUpti_ActivityMemory4; the versions before it are its beginning
  uint32_t kind, operation, memory, correlation;
  uint64_t address, bytes, timestamp, pc;
  uint32_t process, device, context, stream;
  const char* name;
  uint32_t async, padding;
  uint32_t pool_type, padding2;
  uint64_t pool_address, threshold, pool_size, utilized;
  const char* source;
};
struct PoolRecord {  // CUpti_ActivityMemoryPool3
  uint32_t kind, operation, pool_type, correlation;
  uint32_t process, device;
  uint64_t keep, address, size, threshold, timestamp, utilized;
  uint8_t managed, padding[7];
};
union AnyRecord {
  uint32_t kind;
  MemoryRecord memory;
  PoolRecord pool;
};
static_assert(sizeof(MemoryRecord) == 128 && sizeof(PoolRecord) == 80);

using RequestBuffer = void (*)(uint8_t**, size_t*, size_t*);
using CompleteBuffer = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
AnyRecord* pending = nullptr;
size_t pending_count = 0, pending_room = 0;
RequestBuffer request_buffer = nullptr;
CompleteBuffer complete_buffer = nullptr;
bool memory_on = false, pools_on = false;
uint32_t correlation = 0, offered = 0;
size_t dropped = 0;

// Of what was allocated: the kind of memory, which a free does not name.
struct Known {
  uint64_t address;
  uint32_t memory;
};
Known* known = nullptr;
size_t known_count = 0, known_room = 0;

template <typename Value>
Value* Grown(Value* values, size_t count, size_t* room) {
  if (count < *room) return values;
  const size_t wanted = *room == 0 ? 256 : 2 * *room;
  Value* grown = static_cast<Value*>(realloc(static_cast<void*>(values), wanted * sizeof(Value)));
  if (grown != nullptr) *room = wanted;
  return grown;
}

uint64_t Now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

size_t LengthOf(uint32_t kind) {
  const uint32_t version = cupti_version();
  const bool first = version <= 18, newest = version >= 100000;
  if (kind == kMemory2) return first ? 112 : newest ? 128 : 120;
  return first ? 64 : newest ? 80 : 72;
}

// Hands out `count` pending records in one buffer, or as many as fit; returns how many.
size_t Deliver(const AnyRecord* records, size_t count, bool backwards) {
  uint8_t* buffer = nullptr;
  size_t size = 0, most = 0, used = 0, done = 0;
  request_buffer(&buffer, &size, &most);
  if (buffer == nullptr) {
    dropped += count;
    return count;
  }
  for (; done < count && (most == 0 || done < most); ++done) {
    const AnyRecord& record = records[backwards ? count - 1 - done : done];
    const size_t length = LengthOf(record.kind);
    if (size - used < length) break;
    memcpy(buffer + used, &record, length);
    used += length;
  }
  complete_buffer(nullptr, 0, buffer, size, used);
  return done;
}

// All that is pending. The caller holds the lock; the buffers' callbacks come back for dropped records only.
void DeliverAll() {
  if (request_buffer == nullptr || complete_buffer == nullptr) return;
  if (cupti_setting("disorder") != 0) {
    while (pending_count > 0) {
      const size_t count = pending_count < kDisorderly ? pending_count : kDisorderly;
      pending_count -= count;
      Deliver(pending + pending_count, count, true);
    }
    return;
  }
  for (size_t done = 0; done < pending_count;) {
    const size_t now = Deliver(pending + done, pending_count - done, false);
    if (now == 0) {
      dropped += pending_count - done;  // a buffer without room for one
      break;
    }
    done += now;
  }
  pending_count = 0;
}

void Add(const AnyRecord& record) {
  const uint32_t every = cupti_setting("drop");
  AnyRecord* grown = Grown(pending, pending_count, &pending_room);
  if (grown != nullptr) pending = grown;
  if ((every != 0 && ++offered % every == 0) || grown == nullptr || pending_count == kMaxPending) {
    ++dropped;
    return;
  }
  pending[pending_count++] = record;
}

void Remember(uint64_t address, uint32_t memory) {
  Known* grown = Grown(known, known_count, &known_room);
  if (grown == nullptr) return;
  known = grown;
  known[known_count++] = {address, memory};
}

uint32_t Forget(uint64_t address) {
  for (size_t i = known_count; i-- > 0;) {
    if (known[i].address != address) continue;
    const uint32_t memory = known[i].memory;
    known[i] = known[--known_count];
    return memory;
  }
  return kDevice;  // it was there before anybody asked
}

bool IsMapping(const simcuda_memory_event& event) {
  return strcmp(event.kind, "map") == 0 || strcmp(event.kind, "unmap") == 0;
}

// The operation of an event on memory (1 or 2) and its kind; 0: it has no record.
uint32_t OperationOn(const simcuda_memory_event& event, uint64_t* address, uint32_t* memory) {
  *address = event.address;
  if (strcmp(event.kind, "alloc") == 0 || strcmp(event.kind, "static") == 0) {
    *memory = event.kind[0] == 's' ? kStatic : strstr(event.api, "Managed") != nullptr ? kManaged : kDevice;
    Remember(*address, *memory);
    return 1;
  }
  if (strcmp(event.kind, "free") == 0) {
    *memory = Forget(*address);
    return 2;
  }
  if (IsMapping(event) || strcmp(event.kind, "graph_alloc") == 0) {
    *memory = kDevice;
    return strcmp(event.kind, "unmap") == 0 ? 2 : 1;
  }
  if (strncmp(event.kind, "host_", 5) == 0) {
    *memory = kPinned;
    return strcmp(event.kind, "host_alloc") == 0 ? 1 : 2;
  }
  if (strncmp(event.kind, "array_", 6) == 0) {
    *memory = kArray;
    *address = event.handle;
    return strcmp(event.kind, "array_create") == 0 ? 1 : 2;
  }
  return 0;
}

uint32_t OperationOnPool(const char* kind) {
  if (strcmp(kind, "pool_create") == 0) return 1;
  if (strcmp(kind, "pool_destroy") == 0) return 2;
  return strcmp(kind, "pool_trim") == 0 ? 3 : 0;
}

void Observe(const simcuda_memory_event* event) {
  pthread_mutex_lock(&mutex);
  ++correlation;
  AnyRecord record;
  memset(&record, 0, sizeof record);
  uint64_t address = 0;
  uint32_t memory = 0;
  const uint32_t operation = OperationOn(*event, &address, &memory);
  const uint32_t pool_operation = operation == 0 ? OperationOnPool(event->kind) : 0;
  const uint32_t device = event->device < 0 ? 0 : static_cast<uint32_t>(event->device);
  if (operation != 0 && memory_on) {
    MemoryRecord& out = record.memory;
    out.kind = kMemory2;
    out.operation = operation;
    out.memory = memory;
    out.correlation = correlation;
    out.address = address;
    out.bytes = event->size;
    out.timestamp = Now();
    out.process = static_cast<uint32_t>(getpid());
    out.device = device;
    out.context = IsMapping(*event) ? UINT32_MAX : 1;
    out.stream = UINT32_MAX;
    out.async = strstr(event->api, "Async") != nullptr;
    if (memory == kDevice && event->handle != 0) out.pool_address = event->handle;
    Add(record);
  } else if (pool_operation != 0 && pools_on) {
    PoolRecord& out = record.pool;
    out.kind = kMemoryPool;
    out.operation = pool_operation;
    out.pool_type = 1;  // of this process
    out.correlation = correlation;
    out.process = static_cast<uint32_t>(getpid());
    out.device = device;
    out.address = event->handle;
    out.timestamp = Now();
    Add(record);
  }
  if (pending_count >= kPending && cupti_setting("late") == 0) DeliverAll();
  pthread_mutex_unlock(&mutex);
}

void Switch(uint32_t kind, bool on) {
  cupti_must_live();
  static void (*observe)(simcuda_observer) = nullptr;
  if (observe == nullptr) *reinterpret_cast<void**>(&observe) = stub_driver("simcuda_observe");
  pthread_mutex_lock(&mutex);
  if (kind == kMemory2) memory_on = on;
  if (kind == kMemoryPool) pools_on = on;
  const bool any = memory_on || pools_on;
  pthread_mutex_unlock(&mutex);
  if (observe != nullptr) observe(any ? &Observe : nullptr);
}

}  // namespace

STUB_API int cuptiActivityEnable(uint32_t kind) {
  Switch(kind, true);
  return kSuccess;
}
STUB_API int cuptiActivityDisable(uint32_t kind) {
  Switch(kind, false);
  return kSuccess;
}
STUB_API int cuptiActivityRegisterCallbacks(RequestBuffer request, CompleteBuffer complete) {
  if (request == nullptr || complete == nullptr) return kInvalidParameter;
  pthread_mutex_lock(&mutex);
  request_buffer = request;
  complete_buffer = complete;
  pthread_mutex_unlock(&mutex);
  return kSuccess;
}
STUB_API int cuptiActivityFlushAll(uint32_t) {
  cupti_must_live();
  pthread_mutex_lock(&mutex);
  const bool ready = request_buffer != nullptr;
  DeliverAll();
  pthread_mutex_unlock(&mutex);
  return ready ? kSuccess : kNotReady;
}
STUB_API int cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* count) {
  if (count == nullptr) return kInvalidParameter;
  *count = __atomic_exchange_n(&dropped, 0, __ATOMIC_ACQ_REL);  // the lock may be ours: a buffer's callback asks
  return kSuccess;
}
STUB_API int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_size, void** record) {
  if (buffer == nullptr || record == nullptr) return kInvalidParameter;
  uint8_t* next = buffer;
  if (*record != nullptr) {
    next = static_cast<uint8_t*>(*record);
    uint32_t kind = 0;
    memcpy(&kind, next, sizeof kind);
    next += LengthOf(kind);
  }
  if (next >= buffer + valid_size) return kMaxLimitReached;
  *record = next;
  return kSuccess;
}
