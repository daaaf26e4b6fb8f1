// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/elf_module.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

struct Symbol {
  uint64_t start = 0, size = 0;
  const char* name = nullptr;  // inside the mapped file
  bool is_weak = false;
};

// An ELF file that is open for reading. Closes itself.
struct OpenElf {
  int descriptor = -1;
  Elf* elf = nullptr;

  OpenElf() = default;
  OpenElf(const OpenElf&) = delete;
  OpenElf& operator=(const OpenElf&) = delete;
  ~OpenElf() {
    if (elf != nullptr) elf_end(elf);
    if (descriptor >= 0) close(descriptor);
  }

  bool Open(const std::string& path) {
    descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info {};
    if (descriptor < 0 || fstat(descriptor, &info) != 0) return false;
    errno = S_ISREG(info.st_mode) ? 0 : EINVAL;  // a hostile trace may name a device
    if (errno != 0) return false;
    elf_version(EV_CURRENT);
    elf = elf_begin(descriptor, ELF_C_READ_MMAP, nullptr);
    return elf != nullptr && elf_kind(elf) == ELF_K_ELF;
  }

  bool HasSection(const char* name) const {
    size_t names = 0;
    if (elf_getshdrstrndx(elf, &names) != 0) return false;
    for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr; section = elf_nextscn(elf, section)) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
      const char* const found = elf_strptr(elf, names, header.sh_name);
      if (found != nullptr && std::strcmp(found, name) == 0) return true;
    }
    return false;
  }

  std::string BuildId() const {
    const void* bytes = nullptr;
    const ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);
    return size > 0 ? std::string(static_cast<const char*>(bytes), static_cast<size_t>(size)) : "";
  }
};

std::string DebugFilePath(const std::string& build_id) {
  if (build_id.size() < 2) return "";
  const std::string hex = absl::BytesToHexString(build_id);
  return absl::StrCat("/usr/lib/debug/.build-id/", hex.substr(0, 2), "/", hex.substr(2), ".debug");
}

void AddSymbols(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, std::vector<Symbol>* symbols) {
  Elf_Data* const data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return;
  const int count = static_cast<int>(std::min<uint64_t>(header.sh_size / header.sh_entsize, INT32_MAX));
  for (int i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, i, &symbol) == nullptr) return;
    const unsigned type = GELF_ST_TYPE(symbol.st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF) continue;
    const char* const name = elf_strptr(elf, header.sh_link, symbol.st_name);
    if (name == nullptr || *name == '\0') continue;
    symbols->push_back({symbol.st_value, symbol.st_size, name, GELF_ST_BIND(symbol.st_info) != STB_GLOBAL});
  }
}

std::string NameOfDie(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  for (const unsigned which : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name}) {
    if (dwarf_attr_integrate(die, which, &attribute) == nullptr) continue;
    if (const char* const name = dwarf_formstring(&attribute)) return name;
  }
  return "";
}

bool IsFunction(Dwarf_Die* die) {
  const int tag = dwarf_tag(die);
  return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_entry_point;
}

// Where the inlined function `die` was called: file and line of its caller's frame.
void SetCallSite(Dwarf_Die* cu, Dwarf_Die* die, NativeFrame* caller) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &value) == 0)
    caller->line = static_cast<uint32_t>(value);
  Dwarf_Files* files = nullptr;
  if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &value) != 0 ||
      dwarf_getsrcfiles(cu, &files, nullptr) != 0)
    return;
  if (const char* const file = dwarf_filesrc(files, value, nullptr, nullptr)) caller->file = file;
}

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};

}  // namespace

struct ElfModule::State {
  ~State() {
    if (dwarf != nullptr) dwarf_end(dwarf);
  }

  void OpenDwarf(const std::string& build_id);
  void ReadSymbols();
  const Symbol* FindSymbol(uint64_t address) const;
  bool FindUnit(uint64_t address, Dwarf_Die* cu);
  void AddDwarf(uint64_t address, std::vector<NativeFrame>* frames);

  std::string problem;
  OpenElf file, debug_file;
  Dwarf* dwarf = nullptr;
  std::vector<Symbol> symbols;
  bool has_symbols = false;
  bool has_units = false;
  struct Unit {
    uint64_t start, end;
    Dwarf_Off die;
  };
  std::vector<Unit> units;  // where the file has no .debug_aranges; by start
};

ElfModule::ElfModule(const ModuleInfo& info, bool use_dwarf) : state_(std::make_unique<State>()) {
  State& state = *state_;
  if (info.path.empty() || info.path[0] != '/') {
    state.problem = absl::StrCat(info.path.empty() ? "a nameless module" : info.path, ": has no file");
    return;
  }
  if (!state.file.Open(info.path)) {
    state.problem = absl::StrCat(info.path, ": ", errno != 0 ? std::strerror(errno) : "is no ELF file");
    return;
  }
  const std::string build_id = state.file.BuildId();
  if (!info.build_id.empty() && info.build_id != build_id) {
    state.problem =
        absl::StrCat(info.path, ": is another build than the traced one (build id ", absl::BytesToHexString(build_id),
                     ", not ", absl::BytesToHexString(info.build_id), ")");
    return;
  }
  if (use_dwarf) state.OpenDwarf(build_id);
}

