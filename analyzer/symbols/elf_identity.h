// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What tells one ELF file from another, and what it has to offer, read from a few headers: no library and no mapping,
// so that a hostile or changing file can do no harm. 64-bit little-endian files only, as traced machines have them.
//
//   const std::optional<ElfIdentity> identity = ReadElfIdentity("/usr/lib/libfoo.so");
//   if (!identity || identity->build_id != module.build_id) ...

#ifndef GPUMEM_ANALYZER_SYMBOLS_ELF_IDENTITY_H_
#define GPUMEM_ANALYZER_SYMBOLS_ELF_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <string>

namespace gpumem {

struct ElfIdentity {
  std::string build_id;    // raw bytes; "" where it has none
  std::string debug_link;  // file name of the separate debug file (.gnu_debuglink), or ""
  uint32_t debug_link_crc = 0;
  bool has_debug_info = false;  // DWARF
};

// Nothing, and errno, where there is no such file; nothing and errno 0 where it is not an ELF file. Never blocks on a
// FIFO.
std::optional<ElfIdentity> ReadElfIdentity(const std::string& path);
std::optional<ElfIdentity> ReadElfIdentity(int descriptor);

// The checksum of .gnu_debuglink (CRC-32, reflected, polynomial 0xedb88320) over the whole file.
uint32_t DebugLinkCrc(int descriptor);

// "ab12..." as tools print build ids.
std::string BuildIdText(const std::string& build_id);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_ELF_IDENTITY_H_
