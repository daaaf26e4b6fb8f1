// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a loaded object says of itself: where it is mapped, and what tells its content from another one's. Reads only
// what the object's program headers say was mapped from its file.
//
// Thread-safety: inside a callback of dl_iterate_phdr, while the object cannot go. Failure: Describe returns false for
// an object without code or data; an object without a build id has build_id_bytes 0.
//
//   elf::Image image;
//   if (elf::Describe(*info, &image)) elf::ReadContent(&image);

#ifndef GPUMEM_SHIM_BASE_ELF_IMAGE_H_
#define GPUMEM_SHIM_BASE_ELF_IMAGE_H_

#include <cstdint>

struct dl_phdr_info;

namespace gpumemshim::elf {

inline constexpr uint32_t kMaxBuildIdBytes = 32;

struct Image {
  const dl_phdr_info* info;
  uint64_t start;  // page of the first mapped address
  uint64_t end;    // one past the last mapped page
  uint64_t load_bias;
  uint64_t content;  // hash of its unwind tables, where it has no build id
  uint32_t build_id_bytes;
  uint8_t build_id[kMaxBuildIdBytes];
};

bool Describe(const dl_phdr_info& info, Image* image);

// Fills in build id, or content.
void ReadContent(Image* image);

}  // namespace gpumemshim::elf

#endif  // GPUMEM_SHIM_BASE_ELF_IMAGE_H_
