// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/base/kernel.h"
#include "shim/base/proto_writer.h"
#include "shim/writer/fields.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

// Weak: C libraries of children (musl, glibc before 2.32) lack it.
extern "C" __attribute__((weak)) const char* strerrordesc_np(int) noexcept;

namespace gpumemshim::writer {
namespace {

constexpr int kMaxCollisions = 1000;

// Number 0 is the wanted path itself; others go before the extension, so that the name still ends in it.
bool Numbered(const char* path, int number, char* out, size_t capacity) {
  static constexpr char kExtension[] = ".gmtrace";
  size_t stem = strlen(path);
  const char* extension = "";
  if (stem > sizeof(kExtension) - 1 && strcmp(path + stem - (sizeof(kExtension) - 1), kExtension) == 0) {
    stem -= sizeof(kExtension) - 1;
    extension = kExtension;
  }
  int size = number == 0 ? snprintf(out, capacity, "%s", path)
                         : snprintf(out, capacity, "%.*s.%d%s", static_cast<int>(stem), path, number, extension);
  return size > 0 && static_cast<size_t>(size) < capacity;
}

// Out of the way: programs close low numbers, and rely on the lowest free one coming next.
constexpr int kFirstDescriptor = 960;

int MoveUp(int fd) {
  int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (moved < 0) return fd;  // `ulimit -n` is lower
  close(fd);
  return moved;
}

}  // namespace

bool TraceFile::Open(const char* path) {
  int saved = ENAMETOOLONG;
  for (int number = 0; number < kMaxCollisions; number++) {
    if (!Numbered(path, number, path_, sizeof(path_))) break;
    fd_ = open(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_APPEND, 0600);
    if (fd_ >= 0) return true;
    saved = errno;
    if (saved != EEXIST) break;
  }
  path_[0] = '\0';
  return Fail(path, saved);
}

// Not before the header is in it: a program that is killed in between would leave an empty file.
void TraceFile::Settle() {
  struct stat status = {};
  fd_ = MoveUp(fd_);
  if (kernel::Fstat(fd_, &status) != 0) return;
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

bool TraceFile::IsOurs() const {
  struct stat status = {};
  return fd_ >= 0 && kernel::Fstat(fd_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

// A program that closes every descriptor closes ours too, and the number may be a file of its own by now.
bool TraceFile::Reclaim() {
  if (inode_ == 0 || IsOurs()) return true;
  fd_ = MoveUp(open(path_, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_APPEND));
  if (IsOurs()) return true;
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  return Fail(path_, EBADF);
}

bool TraceFile::AppendPlain(uint32_t field, const Buffer& message) {
  return Append(field, message.data(), message.size());
}

bool TraceFile::AppendCompressed(const Buffer& trace) {
  if (!writable()) return false;
  int bound = trace.size() <= LZ4_MAX_INPUT_SIZE ? LZ4_compressBound(static_cast<int>(trace.size())) : 0;
  int size = 0;
  size_t room = ProtoWriter::kMaxVarint * 4;
  compressed_.Clear();
  if (!compressed_.Reserve(room + trace.size() + static_cast<size_t>(bound))) return Fail("compress", ENOMEM);
  if (bound != 0 && state_.Reserve(static_cast<size_t>(LZ4_sizeofState()))) {
    size = LZ4_compress_fast_extState(state_.data(), reinterpret_cast<const char*>(trace.data()),
                                      reinterpret_cast<char*>(compressed_.data() + room),
                                      static_cast<int>(trace.size()), bound, 1);
  }
  bool smaller = size > 0 && static_cast<size_t>(size) < trace.size();
  // The payload stays where it was compressed to; the fields before it are put in front, against it.
  uint8_t prefix[ProtoWriter::kMaxVarint * 4];
  uint8_t* p = prefix;
  size_t payload = smaller ? static_cast<size_t>(size) : trace.size();
  if (smaller) {
    *p++ = fields::Compressed::kCodec << 3;
    *p++ = fields::kCodecLz4Block;
  }
  *p++ = fields::Compressed::kUncompressedSize << 3;
  p = ProtoWriter::PutVarint(p, trace.size());
  *p++ = fields::Compressed::kPayload << 3 | 2;
  p = ProtoWriter::PutVarint(p, payload);
  size_t prefix_size = static_cast<size_t>(p - prefix);
  uint8_t* message = compressed_.data() + room - prefix_size;
  memcpy(message, prefix, prefix_size);
  if (!smaller) memcpy(compressed_.data() + room, trace.data(), trace.size());
  return Append(fields::Packet::kCompressed, message, prefix_size + payload);
}

bool TraceFile::Append(uint32_t field, const uint8_t* message, size_t size) {
  if (!writable()) return false;
  packet_.Clear();
  ProtoWriter w(&packet_);
  size_t mark = w.Open(fields::Trace::kPacket);
  w.Fixed32(fields::Packet::kSync, fields::kSync);
  w.VarintIf(fields::Packet::kSequence, sequence_);
  w.Bytes(field, message, size);
  if (!w.ok()) return Fail("encode", ENOMEM);
  w.Fixed64(fields::Packet::kChecksum, XXH3_64bits(packet_.data() + mark, packet_.size() - mark));
  w.Close(mark);
  if (!w.ok()) return Fail("encode", ENOMEM);
  if (!Write(packet_.data(), packet_.size())) return false;
  sequence_++;
  return true;
}

bool TraceFile::Write(const uint8_t* data, size_t size) {
  uint64_t whole = bytes_;
  if (!Reclaim()) return false;
  while (size != 0) {
    ssize_t n = write(fd_, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      int error_number = n == 0 ? EIO : errno;
      if (ftruncate(fd_, static_cast<off_t>(whole)) == 0) bytes_ = whole;  // half a packet would only look like damage
      sequence_++;                                                         // the gap says that something is missing
      return Fail(path_, error_number);
    }
    data += n;
    size -= static_cast<size_t>(n);
    bytes_ += static_cast<uint64_t>(n);
  }
  if (inode_ == 0) Settle();
  return true;
}

bool TraceFile::Fail(const char* what, int error_number) {
  failed_ = true;
  if (error_[0] != '\0') return false;
  // strerror would touch the locale.
  const char* text = strerrordesc_np != nullptr ? strerrordesc_np(error_number) : nullptr;
  snprintf(error_, sizeof(error_), "%.180s: %s", what, text != nullptr ? text : "unknown error");
  return false;
}

void TraceFile::Close() {
  if (fd_ >= 0 && (inode_ == 0 || IsOurs())) close(fd_);
  fd_ = -1;
}

}  // namespace gpumemshim::writer
