// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/gzip_text.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

namespace gpumem {
namespace {

constexpr size_t kChunk = size_t{1} << 18;
constexpr int kGzip = 16;  // added to the window's bits: with gzip's header

}  // namespace

struct GzipText::Stream {
  z_stream zlib{};
  std::string out = std::string(kChunk, '\0');
};

GzipText::GzipText(TextSink sink) : sink_(std::move(sink)), stream_(std::make_unique<Stream>()) {
  const int made =
      deflateInit2(&stream_->zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY);
  if (made != Z_OK) std::abort();  // no memory, or a library that is not the header's
}

GzipText::~GzipText() { deflateEnd(&stream_->zlib); }

void GzipText::Deflate(absl::string_view text, bool is_last) {
  z_stream& zlib = stream_->zlib;
  do {
    const absl::string_view part = text.substr(0, kChunk);
    text.remove_prefix(part.size());
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    zlib.avail_in = static_cast<uInt>(part.size());
    do {
      zlib.next_out = reinterpret_cast<Bytef*>(stream_->out.data());
      zlib.avail_out = static_cast<uInt>(kChunk);
      deflate(&zlib, is_last && text.empty() ? Z_FINISH : Z_NO_FLUSH);
      const size_t made = kChunk - zlib.avail_out;
      if (made > 0) sink_(absl::string_view(stream_->out).substr(0, made));
    } while (zlib.avail_out == 0);
  } while (!text.empty());
}

}  // namespace gpumem
