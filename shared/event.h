// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Event: one allocation, free or related call, as a hook hands it to the ring. Plain data of fixed size, so that
// writing one into the ring is a copy and the analyzer can read it from the mapping of a killed process. The enums
// carry the numbers of proto/gpumem/trace.proto; a test compares the two. What the analyzer reads is hostile until it
// was checked: an enum may hold any number.
//
//   Event e{};
//   e.kind = EventKind::kAlloc; e.layer = Layer::kRuntime; e.address = ptr; e.size = bytes;
//   ring::Record(e);

#ifndef GPUMEM_SHARED_EVENT_H_
#define GPUMEM_SHARED_EVENT_H_

#include <cstdint>
#include <type_traits>

namespace gpumem::format {

// What happened. See trace.proto, EventKind.
enum class EventKind : uint8_t {
  kUnspecified = 0,
  kAlloc = 1,
  kFree = 2,
  kAllocFailed = 3,
  kFreeFailed = 4,
  kAddressReserve = 5,
  kAddressFree = 6,
  kPhysicalCreate = 7,
  kPhysicalRelease = 8,
  kPhysicalRetain = 9,
  kMap = 10,
  kUnmap = 11,
  kImport = 12,
  kImportClose = 13,
  kHostRegister = 14,
  kHostUnregister = 15,
  kPoolCreate = 16,
  kPoolDestroy = 17,
  kPoolTrim = 18,
  kDeviceReset = 19,
  kContextCreate = 20,
  kContextDestroy = 21,
  kModuleLoad = 22,
  kModuleUnload = 23,
  kGraphNodeAlloc = 24,
  kGraphNodeFree = 25,
  kGraphMemory = 26,
  kMulticastBind = 27,
  kMulticastUnbind = 28,
  kPoolSetting = 29,
  kMark = 30,
  kRangePush = 31,
  kRangePop = 32,
  kStep = 33,
  kTag = 34,
  kRangeStart = 35,
  kRangeEnd = 36,
  kRecordingStart = 37,
  kRecordingStop = 38,
  kOomDevice = 40,
  kOomAllocator = 41,
  kOomPool = 42,
  kContextGrowth = 43,
  kTensor = 44,
  kSaved = 45,
  kOptimizerStep = 46,
  kHostRead = 47,
  kTorchLimit = 48,
  kExisting = 49,
  kExistingEnd = 50,
  kAllocatorUse = 52,  // 51 is of imports alone
  kTensorData = 53,
  kLocalMemory = 54,
  kCommunicator = 55,
};

// Whose call was recorded. See trace.proto, Layer.
enum class Layer : uint8_t { kUnspecified = 0, kDriver = 1, kRuntime = 2, kTorch = 3 };

// What a mark is, by its handle; 0 = an instant with a name.
inline constexpr uint64_t kMarkSnapshot = 1;    // its memory is to be shown
inline constexpr uint64_t kMarkProgramEnd = 2;  // the program's own code is over; teardown follows

// What an event of kExisting stands for, by its handle.
inline constexpr uint64_t kExistingBlock = 1;
inline constexpr uint64_t kExistingSegment = 2;
inline constexpr uint64_t kExistingMapping = 3;
// What an event of kAllocatorUse stands for, by its handle.
inline constexpr uint64_t kUseOfStream = 1;
inline constexpr uint64_t kUseOfRecordStream = 2;
inline constexpr uint64_t kUseOfMemPool = 3;
// Handle of kRecordingStart: what exists will be told.
inline constexpr uint64_t kStartWithExisting = 1;

// True for the kinds that are no call: what the program says about itself.
constexpr bool IsMark(EventKind kind) { return kind >= EventKind::kMark && kind <= EventKind::kRecordingStop; }

// True for the kinds whose events may have a text: marks, and names of memory.
constexpr bool HasText(EventKind kind) { return IsMark(kind) || kind == EventKind::kTensor; }

// What counts as a free when room is short: kinds that end something, so that losing one would show memory that is not
// there.
constexpr bool IsFree(EventKind kind) {
  return kind == EventKind::kFree || kind == EventKind::kAddressFree || kind == EventKind::kPhysicalRelease ||
         kind == EventKind::kUnmap || kind == EventKind::kImportClose || kind == EventKind::kHostUnregister ||
         kind == EventKind::kPoolDestroy || kind == EventKind::kDeviceReset || kind == EventKind::kContextDestroy ||
         kind == EventKind::kModuleUnload || kind == EventKind::kGraphMemory || kind == EventKind::kMulticastUnbind ||
         kind == EventKind::kCommunicator;
}

// Of what sort the memory is. See trace.proto, Memory.
enum class Memory : uint8_t {
  kDevice = 0,
  kStreamOrdered = 1,
  kManaged = 2,
  kHostPinned = 3,
  kArray = 4,
  kVirtual = 5,
  kPhysical = 6,
  kPhysicalHost = 7,
  kMulticast = 8,
  kExternal = 9,
};

// Where the device is not known, or there is none: physical memory on the host.
inline constexpr int16_t kNoDevice = -1;

// In the order in which fields are used: the ring stores an event as far as the last field that is not 0.
struct Event {
  uint64_t time_ns;  // CLOCK_MONOTONIC; filled by ring::Record when 0
  uint64_t address;  // device pointer, host pointer, or array handle
  EventKind kind;
  Layer layer;
  Memory memory;
  uint8_t reserved;  // zero
  int16_t device;    // CUDA ordinal or kNoDevice
  uint16_t api;      // index into the table of hooked functions (base/api.h); 0 = none
  uint64_t size;     // bytes as the layer states them
  uint64_t stack;    // content hash of the stack (stack/intern.h); 0 = none
  union {
    uint64_t torch_allocated;  // torch layer: the allocator's own totals after this event, bytes
    uint64_t text;             // where HasText: the key that ring::RecordText was given; 0 = none
  };
  uint64_t torch_reserved;
  uint64_t requested_size;  // bytes; 0 = not known
  uint64_t stream;          // handle; 0 = default or none. Marks: id of the thread that is meant; 0 = the recording one
  uint64_t handle;          // pool or physical handle, number of a step or range, by kind
  uint32_t tag;             // 0 = none
  uint32_t duration_ns;     // of the real call; 0 = not measured
  int32_t result;           // CUresult or cudaError_t; 0 = success
  uint32_t reserved2;       // zero
};
static_assert(sizeof(Event) == 96, "the analyzer reads this layout from the mapping of a killed process");
static_assert(std::is_trivially_copyable_v<Event>);

// What the marks begin with that `gpumemshim forecast --watch` and gpumemshim.on_forecast leave in a trace, for the
// recorder and for the report. The whole mark has more in parentheses: "forecast callback failed (exec: exited with
// code 3)".

inline constexpr char kForecastWarningMark[] = "forecast warning";
inline constexpr char kFailedCallbackMark[] = "forecast callback failed";

}  // namespace gpumem::format

#endif  // GPUMEM_SHARED_EVENT_H_
