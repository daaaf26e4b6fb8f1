// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What NVTX calls say: their message in each of its forms as UTF-8, with the domain's name in front ("NCCL:AllReduce").
//
// Domains and registered strings live in tables of fixed size, and the handles that NVTX hands around point into them.
// Thread-safety: any thread; an entry is complete before its handle exists. Failure: with a table full the handle is
// null, and what bears it has no name.
//
//   Message message;
//   ReadMessage(attributes, domain, &message);

#ifndef GPUMEM_SHIM_HOOKS_NVTX_MESSAGES_H_
#define GPUMEM_SHIM_HOOKS_NVTX_MESSAGES_H_

#include <cstddef>
#include <cstdint>

#define NVTX_NO_IMPL  // its types alone, without the functions that its headers would define here
#include <nvtx3/nvToolsExt.h>

namespace gpumemshim::nvtx {

struct Message {
  size_t size = 0;
  char text[512];
};

void ReadMessage(const nvtxEventAttributes_t* attributes, nvtxDomainHandle_t domain, Message* out);
void ReadMessage(const char* text, Message* out);
void ReadMessage(const wchar_t* text, Message* out);

nvtxDomainHandle_t AddDomain(const char* name);
nvtxDomainHandle_t AddDomain(const wchar_t* name);
nvtxStringHandle_t AddString(const char* text);
nvtxStringHandle_t AddString(const wchar_t* text);

}  // namespace gpumemshim::nvtx

#endif  // GPUMEM_SHIM_HOOKS_NVTX_MESSAGES_H_
