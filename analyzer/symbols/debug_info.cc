// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/debug_info.h"

#include <dwarf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

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

namespace {

constexpr int kDeepest = 200;          // of nested entries
constexpr size_t kMaxUnits = 1 << 22;  // ranges of compilation units
constexpr size_t kMaxPathBytes = 4096;

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};

bool IsFunction(int tag) {
  return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_entry_point;
}

bool IsBlock(int tag) { return tag == DW_TAG_lexical_block || tag == DW_TAG_try_block || tag == DW_TAG_catch_block; }

bool IsNamespace(int tag) { return tag == DW_TAG_namespace || tag == DW_TAG_module; }

bool IsClass(int tag) {
  return tag == DW_TAG_class_type || tag == DW_TAG_structure_type || tag == DW_TAG_union_type ||
         tag == DW_TAG_enumeration_type;
}

// Those of `wanted` that lie in the entry's ranges.
std::vector<size_t> Inside(Dwarf_Die* die, const std::vector<size_t>& wanted, const std::vector<uint64_t>& addresses) {
  std::vector<size_t> inside;
  Dwarf_Addr base = 0, start = 0, end = 0;
  for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;) {
    auto it = std::lower_bound(wanted.begin(), wanted.end(), start,
                               [&](size_t index, uint64_t value) { return addresses[index] < value; });
    for (; it != wanted.end() && addresses[*it] < end; ++it) inside.push_back(*it);
  }
  std::sort(inside.begin(), inside.end());
  inside.erase(std::unique(inside.begin(), inside.end()), inside.end());
  return inside;
}

const char* TextAttribute(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  if (dwarf_attr_integrate(die, name, &attribute) == nullptr) return nullptr;
  return dwarf_formstring(&attribute);
}

std::string Cut(const char* path) { return path == nullptr ? "" : std::string(path).substr(0, kMaxPathBytes); }

// Where the inlined function `die` was called: file and line in its caller.
void SetCallSite(Dwarf_Die* unit, Dwarf_Die* die, NativeFunction* caller) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &value) == 0)
    caller->line = static_cast<uint32_t>(value);
  Dwarf_Files* files = nullptr;
  if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &value) != 0 ||
      dwarf_getsrcfiles(unit, &files, nullptr) != 0)
    return;
  caller->file = Cut(dwarf_filesrc(files, value, nullptr, nullptr));
}

// The entry that declares the function: one for all the places where it was inlined.
Dwarf_Die Declaration(const Dwarf_Die& die) {
  Dwarf_Attribute attribute;
  Dwarf_Die declared = die;
  for (const unsigned link : {DW_AT_abstract_origin, DW_AT_specification}) {
    Dwarf_Die target;
    if (dwarf_formref_die(dwarf_attr(&declared, link, &attribute), &target) != nullptr) declared = target;
  }
  return declared;
}

bool HasNamespaces(int language) {
  return language != DW_LANG_C && language != DW_LANG_C89 && language != DW_LANG_C99 && language != DW_LANG_C11;
}

// "outer::inner::" of an entry that has no linkage name, from what it lies in. Walks through the unit.
std::string Qualifier(Dwarf_Die* declared) {
  Dwarf_Die* list = nullptr;
  const int count = dwarf_getscopes_die(declared, &list);
  const std::unique_ptr<Dwarf_Die, FreeDeleter> scopes(list);
  std::string text;
  for (int i = 1; i < count; ++i) {
    const int tag = dwarf_tag(&list[i]);
    if (!IsNamespace(tag) && !IsClass(tag)) break;
    const char* const name = dwarf_diename(&list[i]);
    text = absl::StrCat(name != nullptr           ? name
                        : tag == DW_TAG_namespace ? "(anonymous namespace)"
                                                  : "{unnamed}",
                        "::", text);
  }
  return text;
}

}  // namespace

std::string DwarfLookup::NameOf(Dwarf_Die* die) {
  Dwarf_Die declared = Declaration(*die);
  const auto [it, is_new] = names_.try_emplace(declared.addr);
  std::string& name = it->second;
  if (!is_new) return name;
  for (const unsigned which : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (const char* const linkage = TextAttribute(die, which)) return name = linkage;
  }
  const char* const plain = TextAttribute(die, DW_AT_name);
  if (plain == nullptr) return name;
  return name = absl::StrCat(has_namespaces_ ? Qualifier(&declared) : "", plain);
}

