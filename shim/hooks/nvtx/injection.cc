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

#include "shim/base/memory_checkers.h"
#include "shim/hooks/nvtx/messages.h"
#include "shim/hooks/nvtx/ranges.h"

namespace gpumemshim::nvtx {

uint64_t NextRange() {
  static std::atomic<uint64_t> last;
  return uint64_t{1} << 63 | (last.fetch_add(1, std::memory_order_relaxed) + 1);
}

namespace {

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
