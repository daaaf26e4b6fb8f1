// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Of which thread a mark speaks.

#ifndef GPUMEM_ANALYZER_TRACE_MARK_THREAD_H_
#define GPUMEM_ANALYZER_TRACE_MARK_THREAD_H_

#include <cstddef>
#include <cstdint>

#include "trace/event_batch.h"
#include "trace/stack_table.h"

namespace gpumem {

// The kernel's id of the thread that mark `i` is of: the one that it names (in the column `stream`), else the one that
// left it. Of a thread that the trace does not define, its number there.
inline uint32_t ThreadOfMark(const EventBatch& batch, size_t i, const StackTable& names) {
  if (batch.stream(i) != 0) return static_cast<uint32_t>(batch.stream(i));
  const ThreadInfo* const thread = names.thread(batch.thread(i));
  return thread != nullptr ? thread->tid : batch.thread(i);
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_MARK_THREAD_H_
