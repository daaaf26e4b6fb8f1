// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/address_lookup.h"

#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "symbols/dwarf_lookup.h"
#include "symbols/elf_identity.h"
#include "symbols/isolated.h"
#include "symbols/names.h"
#include "symbols/symbol_table.h"

namespace gpumem {
namespace {

// An ELF file that is open for reading. Closes itself.
class OpenElf {
 public:
  OpenElf() = default;
  OpenElf(const OpenElf&) = delete;
  OpenElf& operator=(const OpenElf&) = delete;
  ~OpenElf() {
    if (elf_ != nullptr) elf_end(elf_);
    if (descriptor_ >= 0) close(descriptor_);
  }

  // False where the file is another one than it was when it was chosen.
  bool Open(const std::string& path, const std::string& build_id) {
    if (path.empty()) return false;
    descriptor_ = OpenRegularFile(path);
    const auto identity = descriptor_ < 0 ? std::nullopt : ReadElfIdentity(descriptor_);
    if (!identity || (!build_id.empty() && identity->build_id != build_id)) return false;
    has_debug_info_ = identity->has_debug_info;
    elf_version(EV_CURRENT);
    elf_ = elf_begin(descriptor_, ELF_C_READ_MMAP, nullptr);
    return elf_ != nullptr && elf_kind(elf_) == ELF_K_ELF;
  }

  // The small symbol table that distributions pack into a section of stripped files.
  bool OpenPacked(const OpenElf& around) {
    Elf_Data* const packed = around.elf_ == nullptr ? nullptr : around.Section(".gnu_debugdata");
    if (packed == nullptr || packed->d_size == 0) return false;
    descriptor_ = memfd_create("gnu_debugdata", MFD_CLOEXEC);
    if (descriptor_ < 0) return false;
    const ssize_t written = write(descriptor_, packed->d_buf, packed->d_size);
    if (written != static_cast<ssize_t>(packed->d_size) || lseek(descriptor_, 0, SEEK_SET) != 0) return false;
    elf_ = dwelf_elf_begin(descriptor_);  // unpacks
    return elf_ != nullptr && elf_kind(elf_) == ELF_K_ELF;
  }

  Elf* elf() const { return elf_; }
  bool has_debug_info() const { return has_debug_info_; }

 private:
  Elf_Data* Section(const char* name) const {
    size_t names = 0;
    if (elf_getshdrstrndx(elf_, &names) != 0) return nullptr;
    for (Elf_Scn* section = elf_nextscn(elf_, nullptr); section != nullptr; section = elf_nextscn(elf_, section)) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
      const char* const found = elf_strptr(elf_, names, header.sh_name);
      if (found != nullptr && std::strcmp(found, name) == 0) return elf_rawdata(section, nullptr);
    }
    return nullptr;
  }

  int descriptor_ = -1;
  Elf* elf_ = nullptr;
  bool has_debug_info_ = false;
};

struct DwarfDeleter {
  void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
};

std::vector<std::vector<NativeFunction>> FromDwarf(const OpenElf& file, const std::vector<uint64_t>& calls,
                                                   const LookupProgress& progress) {
  const std::unique_ptr<Dwarf, DwarfDeleter> dwarf(dwarf_begin_elf(file.elf(), DWARF_C_READ, nullptr));
  if (dwarf == nullptr) return {};
  return DwarfLookup(dwarf.get()).Find(calls, [&](size_t done) { progress(done, calls.size()); });
}

}  // namespace

ModuleSymbols LookUpAddresses(const LookupRequest& request, const LookupProgress& progress) {
  OpenElf binary, debug, packed;
  const bool has_binary = binary.Open(request.binary, request.build_id);
  const bool has_debug = debug.Open(request.debug, request.build_id);
  // A return address may lie behind its function, after a call that never returns; the call itself never does.
  std::vector<uint64_t> calls = request.addresses;
  for (uint64_t& call : calls) --call;

  SymbolNames names(calls);
  if (has_binary) names.Scan(binary.elf());
  if (has_debug) names.Scan(debug.elf());
  if (has_binary && !names.all_named() && packed.OpenPacked(binary)) names.Scan(packed.elf());
  if (has_binary) names.ScanPlt(binary.elf());

  std::vector<std::vector<NativeFunction>> found;
  if (request.dwarf && has_binary && binary.has_debug_info()) {
    found = FromDwarf(binary, calls, progress);
  } else if (request.dwarf && has_debug && debug.has_debug_info()) {
    found = FromDwarf(debug, calls, progress);
  }
  found.resize(calls.size());

  ModuleSymbols symbols;
  for (size_t i = 0; i < calls.size(); ++i) {
    std::vector<NativeFunction>& functions = found[i];
    const std::string name = names.NameOf(i);
    if (functions.empty() && !name.empty()) functions.push_back({name, "", 0});
    // A linkage name says more than a plain one, and the symbol table's plain one no more than DWARF's.
    if (!functions.empty() && names.IsSure(i)) {
      std::string& own = functions.back().function;
      if (own.empty() || (!absl::StartsWith(own, "_Z") && absl::StartsWith(name, "_Z"))) own = name;
    }
    for (NativeFunction& function : functions) function.function = Demangle(function.function);
    symbols.Add(request.addresses[i], functions);
  }
  return symbols;
}

LookupAnswer LookUpIsolated(const LookupRequest& request, const LookupProgress& progress) {
  LookupAnswer answer;
  LookupRequest attempt = request;
  for (const bool dwarf : {true, false}) {
    if (dwarf && !request.dwarf) continue;
    attempt.dwarf = dwarf;
    const absl::StatusOr<std::string> bytes = RunIsolated(
        [&](const LookupProgress& report) { return LookUpAddresses(attempt, report).Serialize(); }, progress);
    const absl::Status status = bytes.ok() ? answer.symbols.Parse(*bytes) : bytes.status();
    if (status.ok()) return answer;
    answer.problem =
        absl::StrCat(dwarf ? "its debug information" : "its symbol table", " could not be read: ", status.message());
  }
  return answer;
}

}  // namespace gpumem
