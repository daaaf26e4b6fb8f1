// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Unpacks the payload of a Compressed packet, within the limits of limits.h. A pure function.
//
//   const std::string wrong = Decompress(codec, payload, size, dictionary, &content);

#ifndef GPUMEM_ANALYZER_TRACE_DECOMPRESS_H_
#define GPUMEM_ANALYZER_TRACE_DECOMPRESS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace gpumem {

// Decompresses `payload` into `out`, which gets exactly `size` bytes. Returns what is wrong, or "".
std::string Decompress(uint64_t codec, absl::string_view payload, uint64_t size, absl::string_view dictionary,
                       std::string* out);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_DECOMPRESS_H_
