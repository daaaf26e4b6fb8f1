// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a file of a series that is not the first begins with: all definitions so far, and what is alive.
//
// Thread-safety: the writer thread only. Ownership: DefinitionHistory copies what it keeps. Failure: Write* return
// false where the file did; without memory a definition is not kept and lost() counts it.
//
//   history.Keep(definitions);   // the fields of a Definitions message that is in the file
//   history.Write(&file) && WriteLiveSnapshot(&live, &batch, &file, &scratch);

#ifndef GPUMEM_SHIM_WRITER_LIVE_SNAPSHOT_H_
#define GPUMEM_SHIM_WRITER_LIVE_SNAPSHOT_H_

#include <cstdint>

#include "shim/base/buffer.h"
#include "shim/writer/event_batch.h"
#include "shim/writer/live_set.h"
#include "shim/writer/trace_file.h"

namespace gpumemshim::writer {

class DefinitionHistory {
 public:
  void Keep(const Buffer& definitions);
  bool Write(TraceFile* file, Buffer* scratch) const;
  uint64_t lost() const { return lost_; }

 private:
  Buffer bytes_{size_t{256} << 20};
  Array<uint64_t> ends_;  // of what was kept at one time, which must not be torn apart
  uint64_t lost_ = 0;
};

// Uses and clears `batch`.
bool WriteLiveSnapshot(LiveSet* live, EventBatch* batch, TraceFile* file, Buffer* scratch);

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_LIVE_SNAPSHOT_H_
