// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TraceFile: the trace, packet by packet. Frames a packet (sync word, sequence, checksum), compresses it where that
// helps, and appends it to a file. Numbers go on from one file of a series to the next.
//
// Thread-safety: the writer thread only. Ownership: owns the file. Failure: Append returns false, error() has the first
// reason, and the next call tries again. A packet that could not be written uses up no number: a gap in a file means
// that the file was damaged.
//
//   TraceFile file;
//   if (!file.Open("run.gmtrace", header)) ...
//   file.AppendCompressed(packets);   // serialized packets without sync and checksum

#ifndef GPUMEM_SHIM_WRITER_TRACE_FILE_H_
#define GPUMEM_SHIM_WRITER_TRACE_FILE_H_

#include <cstddef>
#include <cstdint>

#include "shim/base/buffer.h"
#include "shim/writer/output_file.h"

namespace gpumemshim::writer {

// Compressor: LZ4 blocks that know the ones before them. A program that repeats itself every 100 ms or so leaves
// packets that have little to repeat inside, but much of each other: with the last 64 KiB as a dictionary a training
// loop takes half the bytes. A chain is broken off after a quarter of a MiB or 32 blocks: one that is damaged takes
// those behind it in its chain with it, and a reader that goes back reads a chain from its start.
//
// Thread-safety: one thread at a time. Ownership: owns its copy of what went before. Failure: Compress returns false
// without memory; what LZ4 cannot make smaller is handed on as it is.
//
//   Compressor::Result result;
//   compressor.Compress(trace, 40, &out, &result);   // result.size bytes at out.data() + 40
class Compressor {
 public:
  struct Result {
    uint32_t codec;
    size_t size;
  };

  // Into `out`, behind `room` bytes that are left free.
  bool Compress(const Buffer& bytes, size_t room, Buffer* out, Result* result);

  // The next block stands alone.
  void Forget();

 private:
  static constexpr size_t kWindowBytes = 64 << 10;
  static constexpr size_t kChainBytes = 256 << 10;
  static constexpr uint32_t kChainBlocks = 32;

  void Remember(const Buffer& bytes);

  Buffer window_;  // the last bytes of the chain
  Buffer state_;   // LZ4's working memory
  size_t chain_bytes_ = 0;
  uint32_t chain_blocks_ = 0;
};

class TraceFile {
 public:
  // Creates it with its header in it, never follows or overwrites what is there: "a.gmtrace" may become "a.1.gmtrace".
  // False: a file that was open before stays the one.
  bool Open(const char* path, const Buffer& header);

  // The first of two steps of the same: the one packet that is appended before SwitchToNext goes to the file before.
  bool CreateNext(const char* path, const Buffer& header) { return Create(path, header, sequence_ + 1); }
  void SwitchToNext();

  // Back to an empty file.
  bool Restart() {
    compressor_.Forget();
    return file().Truncate(0);
  }

  // One packet whose `field` (fields::Packet) holds the message.
  bool AppendPlain(uint32_t field, const Buffer& message);

  // The same, into the room that is kept for when the disk is full. Small.
  bool AppendLast(uint32_t field, const Buffer& message);

  // One Compressed packet around a serialized Trace.
  bool AppendCompressed(const Buffer& trace);

  // How many events the packets so far hold: from now on each says so.
  void SetEvents(uint64_t events) { events_ = events; }

  void Finish();

  // In a forked child: let go without writing.
  void Close();

  bool opened() const { return file().opened(); }
  bool gone() const { return file().gone(); }

  uint64_t next_sequence() const { return sequence_; }
  uint64_t bytes() const { return file().bytes(); }
  const char* path() const { return file().path(); }
  const char* error() const { return error_; }
  void ForgetError() { error_[0] = '\0'; }
  // Keeps the text as the error if there is none yet. Returns false.
  bool Fail(const char* text);

 private:
  OutputFile& file() { return files_[current_]; }
  const OutputFile& file() const { return files_[current_]; }
  bool Failed(const OutputFile& file) { return Fail(file.error()); }
  bool Create(const char* path, const Buffer& header, uint64_t sequence);
  bool Frame(uint32_t field, const uint8_t* message, size_t size, uint64_t sequence);
  bool Append(uint32_t field, const uint8_t* message, size_t size);

  OutputFile files_[2];
  int current_ = 0;
  uint64_t sequence_ = 0;
  uint64_t next_header_ = 0;  // number of the header that CreateNext wrote
  uint32_t section_ = 0;      // names this trace in each of its packets
  uint64_t events_ = 0;
  Buffer packet_;
  Buffer compressed_;
  Compressor compressor_;
  char error_[256] = {};
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_TRACE_FILE_H_