void DwarfLookup::ReadUnits() {
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  while (units_.size() < kMaxUnits && dwarf_get_units(dwarf_, unit, &unit, nullptr, nullptr, &die, nullptr) == 0) {
    Dwarf_Addr base = 0, start = 0, end = 0;
    for (ptrdiff_t at = 0; units_.size() < kMaxUnits && (at = dwarf_ranges(&die, at, &base, &start, &end)) > 0;)
      units_.push_back({start, end, dwarf_dieoffset(&die)});
  }
  std::sort(units_.begin(), units_.end(), [](const Unit& a, const Unit& b) { return a.start < b.start; });
}

bool DwarfLookup::FindUnit(uint64_t address, Dwarf_Die* unit) {
  if (dwarf_addrdie(dwarf_, address, unit) != nullptr) return true;
  if (!std::exchange(has_units_, true)) ReadUnits();
  auto it = std::upper_bound(units_.begin(), units_.end(), address,
                             [](uint64_t at, const Unit& candidate) { return at < candidate.start; });
  if (it == units_.begin()) return false;
  --it;
  return address < it->end && dwarf_offdie(dwarf_, it->die, unit) != nullptr;
}

// Goes down to the functions that hold a wanted address, past all others.
void DwarfLookup::Walk(Dwarf_Die* parent, const std::vector<size_t>& wanted, const std::vector<uint64_t>& addresses,
                       int depth, std::vector<Chain>* chains) {
  Dwarf_Die child;
  if (depth > kDeepest || dwarf_child(parent, &child) != 0) return;
  do {
    const int tag = dwarf_tag(&child);
    if (IsNamespace(tag) || (walks_classes_ && IsClass(tag))) {
      Walk(&child, wanted, addresses, depth + 1, chains);
    } else if (IsFunction(tag) || IsBlock(tag)) {
      const std::vector<size_t> inside = Inside(&child, wanted, addresses);
      if (inside.empty()) continue;
      for (const size_t index : inside) {
        if (!IsFunction(tag)) continue;
        // A function of its own inside another one is not inlined into it.
        if (tag == DW_TAG_subprogram) (*chains)[index].clear();
        (*chains)[index].push_back(child);
      }
      Walk(&child, inside, addresses, depth + 1, chains);
    }
  } while (dwarf_siblingof(&child, &child) == 0);
}

std::vector<NativeFunction> DwarfLookup::Functions(Dwarf_Die* unit, uint64_t address, Chain* chain) {
  NativeFunction here;
  if (Dwarf_Line* const line = dwarf_getsrc_die(unit, address)) {
    int number = 0;
    if (dwarf_lineno(line, &number) == 0 && number > 0) here.line = static_cast<uint32_t>(number);
    here.file = Cut(dwarf_linesrc(line, nullptr, nullptr));
  }
  if (chain->empty()) return here.line == 0 ? std::vector<NativeFunction>() : std::vector<NativeFunction>{here};
  std::vector<NativeFunction> functions;
  for (auto die = chain->rbegin(); die != chain->rend(); ++die) {
    here.function = NameOf(&*die);
    functions.push_back(std::exchange(here, {}));
    SetCallSite(unit, &*die, &here);
  }
  return functions;
}

std::vector<std::vector<NativeFunction>> DwarfLookup::Find(const std::vector<uint64_t>& addresses,
                                                           const std::function<void(size_t)>& progress) {
  std::vector<std::vector<NativeFunction>> found(addresses.size());
  std::map<const void*, std::pair<Dwarf_Die, std::vector<size_t>>> by_unit;
  for (size_t i = 0; i < addresses.size(); ++i) {
    Dwarf_Die unit;
    if (!FindUnit(addresses[i], &unit)) continue;
    auto& entry = by_unit[unit.addr];
    entry.first = unit;
    entry.second.push_back(i);
  }
  std::vector<Chain> chains(addresses.size());
  size_t done = 0;
  for (auto& [place, entry] : by_unit) {
    auto& [unit, wanted] = entry;
    // C and C++ describe a class's functions outside of it; Rust and others do not.
    const int language = dwarf_srclang(&unit);
    has_namespaces_ = HasNamespaces(language);
    walks_classes_ = language == DW_LANG_Rust || language == DW_LANG_D || language == DW_LANG_Swift;
    Walk(&unit, wanted, addresses, 0, &chains);
    for (const size_t index : wanted) found[index] = Functions(&unit, addresses[index], &chains[index]);
    progress(done += wanted.size());
  }
  return found;
}

}  // namespace gpumem
