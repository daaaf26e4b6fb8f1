// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/decompress.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gpumem/trace.pb.h"
#include "trace/limits.h"

namespace gpumem {

std::string Decompress(uint64_t codec, absl::string_view payload, uint64_t size, absl::string_view dictionary,
                       std::string* out) {
  const uint64_t most = std::min(kMaxUncompressed, kAlwaysUncompressed + kMaxRatio * payload.size());
  if (size > most)
    return absl::StrCat("a compressed packet claims ", size, " bytes; at most ", most, " are allowed for its ",
                        payload.size());
  out->resize(size);
  if (codec == trace::CODEC_LZ4_BLOCK) {
    const int got =
        LZ4_decompress_safe(payload.data(), out->data(), static_cast<int>(payload.size()), static_cast<int>(size));
    return got >= 0 && static_cast<uint64_t>(got) == size ? "" : "an LZ4 block is broken";
  }
  if (codec == trace::CODEC_LZ4_CHAINED) {
    const int got =
        LZ4_decompress_safe_usingDict(payload.data(), out->data(), static_cast<int>(payload.size()),
                                      static_cast<int>(size), dictionary.data(), static_cast<int>(dictionary.size()));
    return got >= 0 && static_cast<uint64_t>(got) == size ? "" : "a chained LZ4 block is broken";
  }
  if (codec == trace::CODEC_ZSTD) {
    const size_t got = ZSTD_decompress(out->data(), size, payload.data(), payload.size());
    return ZSTD_isError(got) == 0 && got == size ? "" : "a zstd frame is broken";
  }
  if (codec == trace::CODEC_NONE) {
    if (payload.size() != size) return "a stored packet has another size than it claims";
    out->assign(payload.data(), payload.size());
    return "";
  }
  return absl::StrCat("compression codec ", codec, " is not known to this version of gpumemshim");
}

}  // namespace gpumem
