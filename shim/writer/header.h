// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Encodes the trace's first message. Thread-safety: the writer thread only. Failure: shows in writer->ok().
//
//   EncodeHeader(info, &writer);

#ifndef GPUMEM_SHIM_WRITER_HEADER_H_
#define GPUMEM_SHIM_WRITER_HEADER_H_

#include "shim/base/proto_writer.h"
#include "shim/writer/writer.h"

namespace gpumemshim::writer {

// The fields of trace.proto's Header: what control knows, and what the writer sees for itself (pid, clocks, ring).
void EncodeHeader(const HeaderInfo& info, ProtoWriter* w);

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_HEADER_H_
