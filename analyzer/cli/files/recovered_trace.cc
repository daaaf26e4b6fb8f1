// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/files/recovered_trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/format.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/copy_bytes.h"
#include "ledger/load/find_traces.h"
#include "trace/file_window.h"
#include "trace/ring/ring_file.h"
#include "trace/ring/ring_recovery.h"

namespace gpumem {
namespace {

bool AppendPackets(const Recovery& recovery, int descriptor) {
  uint64_t sequence = recovery.next_sequence;
  for (const RecoveredPacket& packet : recovery.packets) {
    if (!WriteAll(descriptor, FramePacket(packet, sequence++))) return false;
  }
  return fsync(descriptor) == 0 || errno == EINVAL;
}

// The whole packets of each process in `from` ("" = none), and behind them the recovered ones.
absl::Status WriteCopy(const std::string& from, const std::vector<Recovery>& recoveries, const std::string& to,
                       bool is_named) {
  GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file,
                          OutputFile::Create(to, {.is_named = is_named, .keeps = true, .is_durable = true}));
  uint64_t copied = 0;
  for (const Recovery& recovery : recoveries) {
    if (!from.empty()) {
      GPUMEM_ASSIGN_OR_RETURN(FileWindow window, FileWindow::Open(from));
      GPUMEM_RETURN_IF_ERROR(CopyBytes(&window, copied, recovery.whole_bytes, file.get()));
      copied = recovery.whole_bytes;
    }
    uint64_t sequence = recovery.next_sequence;
    for (const RecoveredPacket& packet : recovery.packets)
      GPUMEM_RETURN_IF_ERROR(file->Write(FramePacket(packet, sequence++)));
  }
  return file->Commit();
}

// Cuts what is left of a half-written packet and appends.
absl::Status AppendInPlace(const std::string& path, const Recovery& recovery) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return FileError("write", path);
  const absl::Cleanup closer = [descriptor] { close(descriptor); };
  const off_t whole = static_cast<off_t>(recovery.whole_bytes);
  if (ftruncate(descriptor, whole) == 0 && AppendPackets(recovery, descriptor)) return absl::OkStatus();
  const absl::Status failed = FileError("write", path);
  if (ftruncate(descriptor, whole) != 0) return FileError("undo half a recovery in", path);
  return failed;
}

std::string NameOfRecovered(const std::string& from) {
  const absl::string_view ending = ".gmtrace";
  const std::string stem = absl::EndsWith(from, ending) ? from.substr(0, from.size() - ending.size()) : from;
  return absl::StrCat(stem, ".recovered", ending);
}

std::string NameOfRingsTrace(const std::string& ring) {
  return NameOfRecovered(std::filesystem::path(ring).stem().string() + ".gmtrace");
}

// Why there is nothing to write, or "".
std::string NothingToDo(const std::string& trace, const Recovery& recovery) {
  if (recovery.process == ProcessState::kRunning) return absl::StrCat(trace, ": the program is still running");
  if (recovery.complete) return absl::StrCat(trace, " is complete: nothing to recover");
  if (recovery.recovered_before > 0) return absl::StrCat(trace, " was recovered already");
  if (recovery.read_ring && recovery.packets.empty()) return absl::StrCat(trace, " holds all that was recorded");
  return "";
}

std::string NoRing(const std::string& trace, const Recovery& recovery) {
  if (!recovery.note.empty()) return recovery.note;
  if (recovery.process == ProcessState::kUnknown) {
    return absl::StrCat(trace,
                        ": whether its process has ended can be told only on the machine where it ran. Run "
                        "gpumemshim export trace there");
  }
  return absl::StrCat(trace, ": its ring is gone, so what the file holds is all there is");
}

class TraceRecoverer {
 public:
  explicit TraceRecoverer(const RecoverRequest& request) : request_(request) {}

