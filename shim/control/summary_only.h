// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A rank that keeps a summary alone (GPUMEMSHIM_RANKS): its trace is in a folder in memory (summary_folder.h), bounded,
// and goes at the end; only the analyzer writes to where the trace would have been.
//
// Thread-safety: Begin before the writer starts, EndSummaryOnly in the writer's thread after the last summary, all else
// between them. Failure: Begin is false where no place for the folder can be had.
//
//   if (settings.summary_only && !BeginSummaryOnly(...)) ...   // nothing is recorded

#ifndef GPUMEM_SHIM_CONTROL_SUMMARY_ONLY_H_
#define GPUMEM_SHIM_CONTROL_SUMMARY_ONLY_H_

#include <cstddef>

#include "shim/settings/process_facts.h"
#include "shim/settings/settings.h"

namespace gpumemshim::control {

// Makes the folder, and sets the limit of the trace's size.
bool BeginSummaryOnly(const ProcessFacts& facts, Settings* settings);

void EndSummaryOnly();

// The trace's path; false where this process keeps its trace.
bool SummaryTracePath(char* out, size_t capacity);

// The summary's path, from the recording's beginning to the process's end; "" where this process keeps its trace.
const char* SummaryTarget();

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_SUMMARY_ONLY_H_
