// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/files/symbolized_copy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/copy_bytes.h"
#include "trace/process_state.h"
#include "trace/write/trace_writer.h"

namespace gpumem {
namespace {

// Those of `all` that say something and are not in the trace yet.
ModuleSymbols NewNames(const ModuleSymbols& all, const StackTable& stacks, const ModuleReport& module) {
  ModuleSymbols names;
  for (const uint64_t address : all.Addresses()) {
    const bool stored = std::any_of(module.ids.begin(), module.ids.end(), [&](uint32_t id) {
      const ModuleSymbols* const symbols = stacks.symbols(id);
      return symbols != nullptr && symbols->Has(address);
    });
    std::vector<NativeFunction> functions;
    if (!stored) functions = all.At(address);
    if (!functions.empty()) names.Add(address, functions);
  }
  return names;
}

}  // namespace

void SymbolizedCopy::Note(const std::string& note) {
  if (!note.empty() && std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
}

void SymbolizedCopy::Take(const RawPacket& packet, Section* section) {
  if (packet.type == PacketType::kDefinitions) {
    const absl::Status status = section->stacks.Add(packet.body);
    if (!status.ok()) Note(absl::StrCat("Definitions are damaged: ", status.message(), "."));
  }
  if (packet.compressed) return;
  section->next_sequence = packet.sequence + 1;
  section->closing.reset();
  if (packet.type == PacketType::kHeader)
    section->header.ParseFromArray(packet.body.data(), static_cast<int>(packet.body.size()));
  if (packet.type != PacketType::kEnd && packet.type != PacketType::kContinued) return;
  section->ended = true;
  section->closing = RecoveredPacket{packet.type, std::string(packet.body)};
  section->closing_offset = packet.file_offset;
}

// What the process could not write any more.
Recovery SymbolizedCopy::TakeFromRing(RingsOfTrace* rings, Section* section) {
  if (section->ended) return {};
  Recovery recovery = rings->Recover(section->begin);
  running_ = running_ || recovery.process == ProcessState::kRunning;
  Note(recovery.note);
  if (recovery.whole_bytes != section->end) recovery.packets.clear();
  for (const RecoveredPacket& packet : recovery.packets) {
    if (packet.type == PacketType::kDefinitions) section->stacks.Add(packet.body).IgnoreError();
  }
  if (!recovery.packets.empty()) recovered_events_ += recovery.events;
  return recovery;
}

absl::Status SymbolizedCopy::WriteNames(const std::string& from, const Section& section, uint64_t* sequence,
                                        OutputFile* file) {
  Symbolizer symbolizer(&section.stacks, options_(from, section.header));
  symbolizer.Prepare();
  for (const std::string& note : symbolizer.notes()) Note(note);
  for (const ModuleReport& module : symbolizer.modules()) {
    modules_.push_back(module);
    const ModuleSymbols names = NewNames(*symbolizer.SymbolsOf(module), section.stacks, module);
    for (const std::string& packet : SymbolPackets(module.ids.front(), names, *sequence)) {
      GPUMEM_RETURN_IF_ERROR(file->Write(packet));
      ++*sequence;
    }
  }
  return absl::OkStatus();
}

absl::Status SymbolizedCopy::Finish(const std::string& from, RingsOfTrace* rings, Section* section, OutputFile* file) {
  const Recovery recovery = TakeFromRing(rings, section);
  const uint64_t copied = section->closing ? section->closing_offset : section->end;
  GPUMEM_ASSIGN_OR_RETURN(FileWindow window, FileWindow::Open(from));
  GPUMEM_RETURN_IF_ERROR(CopyBytes(&window, section->begin, copied, file));
  uint64_t sequence = section->next_sequence - (section->closing ? 1 : 0);
  GPUMEM_RETURN_IF_ERROR(WriteNames(from, *section, &sequence, file));
  std::vector<RecoveredPacket> behind = recovery.packets;
  if (section->closing) behind.push_back(*section->closing);
  for (const RecoveredPacket& packet : behind) {
    GPUMEM_RETURN_IF_ERROR(file->Write(FramePacket(packet, sequence++)));
  }
  return absl::OkStatus();
}

absl::Status SymbolizedCopy::Append(const std::string& from, OutputFile* file) {
  GPUMEM_ASSIGN_OR_RETURN(PacketReader reader, PacketReader::Open(from));
  std::optional<Section> section;
  RingsOfTrace rings(from);
  RawPacket packet;
  while (reader.Next(&packet) == PacketReader::Outcome::kPacket) {
    if (packet.type == PacketType::kHeader) {
      if (section) {
        section->end = packet.file_offset;
        GPUMEM_RETURN_IF_ERROR(Finish(from, &rings, &*section, file));
      }
      section.emplace();
      section->begin = packet.file_offset;
    }
    if (!section) section.emplace().begin = packet.file_offset;  // its header is lost
    Take(packet, &*section);
  }
  if (!reader.damage().empty() && !reader.cut_short()) damage_ = absl::StrCat(from, ": ", reader.damage());
  if (!section) return absl::InvalidArgumentError(absl::StrCat(from, " is damaged at its very start"));
  section->end = reader.position();
  return Finish(from, &rings, &*section, file);
}

}  // namespace gpumem
