// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NVTX 3, which lives in headers: each library that includes them looks once for a tool, in the file that
// NVTX_INJECTION64_PATH names, else in the symbol InitializeInjectionNvtx2_fnptr where that is visible. We are both, so
// a preload reaches libraries that leave the symbol visible, and `gpumemshim run` sets the variable for all others.
// Where the user has set it for another tool, that tool has its way and we hear nothing.
//
// What each call returns is what it returns without a tool, but numbers of ranges and handles, which must name
// something.

#include <atomic>

#include "shim/base/calls/real.h"
#include "shim/base/calls/scope.h"
#include "shim/base/memory_checkers.h"
#include "shim/base/symbol_lookup.h"
#include "shim/control/marks.h"
#include "shim/hooks/nvtx/messages.h"

namespace gpumemshim::nvtx {

namespace {

// Our ranges and marks: a pushed range is a stage of its thread, a started one a range of the process. What cannot be
// recorded is not, and the caller never notices.
void Say(EventKind kind, const Message& message, uint64_t number = 0) {
  control::RecordMark({.kind = kind, .text = message.text, .size = message.size, .number = number});
}

void Pop() { control::RecordMark({.kind = EventKind::kRangePop}); }

void End(uint64_t number) { control::RecordMark({.kind = EventKind::kRangeEnd, .number = number}); }

// Numbers of ranges that nobody else has numbered: with the highest bit set, which other tools' numbers do not reach.
uint64_t NextRange() {
  static std::atomic<uint64_t> last;
  return uint64_t{1} << 63 | (last.fetch_add(1, std::memory_order_relaxed) + 1);
}
bool IsOwnRange(uint64_t number) { return number >> 63 != 0; }

template <EventKind kKind, typename Text>
void SayText(const Text* text) {
  Message message;
  ReadMessage(text, &message);
  Say(kKind, message);
}

template <EventKind kKind>
void SayEvent(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  Message message;
  ReadMessage(event, domain, &message);
  Say(kKind, message);
}

void MarkEx(const nvtxEventAttributes_t* event) { SayEvent<EventKind::kMark>(nullptr, event); }

template <typename Text>
int Push(const Text* text) {
  SayText<EventKind::kRangePush>(text);
  return NVTX_NO_PUSH_POP_TRACKING;
}

int DomainPush(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  SayEvent<EventKind::kRangePush>(domain, event);
  return NVTX_NO_PUSH_POP_TRACKING;
}
int PushEx(const nvtxEventAttributes_t* event) { return DomainPush(nullptr, event); }

int PopRange() {
  Pop();
  return NVTX_NO_PUSH_POP_TRACKING;
}
int DomainPop(nvtxDomainHandle_t) { return PopRange(); }

template <typename Text>
nvtxRangeId_t Start(const Text* text) {
  Message message;
  ReadMessage(text, &message);
  const uint64_t number = NextRange();
  Say(EventKind::kRangeStart, message, number);
  return number;
}

nvtxRangeId_t DomainStart(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  Message message;
  ReadMessage(event, domain, &message);
  const uint64_t number = NextRange();
  Say(EventKind::kRangeStart, message, number);
  return number;
}
nvtxRangeId_t StartEx(const nvtxEventAttributes_t* event) { return DomainStart(nullptr, event); }

void EndRange(nvtxRangeId_t number) { End(number); }
void DomainEnd(nvtxDomainHandle_t, nvtxRangeId_t number) { End(number); }

nvtxDomainHandle_t CreateDomain(const char* name) { return AddDomain(name); }
nvtxDomainHandle_t CreateDomainWide(const wchar_t* name) { return AddDomain(name); }
nvtxStringHandle_t RegisterString(nvtxDomainHandle_t, const char* text) { return AddString(text); }
nvtxStringHandle_t RegisterStringWide(nvtxDomainHandle_t, const wchar_t* text) { return AddString(text); }

class FunctionTable {
 public:
  FunctionTable(const NvtxExportTableCallbacks* callbacks, NvtxCallbackModule module) {
    if (callbacks->GetModuleFunctionTable(module, &table_, &size_) == 0) size_ = 0;
  }

  template <typename Function>
  void Set(unsigned id, Function* function) const {
    if (id < size_ && table_[id] != nullptr) *table_[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  }

 private:
  NvtxFunctionTable table_ = nullptr;
  unsigned size_ = 0;
};

void Attach(const FunctionTable& core) {
  core.Set(NVTX_CBID_CORE_MarkEx, &MarkEx);
  core.Set(NVTX_CBID_CORE_MarkA, &SayText<EventKind::kMark, char>);
  core.Set(NVTX_CBID_CORE_MarkW, &SayText<EventKind::kMark, wchar_t>);
  core.Set(NVTX_CBID_CORE_RangeStartEx, &StartEx);
  core.Set(NVTX_CBID_CORE_RangeStartA, &Start<char>);
  core.Set(NVTX_CBID_CORE_RangeStartW, &Start<wchar_t>);
  core.Set(NVTX_CBID_CORE_RangeEnd, &EndRange);
  core.Set(NVTX_CBID_CORE_RangePushEx, &PushEx);
  core.Set(NVTX_CBID_CORE_RangePushA, &Push<char>);
  core.Set(NVTX_CBID_CORE_RangePushW, &Push<wchar_t>);
  core.Set(NVTX_CBID_CORE_RangePop, &PopRange);
}

void AttachDomains(const FunctionTable& core2) {
  core2.Set(NVTX_CBID_CORE2_DomainMarkEx, &SayEvent<EventKind::kMark>);
  core2.Set(NVTX_CBID_CORE2_DomainRangeStartEx, &DomainStart);
  core2.Set(NVTX_CBID_CORE2_DomainRangeEnd, &DomainEnd);
  core2.Set(NVTX_CBID_CORE2_DomainRangePushEx, &DomainPush);
  core2.Set(NVTX_CBID_CORE2_DomainRangePop, &DomainPop);
  core2.Set(NVTX_CBID_CORE2_DomainRegisterStringA, &RegisterString);
  core2.Set(NVTX_CBID_CORE2_DomainRegisterStringW, &RegisterStringWide);
  core2.Set(NVTX_CBID_CORE2_DomainCreateA, &CreateDomain);
  core2.Set(NVTX_CBID_CORE2_DomainCreateW, &CreateDomainWide);
}

}  // namespace
}  // namespace gpumemshim::nvtx

extern "C" {

// NVTX's own entry point: 1 where the tool has taken what it wants.
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table) {
  gpumemshim::BypassMemoryCheckers();
  using gpumemshim::nvtx::FunctionTable;
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(
      get_export_table == nullptr ? nullptr : get_export_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks) return 0;
  gpumemshim::nvtx::Attach(FunctionTable(callbacks, NVTX_CB_MODULE_CORE));
  gpumemshim::nvtx::AttachDomains(FunctionTable(callbacks, NVTX_CB_MODULE_CORE2));
  return 1;
}

extern __attribute__((visibility("default"))) const NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr;
const NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = &InitializeInjectionNvtx2;
}

namespace gpumemshim::nvtx {
namespace {

// NVTX before version 3 is a library, libnvToolsExt.so.1, which PyTorch 2.4 and many older programs link. A preload
// stands in front of its functions: each call is noted, then handed on, so another tool behind the library still hears
// it. A program that fetches them by dlsym from the library's own handle goes unnoted.
//
// Where the library itself is missing the calls answer what it answers without a tool.

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
