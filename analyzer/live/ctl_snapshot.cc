// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/ctl_snapshot.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "gpumem/trace.pb.h"
#include "trace/packet_reader.h"
#include "trace/ring/ring_recovery.h"

namespace gpumem {
namespace {

// The number of the packet behind the first `bytes` of the file.
absl::StatusOr<uint64_t> NextSequence(const std::string& path, uint64_t bytes) {
  GPUMEM_ASSIGN_OR_RETURN(PacketReader reader, PacketReader::Open(path));
  uint64_t sequence = 0;
  RawPacket packet;
  while (reader.Next(&packet) == PacketReader::Outcome::kPacket && packet.file_offset < bytes) {
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
  GPUMEM_ASSIGN_OR_RETURN(const uint64_t sequence, NextSequence(source, bytes));
  const int descriptor = OpenRegularFile(source);  // the process says which
  if (descriptor < 0) return FileError("read", source);
  const absl::Cleanup closer = [descriptor] { close(descriptor); };
  OutputOptions options{.is_named = true, .keeps = !force};
  if (!force) absl::StrAppend(&options.hint, ", or replace one that is there by --force");
  GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(to, options));
  uint64_t copied = 0;
  GPUMEM_RETURN_IF_ERROR(file->CopyFrom(descriptor, bytes, &copied));
  if (copied < bytes) return absl::DataLossError(absl::StrCat(from, " is shorter than the process says"));
  const std::string end = EndPacket(sequence);
  GPUMEM_RETURN_IF_ERROR(file->Write(end));
  GPUMEM_RETURN_IF_ERROR(file->Commit());
  return Snapshot{to, bytes + end.size()};
}

}  // namespace gpumem
