// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where things lie in a ring of a given size (layout.h). Pure.
//
//   const Shape shape = ShapeOf(config, bytes);
//   const size_t first = shape.BytesOf(16);   // the file's beginning with 16 chunks

#ifndef GPUMEM_SHIM_RING_SHAPE_H_
#define GPUMEM_SHIM_RING_SHAPE_H_

#include <string.h>

#include "shim/ring/layout.h"
#include "shim/ring/ring.h"

namespace gpumemshim::ring {

constexpr size_t RoundUpPage(size_t bytes) { return (bytes + kPageBytes - 1) & ~(kPageBytes - 1); }

struct Shape {
  size_t names_bytes = 0;
  size_t names_offset = 0;
  size_t chunks_offset = 0;
  uint32_t chunk_count = 0;

  size_t BytesOf(uint32_t chunks) const { return chunks_offset + size_t{chunks} * kChunkBytes; }
  uint32_t ChunksIn(size_t bytes) const {
    const size_t chunks = bytes < chunks_offset ? 0 : (bytes - chunks_offset) / kChunkBytes;
    return chunks < chunk_count ? static_cast<uint32_t>(chunks) : chunk_count;
  }
};

inline const char* NameOf(const Config& config, uint16_t api) {
  const char* name = config.api_name(api);
  return name == nullptr ? "" : name;
}

inline Shape ShapeOf(const Config& config, size_t bytes) {
  Shape shape;
  for (uint16_t i = 0; config.api_name != nullptr && i < config.api_count; i++) {
    shape.names_bytes += strlen(NameOf(config, i)) + 1;
  }
  const size_t fixed = kPageBytes + shape.names_bytes + kPageBytes;
  shape.chunk_count = static_cast<uint32_t>((bytes - fixed) / (kChunkBytes + sizeof(ChunkDescriptor)));
  shape.names_offset = kPageBytes + shape.chunk_count * sizeof(ChunkDescriptor);
  shape.chunks_offset = RoundUpPage(shape.names_offset + shape.names_bytes);
  return shape;
}

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_SHAPE_H_
