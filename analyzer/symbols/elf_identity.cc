// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/elf_identity.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "base/file_output.h"

namespace gpumem {
namespace {

constexpr uint64_t kMaxSections = 100'000, kMaxSegments = 1'000;
constexpr uint64_t kMaxSectionNames = 4 << 20, kMaxNoteBytes = 64 << 10;
constexpr size_t kMaxBuildIdBytes = 64;

class FileReader {
 public:
  explicit FileReader(int descriptor) : descriptor_(descriptor) {}

  bool Read(uint64_t offset, void* to, size_t size) const {
    if (offset > INT64_MAX) return false;
    ssize_t got = 0;
    do {
      got = pread(descriptor_, to, size, static_cast<off_t>(offset));
    } while (got < 0 && errno == EINTR);
    return got == static_cast<ssize_t>(size);
  }

  template <typename T>
  bool ReadValue(uint64_t offset, T* value) const {
    return Read(offset, value, sizeof(T));
  }

  template <typename T>
  std::vector<T> ReadTable(uint64_t offset, uint64_t count) const {
    std::vector<T> table(count);
    if (!Read(offset, table.data(), count * sizeof(T))) table.clear();
    return table;
  }

  std::string ReadBytes(uint64_t offset, uint64_t size, uint64_t most) const {
    std::string bytes(std::min(size, most), '\0');
    if (!Read(offset, bytes.data(), bytes.size())) bytes.clear();
    return bytes;
  }

 private:
  int descriptor_;
};

constexpr uint64_t Aligned(uint64_t size) { return (size + 3) & ~uint64_t{3}; }

std::string BuildIdInNotes(absl::string_view notes) {
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data(), sizeof(note));
    const uint64_t description = sizeof(note) + Aligned(note.n_namesz);
    const uint64_t end = description + Aligned(note.n_descsz);
    if (description + note.n_descsz > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        notes.substr(sizeof(note), 4) == absl::string_view("GNU", 4)) {
      return std::string(notes.substr(description, std::min<uint64_t>(note.n_descsz, kMaxBuildIdBytes)));
    }
    notes.remove_prefix(std::min<uint64_t>(end, notes.size()));
  }
  return "";
}

std::vector<Elf64_Shdr> ReadSections(const FileReader& file, const Elf64_Ehdr& header, uint64_t* names_index) {
  Elf64_Shdr first{};
  if (header.e_shoff == 0 || header.e_shentsize != sizeof(first) || !file.ReadValue(header.e_shoff, &first)) return {};
  // More sections than the header's fields can count are counted in the first section.
  const uint64_t count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
  *names_index = header.e_shstrndx == SHN_XINDEX ? first.sh_link : header.e_shstrndx;
  return count > kMaxSections ? std::vector<Elf64_Shdr>() : file.ReadTable<Elf64_Shdr>(header.e_shoff, count);
}

absl::string_view NameAt(absl::string_view names, uint64_t offset) {
  if (offset >= names.size()) return {};
  const absl::string_view rest = names.substr(offset);
  return rest.substr(0, rest.find('\0'));
}

void ReadDebugLink(const std::string& bytes, ElfIdentity* identity) {
  const size_t end = bytes.find('\0');
  if (end == std::string::npos || end == 0 || Aligned(end + 1) + sizeof(uint32_t) > bytes.size()) return;
  if (bytes.substr(0, end).find('/') != std::string::npos) return;  // a name, never a path
  identity->debug_link = bytes.substr(0, end);
  std::memcpy(&identity->debug_link_crc, bytes.data() + Aligned(end + 1), sizeof(uint32_t));
}

void ReadFromSections(const FileReader& file, const Elf64_Ehdr& header, ElfIdentity* identity) {
  uint64_t names_index = 0;
  const std::vector<Elf64_Shdr> sections = ReadSections(file, header, &names_index);
  if (names_index >= sections.size()) return;
  const std::string names =
      file.ReadBytes(sections[names_index].sh_offset, sections[names_index].sh_size, kMaxSectionNames);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type == SHT_NOBITS) continue;
    const absl::string_view name = NameAt(names, section.sh_name);
    if (section.sh_type == SHT_NOTE && identity->build_id.empty()) {
      identity->build_id = BuildIdInNotes(file.ReadBytes(section.sh_offset, section.sh_size, kMaxNoteBytes));
    } else if (name == ".debug_info" || name == ".zdebug_info") {
      identity->has_debug_info = section.sh_size > 0;
    } else if (name == ".gnu_debuglink") {
      ReadDebugLink(file.ReadBytes(section.sh_offset, section.sh_size, 4096), identity);
    }
  }
}

void ReadFromSegments(const FileReader& file, const Elf64_Ehdr& header, ElfIdentity* identity) {
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMaxSegments) return;
  for (const Elf64_Phdr& segment : file.ReadTable<Elf64_Phdr>(header.e_phoff, header.e_phnum)) {
    if (segment.p_type != PT_NOTE || !identity->build_id.empty()) continue;
    identity->build_id = BuildIdInNotes(file.ReadBytes(segment.p_offset, segment.p_filesz, kMaxNoteBytes));
  }
}

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xedb88320u : 0);
    table[i] = value;
  }
  return table;
}

}  // namespace

std::optional<ElfIdentity> ReadElfIdentity(int descriptor) {
  const FileReader file(descriptor);
  Elf64_Ehdr header{};
  const bool is_elf = file.ReadValue(0, &header) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                      header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
  errno = 0;
  if (!is_elf) return std::nullopt;
  ElfIdentity identity;
  ReadFromSections(file, header, &identity);
  if (identity.build_id.empty()) ReadFromSegments(file, header, &identity);
  return identity;
}

std::optional<ElfIdentity> ReadElfIdentity(const std::string& path) {
  const int descriptor = OpenRegularFile(path);
  if (descriptor < 0) return std::nullopt;
  std::optional<ElfIdentity> identity = ReadElfIdentity(descriptor);
  close(descriptor);
  if (!identity) errno = 0;
  return identity;
}

uint32_t DebugLinkCrc(int descriptor) {
  static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
  std::vector<char> buffer(1 << 20);
  uint32_t crc = 0xffffffff;
  off_t at = 0;
  for (ssize_t got; (got = pread(descriptor, buffer.data(), buffer.size(), at)) > 0; at += got) {
    for (ssize_t i = 0; i < got; ++i)
      crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(buffer[static_cast<size_t>(i)])) & 0xff];
  }
  return ~crc;
}

std::string BuildIdText(const std::string& build_id) { return absl::BytesToHexString(build_id); }

}  // namespace gpumem