ElfModule::~ElfModule() = default;

const std::string& ElfModule::problem() const { return state_->problem; }

void ElfModule::State::OpenDwarf(const std::string& build_id) {
  Elf* elf = nullptr;
  if (file.HasSection(".debug_info")) {
    elf = file.elf;
  } else if (const std::string path = DebugFilePath(build_id);
             !path.empty() && debug_file.Open(path) && debug_file.BuildId() == build_id) {
    elf = debug_file.elf;
  }
  if (elf != nullptr) dwarf = dwarf_begin_elf(elf, DWARF_C_READ, nullptr);
}

void ElfModule::State::ReadSymbols() {
  if (std::exchange(has_symbols, true)) return;
  for (Elf* const elf : {file.elf, debug_file.elf}) {
    for (Elf_Scn* section = elf == nullptr ? nullptr : elf_nextscn(elf, nullptr); section != nullptr;
         section = elf_nextscn(elf, section)) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr) continue;
      if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM) AddSymbols(elf, section, header, &symbols);
    }
  }
  // Of several names for one address the global one comes last, where the search finds it.
  std::stable_sort(symbols.begin(), symbols.end(), [](const Symbol& a, const Symbol& b) {
    return a.start != b.start ? a.start < b.start : a.is_weak && !b.is_weak;
  });
}

const Symbol* ElfModule::State::FindSymbol(uint64_t address) const {
  auto it = std::upper_bound(symbols.begin(), symbols.end(), address,
                             [](uint64_t at, const Symbol& symbol) { return at < symbol.start; });
  // A local label of size 0 may lie inside the function.
  for (int tries = 0; tries < 8 && it != symbols.begin(); ++tries) {
    --it;
    if (address - it->start < it->size || (it->size == 0 && tries == 0 && address - it->start < 4096)) return &*it;
  }
  return nullptr;
}

bool ElfModule::State::FindUnit(uint64_t address, Dwarf_Die* cu) {
  if (dwarf_addrdie(dwarf, address, cu) != nullptr) return true;
  if (!std::exchange(has_units, true)) {
    Dwarf_CU* unit = nullptr;
    Dwarf_Die die;
    while (dwarf_get_units(dwarf, unit, &unit, nullptr, nullptr, &die, nullptr) == 0) {
      Dwarf_Addr base = 0, start = 0, end = 0;
      ptrdiff_t offset = 0;
      while ((offset = dwarf_ranges(&die, offset, &base, &start, &end)) > 0)
        units.push_back({start, end, dwarf_dieoffset(&die)});
    }
    std::sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.start < b.start; });
  }
  auto it = std::upper_bound(units.begin(), units.end(), address,
                             [](uint64_t at, const Unit& unit) { return at < unit.start; });
  if (it == units.begin()) return false;
  --it;
  return address < it->end && dwarf_offdie(dwarf, it->die, cu) != nullptr;
}

// Fills in the line of frames[0], and puts the functions inlined there before it.
void ElfModule::State::AddDwarf(uint64_t address, std::vector<NativeFrame>* frames) {
  Dwarf_Die cu;
  if (!FindUnit(address, &cu)) return;
  NativeFrame here;
  if (Dwarf_Line* const line = dwarf_getsrc_die(&cu, address)) {
    int number = 0;
    if (dwarf_lineno(line, &number) == 0 && number > 0) here.line = static_cast<uint32_t>(number);
    if (const char* const source = dwarf_linesrc(line, nullptr, nullptr)) here.file = source;
  }
  std::vector<NativeFrame> found;
  Dwarf_Die* list = nullptr;
  const int count = dwarf_getscopes(&cu, address, &list);
  std::unique_ptr<Dwarf_Die, FreeDeleter> scopes(list);
  Dwarf_Die* chain_list = nullptr;
  const int chain_count = count > 0 ? dwarf_getscopes_die(&list[0], &chain_list) : 0;
  std::unique_ptr<Dwarf_Die, FreeDeleter> chain(chain_list);
  for (int i = 0; i < chain_count; ++i) {
    Dwarf_Die* const die = &chain_list[i];
    if (!IsFunction(die)) continue;
    here.symbol = NameOfDie(die);
    here.inlined = dwarf_tag(die) == DW_TAG_inlined_subroutine;
    found.push_back(here);
    if (!here.inlined) break;
    here = NativeFrame{};
    SetCallSite(&cu, die, &here);
  }
  if (found.empty()) {
    (*frames)[0].file = here.file;
    (*frames)[0].line = here.line;
    return;
  }
  // The symbol table's name of the function itself is the better one: it is mangled in full.
  if (!found.back().inlined && !(*frames)[0].symbol.empty()) found.back().symbol = (*frames)[0].symbol;
  *frames = std::move(found);
}

std::vector<NativeFrame> ElfModule::Lookup(uint64_t address) {
  std::vector<NativeFrame> frames(1);
  State& state = *state_;
  if (!state.problem.empty()) return frames;
  state.ReadSymbols();
  if (const Symbol* const symbol = state.FindSymbol(address)) frames[0].symbol = symbol->name;
  if (state.dwarf != nullptr) state.AddDwarf(address, &frames);
  return frames;
}

}  // namespace gpumem
