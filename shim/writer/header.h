// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Encodes the trace's first message. Thread-safety: the writer thread only. Failure: shows in writer->ok().
//
//   EncodeHeader(info, PartInfo(), &writer);

#ifndef GPUMEM_SHIM_WRITER_HEADER_H_
#define GPUMEM_SHIM_WRITER_HEADER_H_

#include "shim/base/proto_writer.h"
#include "shim/writer/writer.h"

namespace gpumemshim::writer {

// Which file of a series it is; number 0 = of none.
struct PartInfo {
  uint64_t series = 0;
  uint32_t number = 0;
  uint64_t events_before = 0;
  bool contiguous = false;
};

// The fields of trace.proto's Header: what control knows, and what the writer sees for itself (pid, clocks, ring).
void EncodeHeader(const HeaderInfo& info, const PartInfo& part, ProtoWriter* w);

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_HEADER_H_
