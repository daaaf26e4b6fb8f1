// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/bundle/masked_trace.h"

#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "absl/strings/match.h"
#include "base/output_file.h"
#include "base/secrets.h"
#include "base/status_macros.h"
#include "cli/bundle/private_names.h"
#include "gpumem/trace.pb.h"
#include "trace/packet_reader.h"
#include "trace/ring/ring_recovery.h"
#include "trace/write/trace_writer.h"

namespace gpumem {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Of these messages texts name code and versions, which rules for secrets would take for random letters.
bool NamesCode(const FieldDescriptor& field) {
  const std::string& message = field.containing_type()->name();
  return message == "ModuleSymbols" || message == "NnModule" || message == "Tensor" || message == "VersionsEntry" ||
         (message == "PythonCode" && field.name() == "name") || field.name() == "writer_version";
}

std::string Masked(const FieldDescriptor& field, const std::string& text, Masker* masker) {
  const bool is_path = absl::StartsWith(text, "/");
  return NamesCode(field) && !is_path ? masker->Names(text) : masker->Value(text);
}

void MaskStrings(Message* message, Masker* masker) {
  const Reflection* const reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool is_text = field->type() == FieldDescriptor::TYPE_STRING;
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const int count = field->is_repeated() ? reflection->FieldSize(*message, field) : 1;
    for (int i = 0; (is_text || is_message) && i < count; ++i) {
      if (is_text && field->is_repeated()) {
        const std::string text = reflection->GetRepeatedString(*message, field, i);
        reflection->SetRepeatedString(message, field, i, Masked(*field, text, masker));
      } else if (is_text) {
        const bool is_key = field->containing_type()->options().map_entry() && field->number() == 1;
        if (is_key) continue;  // names of settings and versions
        reflection->SetString(message, field, Masked(*field, reflection->GetString(*message, field), masker));
      } else {
        MaskStrings(field->is_repeated() ? reflection->MutableRepeatedMessage(message, field, i)
                                         : reflection->MutableMessage(message, field),
                    masker);
      }
    }
  }
  reflection->MutableUnknownFields(message)->Clear();
}

void LearnNames(const trace::Header& header, const std::vector<std::string>& words, Masker* masker) {
  masker->AddHost(header.hostname());
  masker->AddFolder(header.working_directory());
  LearnFromCommand(words, masker);
  for (const auto& [name, value] : header.environment()) LearnFromVariable(name, WithoutSecrets(name, value), masker);
}

void MaskHeader(trace::Header* header, Masker* masker) {
  const std::vector<std::string> words =
      WithoutSecrets(std::vector<std::string>(header->command_line().begin(), header->command_line().end()));
  LearnNames(*header, words, masker);
  std::copy(words.begin(), words.end(), header->mutable_command_line()->begin());
  for (auto& [name, value] : *header->mutable_environment()) value = WithoutSecrets(name, value);
  MaskStrings(header, masker);
  // In environments that are machines of their own the name can be a word of every report, and is not known then.
  if (!header->hostname().empty()) header->set_hostname("***");
  header->clear_boot_id();
  header->clear_ring();  // of a process of another machine: nothing is to be looked for
}

// The packet's message without its texts; false where it is not known.
bool MaskBody(const RawPacket& raw, trace::Packet* packet, Masker* masker) {
  const int size = static_cast<int>(raw.body.size());
  const auto parsed = [&](Message* message) { return message->ParseFromArray(raw.body.data(), size); };
  const FieldDescriptor* const field = trace::Packet::descriptor()->FindFieldByNumber(static_cast<int>(raw.type));
  if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || raw.type == PacketType::kNone)
    return false;
  Message* const message = packet->GetReflection()->MutableMessage(packet, field);
  if (!parsed(message)) return false;
  if (packet->has_header()) {
    MaskHeader(packet->mutable_header(), masker);
  } else {
    MaskStrings(message, masker);
  }
  if (packet->has_definitions()) {
    for (trace::Device& device : *packet->mutable_definitions()->mutable_devices()) device.clear_uuid();
  }
  // Texts that are not told apart here; without them the state itself stays.
  if (packet->has_allocator_state()) packet->mutable_allocator_state()->clear_rest();
  return true;
}

std::string Framed(const RawPacket& raw, const trace::Packet& packet, uint64_t sequence) {
  const auto compressed = static_cast<PacketType>(trace::Packet::kCompressedFieldNumber);
  if (raw.compressed) return FramePacket({compressed, CompressedBody(packet)}, sequence);
  const FieldDescriptor* const field = trace::Packet::descriptor()->FindFieldByNumber(static_cast<int>(raw.type));
  return FramePacket({raw.type, packet.GetReflection()->GetMessage(packet, field).SerializeAsString()}, sequence);
}

// So that a name which is learned at the end is masked at the beginning, too.
absl::Status LearnFrom(const std::string& from, Masker* masker) {
  GPUMEM_ASSIGN_OR_RETURN(PacketReader reader, PacketReader::Open(from));
  RawPacket raw;
  while (reader.Next(&raw) == PacketReader::Outcome::kPacket) {
    trace::Packet packet;
    if (raw.type != PacketType::kEvents) MaskBody(raw, &packet, masker);
  }
  return absl::OkStatus();
}

// Packets are numbered anew, since those that were compressed together come one by one; gaps stay as they were.
absl::Status Append(const std::string& from, OutputFile* to, uint64_t* sequence, Masker* masker) {
  GPUMEM_ASSIGN_OR_RETURN(PacketReader reader, PacketReader::Open(from));
  RawPacket raw;
  while (reader.Next(&raw) == PacketReader::Outcome::kPacket) {
    trace::Packet packet;
    if (raw.type == PacketType::kHeader && raw.sequence == 0) *sequence = 0;  // of another process
    *sequence += raw.missing;
    if (!MaskBody(raw, &packet, masker)) continue;
    GPUMEM_RETURN_IF_ERROR(to->Write(Framed(raw, packet, (*sequence)++)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteMaskedTrace(const std::vector<std::string>& from, const std::string& to, Masker* masker) {
  for (const std::string& file : from) GPUMEM_RETURN_IF_ERROR(LearnFrom(file, masker));
  GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> output, OutputFile::Create(to, {.keeps = true}));
  uint64_t sequence = 0;
  for (const std::string& file : from) GPUMEM_RETURN_IF_ERROR(Append(file, output.get(), &sequence, masker));
  return output->Commit();
}

}  // namespace gpumem
