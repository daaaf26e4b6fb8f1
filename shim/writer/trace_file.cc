// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/trace_file.h"

#include <lz4.h>
#include <stdio.h>
#include <string.h>

#include "shim/base/proto_writer.h"
#include "shim/writer/fields.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace gpumemshim::writer {

bool Compressor::Compress(const Buffer& bytes, size_t room, Buffer* out, Result* result) {
  const int size = bytes.size() <= LZ4_MAX_INPUT_SIZE ? static_cast<int>(bytes.size()) : 0;
  const int bound = LZ4_compressBound(size);
  out->Clear();
  if (!out->Reserve(room + bytes.size() + static_cast<size_t>(bound)) || !window_.Reserve(kWindowBytes) ||
      !state_.Reserve(sizeof(LZ4_stream_t))) {
    return false;
  }
  if (chain_bytes_ >= kChainBytes || chain_blocks_ >= kChainBlocks) Forget();
  LZ4_stream_t* stream = LZ4_initStream(state_.data(), sizeof(LZ4_stream_t));
  if (window_.size() != 0) {
    LZ4_loadDict(stream, reinterpret_cast<const char*>(window_.data()), static_cast<int>(window_.size()));
  }
  const int packed = LZ4_compress_fast_continue(stream, reinterpret_cast<const char*>(bytes.data()),
                                                reinterpret_cast<char*>(out->data() + room), size, bound, 1);
  if (packed > 0 && packed < size) {
    *result = {window_.size() != 0 ? fields::kCodecLz4Chained : fields::kCodecLz4Block, static_cast<size_t>(packed)};
  } else {
    *result = {fields::kCodecNone, bytes.size()};
    memcpy(out->data() + room, bytes.data(), bytes.size());
    Forget();
  }
  Remember(bytes);
  return true;
}

void Compressor::Forget() {
  window_.Clear();
  chain_bytes_ = chain_blocks_ = 0;
}

void Compressor::Remember(const Buffer& bytes) {
  chain_bytes_ += bytes.size();
  chain_blocks_++;
  const size_t added = bytes.size() < kWindowBytes ? bytes.size() : kWindowBytes;
  const size_t kept = window_.size() + added <= kWindowBytes ? window_.size() : kWindowBytes - added;
  memmove(window_.data(), window_.data() + window_.size() - kept, kept);
  if (added != 0) memcpy(window_.data() + kept, bytes.data() + bytes.size() - added, added);
  window_.Resize(kept + added);
}

bool TraceFile::Open(const char* path, const Buffer& header) {
  // The header names the process and the instant: no other trace has the same.
  section_ = static_cast<uint32_t>(XXH3_64bits(header.data(), header.size())) | 1;
  if (!Create(path, header, sequence_)) return false;
  SwitchToNext();
  return true;
}

bool TraceFile::Create(const char* path, const Buffer& header, uint64_t sequence) {
  OutputFile& next = files_[1 - current_];
  if (!Frame(fields::Packet::kHeader, header.data(), header.size(), sequence)) return false;
  next_header_ = sequence;
  return next.Create(path, packet_.data(), packet_.size()) || Failed(next);
}

void TraceFile::SwitchToNext() {
  file().Finish();
  current_ = 1 - current_;
  sequence_ = next_header_ + 1;
  compressor_.Forget();
}

void TraceFile::Finish() {
  for (OutputFile& file : files_) file.Finish();
}

void TraceFile::Close() {
  for (OutputFile& file : files_) file.Close();
}

bool TraceFile::Fail(const char* text) {
  if (error_[0] == '\0') snprintf(error_, sizeof(error_), "%s", text);
  return false;
}

bool TraceFile::AppendPlain(uint32_t field, const Buffer& message) {
  return Append(field, message.data(), message.size());
}

bool TraceFile::AppendLast(uint32_t field, const Buffer& message) {
  if (!Frame(field, message.data(), message.size(), sequence_)) return false;
  if (!file().AppendLast(packet_.data(), packet_.size())) return Failed(file());
  sequence_++;
  return true;
}

bool TraceFile::AppendCompressed(const Buffer& trace) {
  Compressor::Result result;
  const size_t room = ProtoWriter::kMaxVarint * 4;
  if (!compressor_.Compress(trace, room, &compressed_, &result)) return Fail("no memory to compress with");
  // The payload stays where it was compressed to; the fields before it are put in front, against it.
  uint8_t prefix[ProtoWriter::kMaxVarint * 4];
  uint8_t* p = prefix;
  if (result.codec != fields::kCodecNone) {
    *p++ = fields::Compressed::kCodec << 3;
    *p++ = static_cast<uint8_t>(result.codec);
  }
  *p++ = fields::Compressed::kUncompressedSize << 3;
  p = ProtoWriter::PutVarint(p, trace.size());
  *p++ = fields::Compressed::kPayload << 3 | 2;
  p = ProtoWriter::PutVarint(p, result.size);
  const size_t prefix_size = static_cast<size_t>(p - prefix);
  uint8_t* message = compressed_.data() + room - prefix_size;
  memcpy(message, prefix, prefix_size);
  const bool appended = Append(fields::Packet::kCompressed, message, prefix_size + result.size);
  if (!appended) compressor_.Forget();  // a reader will not have it
  return appended;
}

// Into packet_.
bool TraceFile::Frame(uint32_t field, const uint8_t* message, size_t size, uint64_t sequence) {
  packet_.Clear();
  ProtoWriter w(&packet_);
  size_t mark = w.Open(fields::Trace::kPacket);
  w.Fixed32(fields::Packet::kSync, fields::kSync);
  w.VarintIf(fields::Packet::kSequence, sequence);
  w.Bytes(field, message, size);
  w.Fixed32(fields::Packet::kSection, section_);
  w.Varint(fields::Packet::kEventsBefore, events_);
  if (!w.ok()) return Fail("no memory to encode with");
  w.Fixed64(fields::Packet::kChecksum, XXH3_64bits(packet_.data() + mark, packet_.size() - mark));
  w.Close(mark);
  return w.ok() || Fail("no memory to encode with");
}

bool TraceFile::Append(uint32_t field, const uint8_t* message, size_t size) {
  if (!Frame(field, message, size, sequence_)) return false;
  if (!file().Append(packet_.data(), packet_.size())) return Failed(file());
  sequence_++;
  return true;
}

}  // namespace gpumemshim::writer
