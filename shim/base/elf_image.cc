// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/elf_image.h"

#include <link.h>

#include <cstring>

namespace gpumemshim::elf {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMaxNoteBytes = 65536;
constexpr uint64_t kMaxTableBytes = 65536;  // enough to tell two builds apart

using Header = ElfW(Phdr);

// What the file brought into memory of [at, at + size), from `at` on.
uint64_t MappedBytes(const dl_phdr_info& info, uint64_t at, uint64_t size) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const Header& p = info.dlpi_phdr[i];
    if (p.p_type != PT_LOAD || (p.p_flags & PF_R) == 0 || at < p.p_vaddr || at >= p.p_vaddr + p.p_filesz) continue;
    const uint64_t left = p.p_vaddr + p.p_filesz - at;
    return size < left ? size : left;
  }
  return 0;
}

constexpr uint64_t NoteAlign(uint64_t size) { return (size + 3) & ~uint64_t{3}; }

bool ReadBuildId(const uint8_t* note, uint64_t left, Image* image) {
  while (left >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, note, sizeof header);
    const uint64_t name = NoteAlign(header.n_namesz);
    const uint64_t size = sizeof header + name + NoteAlign(header.n_descsz);
    if (size > left) return false;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(note + sizeof header, "GNU", 4) == 0 &&
        header.n_descsz <= kMaxBuildIdBytes) {
      image->build_id_bytes = header.n_descsz;
      std::memcpy(image->build_id, note + sizeof header + name, header.n_descsz);
      return true;
    }
    note += size;
    left -= size;
  }
  return false;
}

uint64_t HashBytes(const uint8_t* data, uint64_t size) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint64_t i = 0; i < size; ++i) hash = (hash ^ data[i]) * 0x100000001b3;
  return hash | 1;
}

}  // namespace

bool Describe(const dl_phdr_info& info, Image* image) {
  *image = {&info, UINT64_MAX, 0, info.dlpi_addr, 0, 0, {}};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const Header& p = info.dlpi_phdr[i];
    if (p.p_type != PT_LOAD) continue;
    const uint64_t start = (info.dlpi_addr + p.p_vaddr) & ~(kPage - 1);
    const uint64_t end = (info.dlpi_addr + p.p_vaddr + p.p_memsz + kPage - 1) & ~(kPage - 1);
    if (start < image->start) image->start = start;
    if (end > image->end) image->end = end;
  }
  return image->end != 0;
}

void ReadContent(Image* image) {
  const dl_phdr_info& info = *image->info;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const Header& p = info.dlpi_phdr[i];
    if (p.p_type != PT_NOTE || p.p_memsz > kMaxNoteBytes || MappedBytes(info, p.p_vaddr, p.p_memsz) < p.p_memsz)
      continue;
    if (ReadBuildId(reinterpret_cast<const uint8_t*>(info.dlpi_addr + p.p_vaddr), p.p_memsz, image)) return;
  }
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const Header& p = info.dlpi_phdr[i];
    if (p.p_type != PT_GNU_EH_FRAME) continue;
    // The tables follow their index in the same segment.
    const uint64_t size = MappedBytes(info, p.p_vaddr, kMaxTableBytes);
    image->content = HashBytes(reinterpret_cast<const uint8_t*>(info.dlpi_addr + p.p_vaddr), size);
  }
}

}  // namespace gpumemshim::elf
