// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Stacks with their bytes as files of profile viewers: speedscope's JSON, and pprof's profile.proto (not compressed,
// which its readers take too). Each stack is one sample. Not thread-safe; the view must outlive the call.
//
//   WriteSpeedscope(view.get(), sink);

#ifndef GPUMEM_ANALYZER_EXPORT_STACK_PROFILES_H_
#define GPUMEM_ANALYZER_EXPORT_STACK_PROFILES_H_

#include "answers/views/load_view.h"
#include "base/text_sink.h"

namespace gpumem {

void WriteSpeedscope(LoadedView* view, bool by_count, const TextSink& sink);
// Sample types inuse_objects (count) and inuse_space (bytes).
// Bytes and counts; `by_count`: which of them tools show first.
void WritePprof(LoadedView* view, bool by_count, const TextSink& sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_STACK_PROFILES_H_
