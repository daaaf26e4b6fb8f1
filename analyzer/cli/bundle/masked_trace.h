// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A copy of a trace in which every text is masked. Events, sizes, times and stacks are as they were, so every command
// gives the same numbers of it, and pictures of it show nothing that a text of it would not. All files of a series, in
// their order, become one.
//
//   Masker masker;
//   GPUMEM_RETURN_IF_ERROR(WriteMaskedTrace({"run.gmtrace"}, "masked.gmtrace", &masker));
//
// Every field of type string of every message is masked, so also those that trace.proto gets tomorrow. What a newer
// recorder wrote and this program does not know is left out. Identifiers of machine and GPU are cleared.
// Fails where a file cannot be read or written; damage is not a failure: what follows it is copied, and packets that
// are missing are missing in the copy, too.

#ifndef GPUMEM_ANALYZER_CLI_BUNDLE_MASKED_TRACE_H_
#define GPUMEM_ANALYZER_CLI_BUNDLE_MASKED_TRACE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/bundle/masker.h"

namespace gpumem {

absl::Status WriteMaskedTrace(const std::vector<std::string>& from, const std::string& to, Masker* masker);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_BUNDLE_MASKED_TRACE_H_
