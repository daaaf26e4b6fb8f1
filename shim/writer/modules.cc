// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/modules.h"

#include <link.h>
#include <string.h>
#include <unistd.h>

#include "shim/writer/fields.h"

namespace gpumemshim::writer {
namespace {

struct Range {
  uint64_t start = UINT64_MAX;
  uint64_t end = 0;
};

Range MappedRange(const dl_phdr_info& info) {
  Range range;
  for (int i = 0; i < info.dlpi_phnum; i++) {
    const ElfW(Phdr)& p = info.dlpi_phdr[i];
    if (p.p_type != PT_LOAD) continue;
    uint64_t start = (info.dlpi_addr + p.p_vaddr) & ~uint64_t{4095};
    uint64_t end = (info.dlpi_addr + p.p_vaddr + p.p_memsz + 4095) & ~uint64_t{4095};
    if (start < range.start) range.start = start;
    if (end > range.end) range.end = end;
  }
  return range;
}

// Only what the file brought into memory may be read.
bool Mapped(const dl_phdr_info& info, const ElfW(Phdr) & note) {
  for (int i = 0; i < info.dlpi_phnum; i++) {
    const ElfW(Phdr)& p = info.dlpi_phdr[i];
    if (p.p_type == PT_LOAD && (p.p_flags & PF_R) != 0 && note.p_vaddr >= p.p_vaddr &&
        note.p_vaddr + note.p_memsz <= p.p_vaddr + p.p_filesz) {
      return true;
    }
  }
  return false;
}

constexpr size_t NoteAlign(size_t size) { return (size + 3) & ~size_t{3}; }

void PutBuildId(const dl_phdr_info& info, ProtoWriter* out) {
  for (int i = 0; i < info.dlpi_phnum; i++) {
    const ElfW(Phdr)& p = info.dlpi_phdr[i];
    if (p.p_type != PT_NOTE || p.p_memsz > 65536 || !Mapped(info, p)) continue;
    const uint8_t* note = reinterpret_cast<const uint8_t*>(info.dlpi_addr + p.p_vaddr);
    size_t left = p.p_memsz;
    while (left >= sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) header;
      memcpy(&header, note, sizeof(header));
      size_t name = NoteAlign(header.n_namesz), desc = NoteAlign(header.n_descsz);
      size_t size = sizeof(header) + name + desc;
      if (name > left || desc > left || size > left) break;
      if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && memcmp(note + sizeof(header), "GNU", 4) == 0) {
        out->Bytes(fields::Module::kBuildId, note + sizeof(header) + name, header.n_descsz);
        return;
      }
      note += size;
      left -= size;
    }
  }
}

uint64_t HashText(const char* text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (; *text != '\0'; text++) hash = (hash ^ static_cast<uint8_t>(*text)) * 0x100000001b3;
  return hash;
}

}  // namespace

void Modules::Update(ProtoWriter* definitions, uint64_t now_ns) {
  Walk walk = {this, definitions, true, false};
  dl_iterate_phdr(&Modules::Visit, &walk);
  checked_ns_ = now_ns;
  if (walk.unchanged) return;
  // What is gone is forgotten, so that the same place is defined anew when it is loaded again.
  size_t kept = 0;
  for (size_t i = 0; i < known_.size(); i++) {
    if (!known_[i].seen) continue;
    known_[kept] = known_[i];
    known_[kept++].seen = false;
  }
  known_.Resize(kept);
}

int Modules::Visit(dl_phdr_info* info, size_t, void* data) {
  Walk* walk = static_cast<Walk*>(data);
  Modules* self = walk->self;
  if (walk->first) {
    walk->first = false;
    walk->unchanged = info->dlpi_adds == self->loads_ && info->dlpi_subs == self->unloads_;
    if (walk->unchanged) return 1;
    self->loads_ = info->dlpi_adds;
    self->unloads_ = info->dlpi_subs;
  }
  self->Add(*info, walk->out);
  return 0;
}

void Modules::Add(const dl_phdr_info& info, ProtoWriter* out) {
  Range range = MappedRange(info);
  if (range.end == 0) return;
  uint64_t path_hash = HashText(info.dlpi_name);
  for (size_t i = 0; i < known_.size(); i++) {
    if (known_[i].start == range.start && known_[i].path_hash == path_hash) {
      known_[i].seen = true;
      return;
    }
  }
  if (!known_.Push({range.start, path_hash, true})) return;
  char executable[4096];
  const char* path = info.dlpi_name;
  if (path[0] == '\0') {  // the program itself has no name in the loader's list
    ssize_t size = readlink("/proc/self/exe", executable, sizeof(executable) - 1);
    executable[size > 0 ? size : 0] = '\0';
    path = executable;
  }
  size_t mark = out->Open(fields::Definitions::kModules);
  out->Varint(fields::Module::kId, ++last_id_);
  out->StringIf(fields::Module::kPath, path);
  PutBuildId(info, out);
  out->VarintIf(fields::Module::kLoadBias, info.dlpi_addr);
  out->Varint(fields::Module::kStart, range.start);
  out->Varint(fields::Module::kEnd, range.end);
  out->VarintIf(fields::Module::kTimeNs, checked_ns_);
  out->Close(mark);
}

}  // namespace gpumemshim::writer
