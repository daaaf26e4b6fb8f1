// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TraceFile: the file, packet by packet. Frames a packet (sync word, sequence, checksum), compresses it where that
// helps, and appends it.
//
// Thread-safety: the writer thread only. Ownership: owns the descriptor. Failure: the first error closes the file for
// further writing, is kept in error(), and every later Append returns false; a file that was begun keeps its whole
// packets. A descriptor that the program closed or took for itself is noticed, and the file is opened again.
//
//   TraceFile file;
//   if (!file.Open("run.gmtrace")) ...
//   file.AppendPlain(fields::Packet::kHeader, header);
//   file.AppendCompressed(packets);   // serialized packets without sync and checksum

#ifndef GPUMEM_SHIM_WRITER_TRACE_FILE_H_
#define GPUMEM_SHIM_WRITER_TRACE_FILE_H_

#include <cstddef>
#include <cstdint>

#include "shim/base/buffer.h"

namespace gpumemshim::writer {

class TraceFile {
 public:
  // Creates it, never follows or overwrites what is there: "a.gmtrace" may become "a.1.gmtrace".
  bool Open(const char* path);

  // One packet whose `field` (fields::Packet) holds the message.
  bool AppendPlain(uint32_t field, const Buffer& message);

  // One Compressed packet around a serialized Trace.
  bool AppendCompressed(const Buffer& trace);

  // In a forked child: let go without writing.
  void Close();

  bool opened() const { return path_[0] != '\0'; }
  bool writable() const { return fd_ >= 0 && !failed_; }
  // Lets the last words (losses, end) be tried in spite of an earlier error.
  void TryAgain() { failed_ = false; }

  uint64_t next_sequence() const { return sequence_; }
  uint64_t bytes() const { return bytes_; }
  const char* path() const { return path_; }
  const char* error() const { return error_; }

 private:
  bool Append(uint32_t field, const uint8_t* message, size_t size);
  bool Write(const uint8_t* data, size_t size);
  bool Fail(const char* what, int error_number);
  void Settle();
  bool IsOurs() const;
  bool Reclaim();

  int fd_ = -1;
  uint64_t device_ = 0, inode_ = 0;  // by which we know that fd_ is still our file; 0 = nothing written yet
  bool failed_ = false;
  uint64_t sequence_ = 0;
  uint64_t bytes_ = 0;
  Buffer packet_;
  Buffer compressed_;
  Buffer state_;  // LZ4's working memory
  char path_[4096] = {};
  char error_[256] = {};
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_TRACE_FILE_H_
