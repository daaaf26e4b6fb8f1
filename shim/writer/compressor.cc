// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/compressor.h"

#include <lz4.h>
#include <string.h>

#include "shim/writer/fields.h"

namespace gpumemshim::writer {

bool Compressor::Compress(const Buffer& bytes, size_t room, Buffer* out, Result* result) {
  const int size = bytes.size() <= LZ4_MAX_INPUT_SIZE ? static_cast<int>(bytes.size()) : 0;
  const int bound = LZ4_compressBound(size);
  out->Clear();
  if (!out->Reserve(room + bytes.size() + static_cast<size_t>(bound)) || !window_.Reserve(kWindowBytes) ||
      !state_.Reserve(sizeof(LZ4_stream_t))) {
    return false;
  }
  if (chain_bytes_ >= kChainBytes || chain_blocks_ >= kChainBlocks) Forget();
  LZ4_stream_t* stream = LZ4_initStream(state_.data(), sizeof(LZ4_stream_t));
  if (window_.size() != 0) {
    LZ4_loadDict(stream, reinterpret_cast<const char*>(window_.data()), static_cast<int>(window_.size()));
  }
  const int packed = LZ4_compress_fast_continue(stream, reinterpret_cast<const char*>(bytes.data()),
                                                reinterpret_cast<char*>(out->data() + room), size, bound, 1);
  if (packed > 0 && packed < size) {
    *result = {window_.size() != 0 ? fields::kCodecLz4Chained : fields::kCodecLz4Block, static_cast<size_t>(packed)};
  } else {
    *result = {fields::kCodecNone, bytes.size()};
    memcpy(out->data() + room, bytes.data(), bytes.size());
    Forget();
  }
  Remember(bytes);
  return true;
}

void Compressor::Forget() {
  window_.Clear();
  chain_bytes_ = chain_blocks_ = 0;
}

void Compressor::Remember(const Buffer& bytes) {
  chain_bytes_ += bytes.size();
  chain_blocks_++;
  const size_t added = bytes.size() < kWindowBytes ? bytes.size() : kWindowBytes;
  const size_t kept = window_.size() + added <= kWindowBytes ? window_.size() : kWindowBytes - added;
  memmove(window_.data(), window_.data() + window_.size() - kept, kept);
  if (added != 0) memcpy(window_.data() + kept, bytes.data() + bytes.size() - added, added);
  window_.Resize(kept + added);
}

}  // namespace gpumemshim::writer
