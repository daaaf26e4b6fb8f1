// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Series: what happens where the trace reaches its greatest size, which is that of all its files together. It may stop,
// or be a series of files, an eighth each: then the oldest go, or nothing more is written until somebody has moved some
// away.
//
//   run.gmtrace  run.part2.gmtrace  run.part3.gmtrace ...
//
// A file is at least twice as large as what it begins with (definitions, live set), so that most of it is news; so a
// size below four times that is not held exactly.
//
// Thread-safety: the writer thread only. Ownership: knows files by their paths, holds none open. Failure: a file that
// cannot be removed stays.
//
//   Series series({64 << 20, OnFull::kLast});
//   if (series.Full(file.bytes())) ... series.NextPath(path, sizeof(path)) ... series.Begin(path);

#ifndef GPUMEM_SHIM_WRITER_SERIES_H_
#define GPUMEM_SHIM_WRITER_SERIES_H_

#include <cstddef>
#include <cstdint>

#include "shim/base/buffer.h"
#include "shim/base/proto_writer.h"
#include "shim/writer/writer.h"

namespace gpumemshim::writer {

// Encodes the trace's first message. Thread-safety: the writer thread only. Failure: shows in writer->ok().
//
//   EncodeHeader(info, PartInfo(), &writer);

// Which file of a series it is; number 0 = of none.
struct PartInfo {
  uint64_t series = 0;
  uint32_t number = 0;
  uint64_t events_before = 0;
  bool contiguous = false;
};

// The fields of trace.proto's Header: what control knows, and what the writer sees for itself (pid, clocks, ring).
void EncodeHeader(const HeaderInfo& info, const PartInfo& part, ProtoWriter* w);

class Series {
 public:
  explicit Series(const SizeLimit& limit) : limit_(limit) {}

  // Files follow each other, so what a next one begins with has to be kept.
  bool enabled() const { return limit_.max_bytes != 0 && limit_.on_full != OnFull::kStop; }
  // The trace is to end at this size.
  bool StopsAt(uint64_t bytes) const {
    return limit_.max_bytes != 0 && limit_.on_full == OnFull::kStop &&
           bytes + limit_.max_bytes / 8 >= limit_.max_bytes;  // less than one packet more
  }
  // It is time for the next file.
  bool Full(uint64_t bytes) const { return enabled() && bytes >= PartBytes(); }
  // False: with another file all together would pass the size, and none of them may be removed: the present one, of so
  // many bytes, grows on until Spent. Both look which of the finished ones are still there.
  bool HasRoom(uint64_t bytes);
  // Not even another packet fits.
  bool Spent(uint64_t bytes);
  // Small enough that one packet more does not take a file far past its size.
  uint32_t EventsPerPacket(uint32_t most) const;

  // Before the first file: makes id().
  void Identify(uint64_t now_ns);
  // The first file, or one that NextPath named, now exists.
  void Begin(const char* path);
  // It holds so much before its first event.
  void HasBase(uint64_t bytes) { base_bytes_ = bytes; }
  // Removes the oldest files where they are in the way. `bytes`: of the file just finished.
  void Finish(uint64_t bytes);

  bool NextPath(char* out, size_t capacity) const;

  uint64_t id() const { return id_; }
  uint32_t number() const { return number_; }
  // Of the finished files that are still there.
  uint64_t finished_bytes() const { return finished_bytes_; }

 private:
  struct Part {
    char path[4096];
    uint64_t identity;  // 0: there was no plain file
    uint64_t bytes;
  };
  static constexpr uint32_t kParts = 8;

  uint64_t PartBytes() const;
  void Drop(size_t index);
  bool Fits(uint64_t bytes);

  const SizeLimit limit_;
  uint64_t id_ = 0;
  uint32_t number_ = 0;
  uint64_t base_bytes_ = 0;
  uint64_t finished_bytes_ = 0;
  Part current_ = {};
  Array<Part> finished_;  // oldest first, those that are still there
  char first_path_[4096] = {};
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_SERIES_H_
