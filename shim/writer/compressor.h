// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Compressor: LZ4 blocks that know the ones before them. A program that repeats itself every 100 ms or so leaves
// packets that have little to repeat inside, but much of each other: with the last 64 KiB as a dictionary a training
// loop takes half the bytes. A chain is broken off after a quarter of a MiB or 32 blocks: one that is damaged takes
// those behind it in its chain with it, and a reader that goes back reads a chain from its start.
//
// Thread-safety: one thread at a time. Ownership: owns its copy of what went before. Failure: Compress returns false
// without memory; what LZ4 cannot make smaller is handed on as it is.
//
//   Compressor::Result result;
//   compressor.Compress(trace, 40, &out, &result);   // result.size bytes at out.data() + 40

#ifndef GPUMEM_SHIM_WRITER_COMPRESSOR_H_
#define GPUMEM_SHIM_WRITER_COMPRESSOR_H_

#include <cstddef>
#include <cstdint>

#include "shim/base/buffer.h"

namespace gpumemshim::writer {

class Compressor {
 public:
  struct Result {
    uint32_t codec;
    size_t size;
  };

  // Into `out`, behind `room` bytes that are left free.
  bool Compress(const Buffer& bytes, size_t room, Buffer* out, Result* result);

  // The next block stands alone.
  void Forget();

 private:
  static constexpr size_t kWindowBytes = 64 << 10;
  static constexpr size_t kChainBytes = 256 << 10;
  static constexpr uint32_t kChainBlocks = 32;

  void Remember(const Buffer& bytes);

  Buffer window_;  // the last bytes of the chain
  Buffer state_;   // LZ4's working memory
  size_t chain_bytes_ = 0;
  uint32_t chain_blocks_ = 0;
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_COMPRESSOR_H_
