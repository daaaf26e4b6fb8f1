// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ValidText: what protobuf takes as a string: UTF-8. Names out of other people's files need not be. Pure.
//
//   string.set_value(ValidText("a\xff"));   // "a" and the replacement character

#ifndef GPUMEM_ANALYZER_TRACE_VALID_TEXT_H_
#define GPUMEM_ANALYZER_TRACE_VALID_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gpumem {

// Each byte that belongs to no valid character becomes U+FFFD.
std::string ValidText(absl::string_view text);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_VALID_TEXT_H_
