// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/ring/ring_leftovers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "trace/ring/ring_file.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;
using format::RingHeader;

RingOnDisk Describe(const std::string& path, const struct stat& file) {
  RingOnDisk found;
  found.path = path;
  found.memory_bytes = static_cast<uint64_t>(file.st_blocks) * 512;
  found.changed = file.st_mtime;
  found.owner = file.st_uid;
  const absl::StatusOr<RingFile> ring = RingFile::Peek(path);
  if (!ring.ok()) {
    found.error = std::string(ring.status().message());
    return found;
  }
  const RingHeader& header = ring->header();
  found.program.assign(header.program, strnlen(header.program, sizeof(header.program)));
  found.pid = header.pid;
  found.is_copy = header.moved != 0;
  found.state = StateOfRing(path, header.pid, header.process_start_ticks);
  if (found.state == ProcessState::kUnknown) found.state = StateOfProcess(header.pid, header.process_start_ticks);
  return found;
}

absl::Status Stays(absl::string_view why) { return absl::FailedPreconditionError(why); }

// The lock of those who clear, another kind than the owner's.
bool TakeOver(int descriptor) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(descriptor, F_OFD_SETLK, &lock) == 0;
}

bool IsSameFile(const std::string& path, const struct stat& file) {
  struct stat named {};
  return lstat(path.c_str(), &named) == 0 && named.st_dev == file.st_dev && named.st_ino == file.st_ino;
}

// Why nothing can be put beside the trace that the ring names, or OK.
absl::Status CheckTrace(const RingHeader& header) {
  if (header.trace_path_bytes == 0 || header.trace_path[0] != '/' ||
      strnlen(header.trace_path, sizeof(header.trace_path)) != header.trace_path_bytes)
    return Stays("it does not name its trace");
  struct stat info {};
  if (header.trace_inode == 0) {
    if (stat("/proc/self/ns/mnt", &info) == 0 && info.st_ino == header.mount_namespace) return absl::OkStatus();
    return Stays("no trace was begun, and its process ran in another container");
  }
  if (lstat(header.trace_path, &info) == 0 && S_ISREG(info.st_mode) && info.st_dev == header.trace_device &&
      info.st_ino == header.trace_inode)
    return absl::OkStatus();
  return Stays(absl::StrCat("its trace is no longer at ", header.trace_path));
}

// An earlier attempt was ended before it removed the ring.
bool IsCopyOf(const std::string& path, const RingHeader& header) {
  const absl::StatusOr<RingFile> copy = RingFile::Peek(path);
  return copy.ok() && copy->header().moved == 1 && NameOfRing(copy->header()) == NameOfRing(header);
}

absl::StatusOr<std::string> PutBesideTrace(const RingFile& ring) {
  const RingHeader& header = ring.header();
  // Without a trace yet: others may want the same name for theirs, and its ring's is that trace's.
  const std::string path =
      absl::StrCat(header.trace_path, header.trace_inode != 0 ? "" : absl::StrCat(".", absl::Hex(header.id)), ".ring");
  if (IsCopyOf(path, header)) return path;
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0) return Stays(absl::StrCat("another file is at ", path));
  GPUMEM_RETURN_IF_ERROR(WriteOutput(path, ring.CopyOfUsed(), {.keeps = true, .hint = ""}));
  return path;
}

}  // namespace

std::string RingFolder() {
  const char* const set = std::getenv("GPUMEMSHIM_RING_DIRECTORY");
  return set == nullptr || *set == '\0' ? "/dev/shm" : set;
}

std::vector<RingOnDisk> FindRings(const std::string& folder) {
  std::vector<RingOnDisk> rings;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_ours = absl::StartsWith(name, "gpumemshim.") || absl::StartsWith(name, "gpumem.");  // of before
    if (!is_ours || !absl::EndsWith(name, ".ring")) continue;
    struct stat file {};
    if (lstat(entry.path().c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    RingOnDisk ring = Describe(entry.path().string(), file);
    if (!ring.is_copy) rings.push_back(std::move(ring));
  }
  std::sort(rings.begin(), rings.end(), [](const RingOnDisk& a, const RingOnDisk& b) { return a.path < b.path; });
  return rings;
}

absl::StatusOr<std::string> ClearRing(const RingOnDisk& ring) {
  if (!ring.error.empty()) return Stays(ring.error);
  if (ring.state != ProcessState::kEnded) return Stays("its process is not known to be gone");
  if (ring.owner != geteuid()) return Stays("it belongs to another user");
  const int descriptor = open(ring.path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return FileError("open", ring.path);
  const absl::Cleanup closer = [descriptor] { close(descriptor); };
  struct stat file {};
  if (fstat(descriptor, &file) != 0 || !TakeOver(descriptor)) return Stays("another process is clearing it");
  if (!IsSameFile(ring.path, file)) return "";  // another process has done it
  GPUMEM_ASSIGN_OR_RETURN(const RingFile peeked, RingFile::Peek(ring.path));
  if (peeked.header().layout_version == format::kOldestLayoutVersion)
    return Stays("an earlier version made it, which did not say where its trace is");
  if (peeked.header().locked == 0) return Stays("it has no lock that would tell whether its process is gone");
  std::string kept;
  if (!peeked.IsEmpty()) {
    GPUMEM_RETURN_IF_ERROR(CheckTrace(peeked.header()));
    GPUMEM_ASSIGN_OR_RETURN(const RingFile contents, RingFile::Open(ring.path));
    GPUMEM_ASSIGN_OR_RETURN(kept, PutBesideTrace(contents));
  }
  if (!RemovePlainFile(ring.path)) return FileError("remove", ring.path);
  return kept;
}

void ClearOwnDeadRings(const std::string& folder) {
  for (const RingOnDisk& ring : FindRings(folder)) {
    if (ring.state == ProcessState::kEnded && ring.owner == geteuid()) ClearRing(ring).IgnoreError();
  }
}

}  // namespace gpumem
