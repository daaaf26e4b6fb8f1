// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportMemoryTimeline: what torch.profiler's export_memory_timeline writes (torch/profiler/_memory_profiler.py,
// MemoryProfileTimeline) as a trace. Two forms, told apart by their shape, of one device each, which neither names:
//
//   .json            [[t, ...], [[0, bytes, ... of each category], ...]]   t in microseconds: totals by category
//   .raw.json.gz     [[t, action, bytes, category], ...]                   t in nanoseconds, -1 = from before
//
// The raw form has every tensor's memory with its size but without an address: a free is matched with the block of its
// size and category that came last. The other has totals alone: where a category rises, the rise is one block. So
// totals are exact at each time, and whose memory a free was is made up (ImportResult.has_lives). Categories are stated
// by the profiler. DataLoss where it is no such list; else errors are the sink's.
//
//   if (IsMemoryTimeline(source.Peek())) ImportMemoryTimeline(&source, "timeline.json", sink);

#ifndef GPUMEM_ANALYZER_IMPORT_MEMORY_TIMELINE_H_
#define GPUMEM_ANALYZER_IMPORT_MEMORY_TIMELINE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/byte_source.h"
#include "import/import.h"

namespace gpumem {

// A list that begins with a list.
bool IsMemoryTimeline(absl::string_view begin);

absl::StatusOr<ImportResult> ImportMemoryTimeline(ByteSource* source, const std::string& path, TraceWriter::Sink sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_MEMORY_TIMELINE_H_
