// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Data inside of a page, compressed: deflate (zlib's format, RFC 1950), which browsers undo by themselves
// (DecompressionStream), then base64 (RFC 4648), in which nothing can end the script that it stands in. Pure function.
//
//   const std::string text = PackedData(json);   // "eJyrVspIzcnJVyjPL8pJAQAaCwRd"

#ifndef GPUMEM_ANALYZER_WEB_PACKED_DATA_H_
#define GPUMEM_ANALYZER_WEB_PACKED_DATA_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gpumem {

std::string PackedData(absl::string_view data);

// The same before base64: what HTTP calls "Content-Encoding: deflate".
std::string DeflatedData(absl::string_view data);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_PACKED_DATA_H_
