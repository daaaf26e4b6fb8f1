// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A program with NVTX 3, which lives in headers: ranges of each form around an allocation that is the peak.

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdint>

namespace {

nvtxEventAttributes_t Event() {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  return event;
}

}  // namespace

int main() {
  const nvtxRangeId_t whole = nvtxRangeStartA("whole run");
  nvtxRangePushA("outer");
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxEventAttributes_t event = Event();
  event.messageType = NVTX_MESSAGE_TYPE_UNICODE;
  event.message.unicode = L"inner \u00fc";
  nvtxDomainRangePushEx(domain, &event);
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, 1 << 20) != cudaSuccess) return 1;
  nvtxMarkA("a mark");
  cudaFree(pointer);
  nvtxDomainRangePop(domain);
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  nvtxDomainRangePushEx(domain, &event);
  nvtxDomainRangePop(domain);
  nvtxDomainMarkEx(domain, nullptr);  // a caller's mistake
  nvtxMarkA(nullptr);
  nvtxRangePop();
  nvtxRangePop();  // one too many
  nvtxRangeEnd(whole);
  nvtxRangeEnd(0);
  return 0;
}
