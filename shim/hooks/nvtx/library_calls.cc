// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NVTX before version 3 is a library, libnvToolsExt.so.1, which PyTorch 2.4 and many older programs link. A preload
// stands in front of its functions: each call is noted, then handed on, so another tool behind the library still hears
// it. A program that fetches them by dlsym from the library's own handle goes unnoted.
//
// Where the library itself is missing the calls answer what it answers without a tool.

#include <atomic>

#include "shim/base/calls/real.h"
#include "shim/base/calls/scope.h"
#include "shim/base/symbol_lookup.h"
#include "shim/hooks/nvtx/ranges.h"

namespace gpumemshim::nvtx {
namespace {

constexpr const char* kLibrary = "libnvToolsExt";

// Looked up once; a process without the library asks again, which only misguided ones do.
void* Real(std::atomic<void*>& slot, const char* name) {
  void* known = slot.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  const calls::ErrnoSaver saver;
  known = calls::NextInScope(name);
  if (known == nullptr) known = FindInLoaded(kLibrary, name);
  slot.store(known, std::memory_order_release);
  return known;
}

template <typename Result, typename... Arguments>
Result Forward(void* real, Result otherwise, Arguments... arguments) {
  return real == nullptr ? otherwise : reinterpret_cast<Result (*)(Arguments...)>(real)(arguments...);
}

template <typename... Arguments>
void Forward(void* real, Arguments... arguments) {
  if (real != nullptr) reinterpret_cast<void (*)(Arguments...)>(real)(arguments...);
}

template <typename Text>
void SayText(EventKind kind, const Text* text, uint64_t number = 0) {
  Message message;
  ReadMessage(text, &message);
  Say(kind, message, number);
}

void SayText(EventKind kind, const nvtxEventAttributes_t* event, uint64_t number = 0) {
  Message message;
  ReadMessage(event, nullptr, &message);
  Say(kind, message, number);
}

}  // namespace
}  // namespace gpumemshim::nvtx

using namespace gpumemshim;        // NOLINT: definitions of C functions
using namespace gpumemshim::nvtx;  // NOLINT

#define GPUMEM_NVTX_EXPORT extern "C" __attribute__((visibility("default")))

#define GPUMEM_NVTX_MARK(name, Text)               \
  GPUMEM_NVTX_EXPORT void name(const Text* text);  \
  void name(const Text* text) {                    \
    static std::atomic<void*> real;                \
    SayText(EventKind::kMark, text);               \
    Forward<const Text*>(Real(real, #name), text); \
  }

#define GPUMEM_NVTX_PUSH(name, Text)                                                      \
  GPUMEM_NVTX_EXPORT int name(const Text* text);                                          \
  int name(const Text* text) {                                                            \
    static std::atomic<void*> real;                                                       \
    SayText(EventKind::kRangePush, text);                                                 \
    return Forward<int, const Text*>(Real(real, #name), NVTX_NO_PUSH_POP_TRACKING, text); \
  }

// Without a tool behind it the library numbers every range 0, so ours is handed out then.
#define GPUMEM_NVTX_START(name, Text)                                                       \
  GPUMEM_NVTX_EXPORT nvtxRangeId_t name(const Text* text);                                  \
  nvtxRangeId_t name(const Text* text) {                                                    \
    static std::atomic<void*> real;                                                         \
    nvtxRangeId_t number = Forward<nvtxRangeId_t, const Text*>(Real(real, #name), 0, text); \
    if (number == 0) number = NextRange();                                                  \
    SayText(EventKind::kRangeStart, text, number);                                          \
    return number;                                                                          \
  }

GPUMEM_NVTX_MARK(nvtxMarkEx, nvtxEventAttributes_t)
GPUMEM_NVTX_MARK(nvtxMarkA, char)
GPUMEM_NVTX_MARK(nvtxMarkW, wchar_t)
GPUMEM_NVTX_PUSH(nvtxRangePushEx, nvtxEventAttributes_t)
GPUMEM_NVTX_PUSH(nvtxRangePushA, char)
GPUMEM_NVTX_PUSH(nvtxRangePushW, wchar_t)
GPUMEM_NVTX_START(nvtxRangeStartEx, nvtxEventAttributes_t)
GPUMEM_NVTX_START(nvtxRangeStartA, char)
GPUMEM_NVTX_START(nvtxRangeStartW, wchar_t)

GPUMEM_NVTX_EXPORT int nvtxRangePop();
int nvtxRangePop() {
  static std::atomic<void*> real;
  Pop();
  return Forward<int>(Real(real, "nvtxRangePop"), NVTX_NO_PUSH_POP_TRACKING);
}

GPUMEM_NVTX_EXPORT void nvtxRangeEnd(nvtxRangeId_t number);
void nvtxRangeEnd(nvtxRangeId_t number) {
  static std::atomic<void*> real;
  End(number);
  if (!IsOwnRange(number)) Forward<nvtxRangeId_t>(Real(real, "nvtxRangeEnd"), number);
}
