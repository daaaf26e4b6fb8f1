// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/packed_data.h"

#include <zlib.h>

#include <cstdlib>

#include "absl/strings/escaping.h"

namespace gpumem {

std::string DeflatedData(absl::string_view data) {
  std::string packed(compressBound(data.size()), '\0');
  uLongf size = packed.size();
  const int result = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                               reinterpret_cast<const Bytef*>(data.data()), data.size(), /*level=*/6);
  if (result != Z_OK) abort();  // the room is as large as zlib asked for: no memory is left
  packed.resize(size);
  return packed;
}

std::string PackedData(absl::string_view data) { return absl::Base64Escape(DeflatedData(data)); }

}  // namespace gpumem
