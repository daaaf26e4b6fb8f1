// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The ring's names of what lies in its mapping, which the analyzer reads too: shared/ring_layout.h. The ring reaches
// the shared words through std::atomic_ref.

#ifndef GPUMEM_SHIM_RING_LAYOUT_H_
#define GPUMEM_SHIM_RING_LAYOUT_H_

#include "shared/ring_layout.h"
#include "shim/ring/ring.h"

namespace gpumemshim::ring {

using gpumem::format::ChunkDescriptor;
using gpumem::format::ChunkState;
using gpumem::format::CodeBlob;
using gpumem::format::CodeRecord;
using gpumem::format::EventOf;
using gpumem::format::EventRecord;
using gpumem::format::kChunkBytes;
using gpumem::format::kChunkClosed;
using gpumem::format::kChunkFree;
using gpumem::format::kChunkOpen;
using gpumem::format::kLayoutVersion;
using gpumem::format::kLeastEventBytes;
using gpumem::format::kMagic;
using gpumem::format::kMaxCodePartBytes;
using gpumem::format::kMiddleEventBytes;
using gpumem::format::kPageBytes;
using gpumem::format::kProgramNameBytes;
using gpumem::format::kRecordCode;
using gpumem::format::kRecordEvent;
using gpumem::format::kRecordStack;
using gpumem::format::kRecordText;
using gpumem::format::kRequestEventBytes;
using gpumem::format::kThreadNameBytes;
using gpumem::format::kTracePathBytes;
using gpumem::format::ReadSlot;
using gpumem::format::RecordHeader;
using gpumem::format::RecordType;
using gpumem::format::RingHeader;
using gpumem::format::StackRecord;
using gpumem::format::TextRecord;

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_LAYOUT_H_
