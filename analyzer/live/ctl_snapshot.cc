// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/ctl_snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/status_macros.h"
#include "gpumem/trace.pb.h"
#include "trace/packet_reader.h"
#include "trace/ring_recovery.h"

namespace gpumem {
namespace {

constexpr size_t kCopyBytes = 1 << 20;

absl::Status Copy(const std::string& from, uint64_t bytes, int to, const std::string& to_path) {
  const int source = open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) return FileError("read", from);
  const absl::Cleanup closer = [source] { close(source); };
  std::vector<char> buffer(kCopyBytes);
  while (bytes > 0) {
    const ssize_t got = read(source, buffer.data(), std::min<uint64_t>(buffer.size(), bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::DataLossError(absl::StrCat(from, " is shorter than the process says"));
    if (!WriteAll(to, absl::string_view(buffer.data(), static_cast<size_t>(got)))) return FileError("write", to_path);
    bytes -= static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

// The number that the next packet of the file gets.
absl::StatusOr<uint64_t> NextSequence(const std::string& path) {
  GPUMEM_ASSIGN_OR_RETURN(PacketReader reader, PacketReader::Open(path));
  uint64_t sequence = 0;
  RawPacket packet;
  while (reader.Next(&packet) == PacketReader::Outcome::kPacket) {
    if (!packet.compressed) sequence = packet.sequence;
  }
  if (!reader.damage().empty()) return absl::DataLossError(absl::StrCat(path, ": ", reader.damage()));
  return sequence + 1;
}

std::string EndPacket(uint64_t sequence) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  trace::End end;
  end.set_time_ns(static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec));
  end.set_snapshot(true);
  return FramePacket({PacketType::kEnd, end.SerializeAsString()}, sequence);
}

// The file as we see it: the process may live in another file system.
std::string SeenFromHere(int pid, const std::string& path) {
  const std::string inside = absl::StrCat("/proc/", pid, "/root", path);
  return access(inside.c_str(), R_OK) == 0 ? inside : path;
}

bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat one {
  }, other{};
  return stat(a.c_str(), &one) == 0 && stat(b.c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

}  // namespace

std::string SnapshotName(const std::string& trace) {
  std::string name = std::filesystem::path(trace).filename().string();
  const absl::string_view ending = ".gmtrace";
  if (absl::EndsWith(name, ending)) name.resize(name.size() - ending.size());
  return absl::StrCat(name, ".snapshot", ending);
}

absl::StatusOr<Snapshot> TakeSnapshot(int pid, const std::string& from, uint64_t bytes, const std::string& to,
                                      bool force) {
  const std::string source = SeenFromHere(pid, from);
  if (IsSameFile(source, to)) {
    return absl::AlreadyExistsError(
        absl::StrCat(to, " is the file that the process writes to. Give another name with -o"));
  }
  if (force) unlink(to.c_str());
  const int descriptor = open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0 && errno == EEXIST)
    return absl::AlreadyExistsError(absl::StrCat(to, " exists. Give another name with -o, or --force to replace it"));
  if (descriptor < 0) return FileError("write", to);
  const absl::Cleanup closer = [descriptor] { close(descriptor); };
  absl::Cleanup remover = [&to] { unlink(to.c_str()); };
  GPUMEM_RETURN_IF_ERROR(Copy(source, bytes, descriptor, to));
  GPUMEM_ASSIGN_OR_RETURN(const uint64_t sequence, NextSequence(to));
  const std::string end = EndPacket(sequence);
  if (!WriteAll(descriptor, end)) return FileError("write", to);
  std::move(remover).Cancel();
  return Snapshot{to, bytes + end.size()};
}

}  // namespace gpumem
