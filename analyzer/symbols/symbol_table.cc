// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/symbol_table.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

// How far a symbol without a size may reach: hand-written assembly often has none.
constexpr uint64_t kReachOfLabels = 4096;
constexpr size_t kMaxSymbolBytes = 64 << 10;

constexpr uint64_t kPltEntryBytes = 16;  // x86-64 and aarch64
constexpr uint64_t kX86PltHeadBytes = 16, kArmPltHeadBytes = 32;

constexpr int kSized = 3;  // from this rank on

int Rank(const GElf_Sym& symbol) {
  const int sized = symbol.st_size > 0 ? kSized : 0;
  switch (GELF_ST_BIND(symbol.st_info)) {
    case STB_LOCAL:
      return sized;
    case STB_WEAK:
      return sized + 1;
    default:
      return sized + 2;
  }
}

template <typename Function>
void ForEachSection(Elf* elf, Function function) {
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr; section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) != nullptr) function(section, header);
  }
}

const char* SectionName(Elf* elf, const GElf_Shdr& header) {
  size_t names = 0;
  const char* const name = elf_getshdrstrndx(elf, &names) == 0 ? elf_strptr(elf, names, header.sh_name) : nullptr;
  return name == nullptr ? "" : name;
}

// Of a symbol without a size: not past the end of its section.
uint64_t Reach(Elf* elf, const GElf_Sym& symbol) {
  GElf_Shdr section;
  if (gelf_getshdr(elf_getscn(elf, symbol.st_shndx), &section) == nullptr) return 0;
  const uint64_t into = symbol.st_value - section.sh_addr;
  return into < section.sh_size ? std::min(section.sh_size - into, kReachOfLabels) : 0;
}

struct Plt {
  uint64_t start = 0, end = 0, first = 0;  // `first`: bytes before the first entry
};

}  // namespace

void SymbolNames::Offer(uint64_t size, const Best& candidate) {
  auto it = std::lower_bound(addresses_.begin(), addresses_.end(), candidate.start);
  for (; it != addresses_.end() && *it - candidate.start < size; ++it) {
    Best& best = best_[static_cast<size_t>(it - addresses_.begin())];
    const bool is_sized = candidate.rank >= kSized, best_is_sized = best.rank >= kSized;
    const bool better = best.rank < 0 || (is_sized != best_is_sized       ? is_sized
                                          : candidate.start != best.start ? candidate.start > best.start
                                                                          : candidate.rank > best.rank);
    if (better) best = candidate;
  }
}

void SymbolNames::ScanTable(Elf* elf, Elf_Scn* section, const GElf_Shdr& header) {
  Elf_Data* const data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0 || addresses_.empty()) return;
  const uint64_t least = addresses_.front(), greatest = addresses_.back();
  const int count = static_cast<int>(std::min<uint64_t>(data->d_size / header.sh_entsize, INT32_MAX));
  for (int i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, i, &symbol) == nullptr) return;
    const unsigned type = GELF_ST_TYPE(symbol.st_info);
    const bool is_function = type == STT_FUNC || type == STT_GNU_IFUNC;
    if (!is_function || symbol.st_shndx == SHN_UNDEF || symbol.st_name == 0) continue;
    if (symbol.st_value > greatest || symbol.st_value + std::max(symbol.st_size, kReachOfLabels) < least) continue;
    const uint64_t size = symbol.st_size > 0 ? symbol.st_size : Reach(elf, symbol);
    Offer(size, {symbol.st_value, Rank(symbol), elf, header.sh_link, symbol.st_name, false});
  }
}

void SymbolNames::Scan(Elf* elf) {
  ForEachSection(elf, [&](Elf_Scn* section, const GElf_Shdr& header) {
    if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM) ScanTable(elf, section, header);
  });
}

void SymbolNames::ScanPlt(Elf* elf) {
  GElf_Ehdr file;
  if (gelf_getehdr(elf, &file) == nullptr) return;
  const uint64_t head = file.e_machine == EM_AARCH64 ? kArmPltHeadBytes : kX86PltHeadBytes;
  std::vector<Plt> stubs;
  Elf_Data *relocations = nullptr, *symbols = nullptr;
  size_t strings = 0;
  ForEachSection(elf, [&](Elf_Scn* section, const GElf_Shdr& header) {
    const char* const name = SectionName(elf, header);
    const bool is_plt = std::strcmp(name, ".plt") == 0, is_second = std::strcmp(name, ".plt.sec") == 0;
    if (is_plt || is_second) stubs.push_back({header.sh_addr, header.sh_addr + header.sh_size, is_second ? 0 : head});
    if (header.sh_type == SHT_RELA && std::strcmp(name, ".rela.plt") == 0) relocations = elf_getdata(section, nullptr);
    if (header.sh_type != SHT_DYNSYM) return;
    symbols = elf_getdata(section, nullptr);
    strings = header.sh_link;
  });
  for (size_t i = 0; i < addresses_.size(); ++i) {
    if (best_[i].rank >= 0) continue;
    for (const Plt& plt : stubs) {
      if (addresses_[i] < plt.start || addresses_[i] >= plt.end) continue;
      best_[i] = {plt.start, 0, elf, strings, 0, true};
      GElf_Rela relocation;
      GElf_Sym symbol;
      const uint64_t into = addresses_[i] - plt.start;
      if (into < plt.first || relocations == nullptr || symbols == nullptr) continue;
      const uint64_t entry = (into - plt.first) / kPltEntryBytes;
      if (entry < INT32_MAX && gelf_getrela(relocations, static_cast<int>(entry), &relocation) != nullptr &&
          gelf_getsym(symbols, static_cast<int>(GELF_R_SYM(relocation.r_info)), &symbol) != nullptr)
        best_[i].name = symbol.st_name;
    }
  }
}

bool SymbolNames::all_named() const {
  return std::all_of(best_.begin(), best_.end(), [](const Best& best) { return best.rank >= 0; });
}

bool SymbolNames::IsSure(size_t index) const { return best_[index].rank >= kSized; }

std::string SymbolNames::NameOf(size_t index) const {
  const Best& best = best_[index];
  if (best.rank < 0) return "";
  const char* const text = best.name == 0 ? nullptr : elf_strptr(best.elf, best.strings, best.name);
  const std::string name = text == nullptr ? "" : std::string(text, strnlen(text, kMaxSymbolBytes));
  if (best.is_plt) return name.empty() ? "[plt]" : absl::StrCat(name, "@plt");
  return name;
}

}  // namespace gpumem
