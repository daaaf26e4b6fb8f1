// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The recorder's names of what it shares with the analyzer: shared/event.h.

#ifndef GPUMEM_SHIM_BASE_EVENT_H_
#define GPUMEM_SHIM_BASE_EVENT_H_

#include "shared/event.h"

namespace gpumemshim {

using gpumem::format::Event;
using gpumem::format::EventKind;
using gpumem::format::HasText;
using gpumem::format::IsFree;
using gpumem::format::IsMark;
using gpumem::format::kExistingBlock;
using gpumem::format::kExistingMapping;
using gpumem::format::kExistingSegment;
using gpumem::format::kMarkProgramEnd;
using gpumem::format::kNoDevice;
using gpumem::format::kStartWithExisting;
using gpumem::format::kUseOfMemPool;
using gpumem::format::kUseOfRecordStream;
using gpumem::format::kUseOfStream;
using gpumem::format::Layer;
using gpumem::format::Memory;

}  // namespace gpumemshim

#endif  // GPUMEM_SHIM_BASE_EVENT_H_