  absl::Status Write(const std::string& argument, Console* console) const {
    GPUMEM_ASSIGN_OR_RETURN(const std::string path, FindTrace(argument));
    const bool is_ring = RingFile::Peek(path).ok();
    if (is_ring && request_.in_place) return absl::InvalidArgumentError(absl::StrCat(path, " is a ring, not a trace"));
    std::vector<Recovery> recoveries;
    if (is_ring) {
      GPUMEM_ASSIGN_OR_RETURN(Recovery alone, RecoverRingAlone(path));
      recoveries.push_back(std::move(alone));
    } else {
      GPUMEM_RETURN_IF_ERROR(PacketReader::Open(path).status());
      RingsOfTrace all(path);
      recoveries.push_back(all.Recover(0));
      while (!recoveries.back().is_last) recoveries.push_back(all.Recover(recoveries.back().whole_bytes));
    }
    const auto has_packets = [](const Recovery& recovery) { return !recovery.packets.empty(); };
    if (std::none_of(recoveries.begin(), recoveries.end(), has_packets)) return NothingFound(path, recoveries, console);
    if (request_.in_place && std::any_of(recoveries.begin(), recoveries.end() - 1, has_packets)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " holds several processes, so it cannot be changed in place: leave --in-place out"));
    }
    const std::string to = request_.in_place          ? path
                           : !request_.output.empty() ? request_.output
                           : is_ring                  ? NameOfRingsTrace(path)
                                                      : NameOfRecovered(path);
    GPUMEM_RETURN_IF_ERROR(request_.in_place
                               ? AppendInPlace(path, recoveries.back())
                               : WriteCopy(is_ring ? "" : path, recoveries, to, !request_.output.empty()));
    Tell(recoveries, to, console);
    return absl::OkStatus();
  }

 private:
  // No process of the file left anything: says why, of the first that has no End, else of the last.
  absl::Status NothingFound(const std::string& path, const std::vector<Recovery>& recoveries, Console* console) const {
    auto of = std::find_if(recoveries.begin(), recoveries.end() - 1, [](const Recovery& r) { return !r.complete; });
    const std::string idle = NothingToDo(path, *of);
    if (idle.empty()) return absl::NotFoundError(NoRing(path, *of));
    if (request_.deletes_ring && of->read_ring) RemoveRing(*of, console);
    console->Say(absl::StrCat(idle, "\n"));
    return absl::OkStatus();
  }

  void Tell(const std::vector<Recovery>& recoveries, const std::string& to, Console* console) const {
    uint64_t events = 0;
    for (const Recovery& recovery : recoveries) {
      if (!recovery.note.empty()) console->Complain(recovery.note);
      events += recovery.events;
      if (request_.deletes_ring && recovery.read_ring) RemoveRing(recovery, console);
    }
    console->Say(absl::StrCat(to, ": ", FormatCountOf(events, "event", "events"),
                              " recovered from the ring of the killed process. Next: gpumemshim report ",
                              ShellQuoted(to), "\n"));
  }

  static void RemoveRing(const Recovery& recovery, Console* console) {
    if (RemovePlainFile(recovery.ring_path)) return;
    console->Complain(absl::StrCat("cannot remove ", recovery.ring_path, ": ", std::strerror(errno), "."));
  }

  const RecoverRequest& request_;
};

}  // namespace

absl::StatusOr<int> WriteRecoveredTraces(const RecoverRequest& request, Console* console) {
  if (!request.output.empty() && (request.in_place || request.places.size() > 1))
    return absl::InvalidArgumentError("-o names one new file: give one FILE with it, and not --in-place.");
  const TraceRecoverer recoverer(request);
  int code = kExitFine;
  for (const std::string& place : request.places.empty() ? std::vector<std::string>{""} : request.places) {
    const absl::Status status = recoverer.Write(place, console);
    if (status.ok()) continue;
    console->Complain(absl::StrCat(status.message(), "."));
    code = kExitCannotRead;
  }
  return code;
}

}  // namespace gpumem
