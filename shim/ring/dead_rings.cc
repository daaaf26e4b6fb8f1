// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/dead_rings.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/base/descriptors.h"
#include "shim/base/kernel.h"
#include "shim/ring/layout.h"
#include "shim/ring/ring.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

namespace gpumemshim::ring {
namespace {

// The copy of a dead process's ring that is put beside its trace (dead_rings.h, layout.h).

constexpr uint32_t kMaxNamesBytes = 1 << 20;

bool ReadAll(int fd, void* out, size_t bytes, uint64_t offset) {
  return pread(fd, out, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

bool WriteAll(int fd, const void* data, size_t bytes, uint64_t offset) {
  return pwrite(fd, data, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

bool IsSane(const RingHeader& header, uint64_t file_bytes) {
  const uint64_t chunks = header.chunk_count;
  return header.size_bytes <= file_bytes && header.size_bytes <= kMaxSizeBytes && header.chunk_bytes == kChunkBytes &&
         header.descriptors_offset <= header.size_bytes && header.chunks_offset <= header.size_bytes &&
         chunks * sizeof(ChunkDescriptor) <= header.size_bytes - header.descriptors_offset &&
         chunks * kChunkBytes <= header.size_bytes - header.chunks_offset &&
         header.api_names_offset <= header.chunks_offset &&
         header.chunks_offset - header.api_names_offset <= kMaxNamesBytes && header.trace_path_bytes < kTracePathBytes;
}

// How far the trace has a chunk: the rule of layout.h, with the packet that the header names.
uint32_t PositionOf(const ChunkDescriptor& chunk, uint64_t written_sequence) {
  uint64_t best = 0;
  uint32_t position = 0;
  for (const ReadSlot& slot : chunk.read) {
    if (slot.packet_sequence <= best || slot.packet_sequence > written_sequence) continue;
    best = slot.packet_sequence;
    position = slot.position;
  }
  return position;
}

// Calls visit(index, descriptor) for each chunk in use that is as it should be, until it returns false.
template <typename Visit>
bool ForEachChunk(int fd, const RingHeader& header, Visit visit) {
  ChunkDescriptor chunks[32];
  constexpr uint32_t kAtOnce = sizeof(chunks) / sizeof(chunks[0]);
  for (uint32_t first = 0; first < header.chunk_count; first += kAtOnce) {
    const uint32_t count = header.chunk_count - first < kAtOnce ? header.chunk_count - first : kAtOnce;
    if (!ReadAll(fd, chunks, count * sizeof(ChunkDescriptor),
                 header.descriptors_offset + uint64_t{first} * sizeof(ChunkDescriptor)))
      return false;
    for (uint32_t i = 0; i < count; i++) {
      if (chunks[i].state == kChunkFree) continue;
      if (!visit(first + i, chunks[i])) return false;
    }
  }
  return true;
}

uint64_t FileBytes(int fd) {
  struct stat file;
  return kernel::Fstat(fd, &file) == 0 ? static_cast<uint64_t>(file.st_size) : 0;
}

bool HasLosses(const RingHeader& header) {
  return (header.dropped_allocs | header.dropped_frees | header.dropped_definitions | header.truncated_stacks) != 0;
}

// How many chunks the copy takes: all in use, since what one lacks may be defined in another; none where nothing lacks.
uint32_t ChunksToKeep(int fd, const RingHeader& header) {
  uint32_t used = 0;
  bool lacks = HasLosses(header);
  const bool good = ForEachChunk(fd, header, [&](uint32_t, const ChunkDescriptor& chunk) {
    used++;
    lacks |= PositionOf(chunk, header.written_sequence) != chunk.committed;
    return true;
  });
  return good && !lacks ? 0 : used;
}

// A limit on the size of files would send a signal to the program.
bool MayWrite(uint64_t bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);
}

bool CopyNames(int from, const RingHeader& header, int to, const RingHeader& copy) {
  char buffer[4096];
  const uint64_t size = header.chunks_offset - header.api_names_offset;
  for (uint64_t at = 0; at < size;) {
    const size_t part = size - at < sizeof(buffer) ? size - at : sizeof(buffer);
    if (!ReadAll(from, buffer, part, header.api_names_offset + at) ||
        !WriteAll(to, buffer, part, copy.api_names_offset + at))
      return false;
    at += part;
  }
  return true;
}

bool CopyChunks(int from, const RingHeader& header, int to, const RingHeader& copy) {
  uint32_t number = 0;
  return ForEachChunk(from, header, [&](uint32_t index, const ChunkDescriptor& chunk) {
    uint8_t data[kChunkBytes];
    if (number == copy.chunk_count) return false;
    const uint32_t bytes = chunk.committed <= kChunkBytes ? chunk.committed : kChunkBytes;
    if (!ReadAll(from, data, bytes, header.chunks_offset + uint64_t{index} * kChunkBytes) ||
        !WriteAll(to, data, bytes, copy.chunks_offset + uint64_t{number} * kChunkBytes) ||
        !WriteAll(to, &chunk, sizeof(chunk), copy.descriptors_offset + uint64_t{number} * sizeof(chunk)))
      return false;
    number++;
    return true;
  });
}

// The header last, as everywhere.
bool WriteCopy(int from, const RingHeader& header, int to) {
  RingHeader copy = header;
  copy.moved = 1;
  copy.chunk_count = ChunksToKeep(from, header);
  copy.reserved_chunks = 0;
  copy.descriptors_offset = kPageBytes;
  copy.api_names_offset = kPageBytes + uint64_t{copy.chunk_count} * sizeof(ChunkDescriptor);
  copy.chunks_offset = copy.api_names_offset;
  if (copy.chunk_count == 0) {
    copy.api_count = 0;
  } else {
    copy.chunks_offset += header.chunks_offset - header.api_names_offset;
  }
  copy.size_bytes = copy.chunks_offset + uint64_t{copy.chunk_count} * kChunkBytes;
  return MayWrite(copy.size_bytes) && ftruncate(to, static_cast<off_t>(copy.size_bytes)) == 0 &&
         (copy.chunk_count == 0 || (CopyNames(from, header, to, copy) && CopyChunks(from, header, to, copy))) &&
         WriteAll(to, &copy, sizeof(copy), 0);
}

// Never in the place of another file.
bool GiveName(const char* part, const char* path) {
  if (syscall(SYS_renameat2, AT_FDCWD, part, AT_FDCWD, path, RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  if (link(part, path) != 0) return false;
  unlink(part);
  return true;
}

// An earlier attempt was killed before it removed the ring.
bool IsOurCopy(const char* path, const RingHeader& header) {
  const int fd = descriptors::Raise(open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd < 0) return false;
  RingHeader other;
  const bool same = ReadAll(fd, &other, sizeof(other), 0) && other.magic == kMagic && other.moved == 1 &&
                    other.id == header.id && other.pid == header.pid &&
                    other.process_start_ticks == header.process_start_ticks;
  close(fd);
  return same;
}

bool Put(int from, const RingHeader& header, const char* path) {
  if (IsOurCopy(path, header)) return true;
  char part[kTracePathBytes + 64];
  const int size = snprintf(part, sizeof(part), "%s.%llx.part", path, static_cast<unsigned long long>(header.id));
  if (size < 0 || static_cast<size_t>(size) >= sizeof(part)) return false;
  unlink(part);
  const int to = descriptors::Raise(open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (to < 0) return false;
  const bool written = WriteCopy(from, header, to);
  close(to);
  if (written && GiveName(part, path)) return true;
  unlink(part);
  return false;
}

bool IsItsTrace(const RingHeader& header) {
  struct stat trace;
  return kernel::Lstat(header.trace_path, &trace) == 0 && S_ISREG(trace.st_mode) &&
         trace.st_dev == header.trace_device && trace.st_ino == header.trace_inode;
}

// The path means the same file to us as it did to that process.
bool IsOurMountNamespace(const RingHeader& header) {
  struct stat mounts;
  return header.mount_namespace != 0 && kernel::Stat("/proc/self/ns/mnt", &mounts) == 0 &&
         mounts.st_ino == header.mount_namespace;
}

// Whether it holds anything at all to tell of: a record, a loss, or a trace that was begun.
bool HasContent(int fd, const RingHeader& header) {
  if (header.trace_inode != 0 || HasLosses(header) || !IsSane(header, FileBytes(fd))) return true;
  bool any = false;
  const bool good = ForEachChunk(fd, header, [&](uint32_t, const ChunkDescriptor& chunk) {
    any |= chunk.committed != 0;
    return true;
  });
  return any || !good;
}

// There was a trace, and it was deleted: as far as we see what that process saw.
bool IsTraceDeleted(const RingHeader& header) {
  struct stat trace;
  return header.trace_inode != 0 && header.trace_path_bytes != 0 && header.trace_path_bytes < kTracePathBytes &&
         header.trace_path[header.trace_path_bytes] == '\0' && IsOurMountNamespace(header) &&
         kernel::Lstat(header.trace_path, &trace) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

// `header` was read from `fd` and is not trusted. True: the copy is there, now or from an earlier attempt.
bool PutBesideTrace(int fd, const RingHeader& header) {
  if (header.trace_path_bytes == 0 || !IsSane(header, FileBytes(fd)) || header.trace_path[0] != '/' ||
      header.trace_path[header.trace_path_bytes] != '\0')
    return false;
  const bool begun = header.trace_inode != 0;
  if (begun ? !IsItsTrace(header) : !IsOurMountNamespace(header)) return false;
  // Without a trace yet: others may want the same name for theirs, and its ring's is that trace's.
  char path[kTracePathBytes + 32], middle[24] = "";
  if (!begun) snprintf(middle, sizeof(middle), ".%llx", static_cast<unsigned long long>(header.id));
  snprintf(path, sizeof(path), "%s%s.ring", header.trace_path, middle);
  return Put(fd, header, path);
}

// Among those who clear: this one has it. A lock of another kind than the owner's, released with the descriptor.
bool TakeOver(int fd) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool IsSameFile(int directory, const char* name, const struct stat& file) {
  struct stat named;
  return kernel::FstatatLink(directory, name, &named) == 0 && named.st_dev == file.st_dev &&
         named.st_ino == file.st_ino;
}

// A pid that somebody else has by now keeps the ring too: it goes when that process has gone.
bool IsGone(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

// A mapping's stores do not change the file's time, so the first who finds it dead writes down when that was.
int64_t SecondsDead(int fd, const RingHeader& header, int64_t now) {
  if (header.dead_since_s != 0) return now - static_cast<int64_t>(header.dead_since_s);
  const auto since = static_cast<uint64_t>(now);
  if (pwrite(fd, &since, sizeof(since), offsetof(RingHeader, dead_since_s)) < 0) return 0;
  return 0;
}

// Of a ring that nobody holds. May it be removed?
bool IsDoneWith(int fd, const char* name, const struct stat& file) {
  const auto now = static_cast<int64_t>(ClockNs(CLOCK_REALTIME) / 1'000'000'000);
  const int64_t age = now - file.st_mtime;
  RingHeader header;
  const bool is_whole = pread(fd, &header, sizeof(header), 0) == static_cast<ssize_t>(sizeof(header));
  if (!is_whole || header.magic != kMagic) return age > kUnfinishedSeconds && IsGone(PidOfRing(name));
  // Without a lock from its owner that nobody holds it means nothing, and others lay their files out otherwise.
  if (header.locked == 0 || header.layout_version != kLayoutVersion)
    return age > kKeepSeconds && IsGone(PidOfRing(name));
  if (header.moved != 0) return false;  // a copy: traces lie here too
  if (!HasContent(fd, header) || PutBesideTrace(fd, header)) return true;
  const int64_t dead = SecondsDead(fd, header, now);
  return dead > kKeepSeconds || (dead > kKeepWithoutTraceSeconds && IsTraceDeleted(header));
}

bool Clear(int directory, const char* name) {
  const int fd = descriptors::Raise(openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd < 0) return false;
  struct stat file;
  const bool cleared = kernel::Fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
                       !IsHeld(fd) && TakeOver(fd) && IsSameFile(directory, name, file) && IsDoneWith(fd, name, file) &&
                       unlinkat(directory, name, 0) == 0;
  close(fd);
  return cleared;
}

}  // namespace

uint32_t ClearDeadRings(const char* directory) {
  const int saved_errno = errno;
  uint32_t cleared = 0;
  const int fd = descriptors::Raise(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd >= 0) {
    ForEachRing(
        fd,
        [](void* count, int in, const char* name) {
          auto* so_far = static_cast<uint32_t*>(count);
          if (Clear(in, name)) ++*so_far;
          return *so_far < kMaxRingsAtOnce;
        },
        &cleared);
    close(fd);
  }
  errno = saved_errno;
  return cleared;
}

namespace {

// As the kernel lays it out for getdents64; opendir would take the heap.
struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[1];
};

}  // namespace

void ForEachRing(int directory, bool (*visit)(void* context, int directory, const char* name), void* context) {
  alignas(DirectoryEntry) char buffer[4096];
  lseek(directory, 0, SEEK_SET);
  for (long size; (size = syscall(SYS_getdents64, directory, buffer, sizeof(buffer))) > 0;) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      at += entry->size;
      if (PidOfRing(entry->name) != 0 && !visit(context, directory, entry->name)) return;
    }
  }
}

bool IsHeld(int ring) {
  if (flock(ring, LOCK_SH | LOCK_NB) != 0) return true;
  flock(ring, LOCK_UN);
  return false;
}

pid_t PidOfRing(const char* name) {
  constexpr char kPrefix[] = "gpumemshim.", kSuffix[] = ".ring";
  const size_t length = strlen(name);
  if (strncmp(name, kPrefix, sizeof(kPrefix) - 1) != 0 || length < sizeof(kPrefix) + sizeof(kSuffix)) return 0;
  if (strcmp(name + length - (sizeof(kSuffix) - 1), kSuffix) != 0) return 0;
  const char* digit = name + sizeof(kPrefix) - 1;
  int64_t pid = 0;
  for (; *digit >= '0' && *digit <= '9' && pid < INT32_MAX; digit++) pid = pid * 10 + (*digit - '0');
  return *digit == '.' && pid > 0 && pid <= INT32_MAX ? static_cast<pid_t>(pid) : 0;
}

}  // namespace gpumemshim::ring
