// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/injector.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "attach/elf_file.h"
#include "attach/process_map.h"
#include "attach/safe_point.h"
#include "attach/stopped_thread.h"
#include "base/process.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kLongestSearch = std::chrono::seconds(10);
constexpr auto kBetweenRounds = std::chrono::milliseconds(2), kLongestPause = std::chrono::milliseconds(50);
constexpr auto kLeftOver = std::chrono::milliseconds(200);
constexpr uint64_t kRoomOnStack = 64 << 10;
// What the kernel leaves in rax where a call is to be made again (linux/errno.h, not for programs).
constexpr int64_t kRestartSys = -512, kRestartNoIntr = -513, kRestartNoHand = -514, kRestartBlock = -516;
constexpr int32_t kLongestAnewMs = 1000;
constexpr uint64_t kSyscallBytes = 2, kRestartSyscall = 219;

std::string FirstLineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// No process is touched: a request to ourselves, who trace nobody, is refused by the kernel in another way.
bool IsPtraceForbiddenHere() { return ptrace(PTRACE_CONT, getpid(), nullptr, nullptr) != 0 && errno != ESRCH; }

absl::Status WhyNotTraced(pid_t pid, const absl::Status& status) {
  if (!absl::IsPermissionDenied(status)) return status;
  if (IsPtraceForbiddenHere()) {
    return absl::PermissionDeniedError(
        "a seccomp filter, as containers have it, forbids gpumemshim to trace: run gpumemshim attach outside of the "
        "container "
        "or with docker run --cap-add=SYS_PTRACE; or start the program with GPUMEMSHIM_START=off gpumemshim run");
  }
  if (const std::string tracer = ProcessStatus(pid, "TracerPid"); !tracer.empty() && tracer != "0") {
    return absl::PermissionDeniedError(absl::StrCat("process ", pid, " is being traced by process ", tracer,
                                                    " (a debugger?), and only one may; end that"));
  }
  const std::string yama = FirstLineOf("/proc/sys/kernel/yama/ptrace_scope");
  if (yama == "3")
    return absl::PermissionDeniedError(
        "this system allows nobody to trace (kernel.yama.ptrace_scope is 3); start the program with "
        "GPUMEMSHIM_START=off gpumemshim run");
  if (!yama.empty() && yama != "0") {
    return absl::PermissionDeniedError(
        absl::StrCat("this system lets programs be traced by their parents alone (kernel.yama.ptrace_scope is ", yama,
                     "); use sudo, or start the program with GPUMEMSHIM_START=off gpumemshim run"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat("process ", pid,
                   " may not be traced: it is another user's, has more rights or forbids it, or a container withholds ",
                   "the right; use sudo or docker run --cap-add=SYS_PTRACE, or start the program with ",
                   "GPUMEMSHIM_START=off gpumemshim run"));
}

// Needs the rights that tracing needs, and touches nothing.
absl::StatusOr<int> OpenMemory(pid_t pid) {
  const int memory = open(absl::StrCat("/proc/", pid, "/mem").c_str(), O_RDWR | O_CLOEXEC);
  if (memory < 0 || IsPtraceForbiddenHere()) {
    if (memory >= 0) close(memory);
    return WhyNotTraced(pid, absl::PermissionDeniedError("its memory cannot be opened"));
  }
  return memory;
}

// The same file, as the process sees it.
absl::Status CheckLibrary(pid_t pid, const std::string& library) {
  struct stat ours {
  }, theirs{};
  const std::string inside = absl::StrCat("/proc/", pid, "/root", library);
  if (stat(library.c_str(), &ours) != 0) return absl::NotFoundError(absl::StrCat(library, " is not there"));
  if (stat(inside.c_str(), &theirs) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("process ", pid, " does not see ", library,
                     ", since it is in a container: copy the library to the same path inside, and try again"));
  }
  if (ours.st_size != theirs.st_size)
    return absl::FailedPreconditionError(
        absl::StrCat(library, " is another file where process ", pid, " runs: install the same version there"));
  return absl::OkStatus();
}

struct Target {
  ProcessMap map;
  std::vector<CLibraryPart> c_library;  // the first is libc.so.6
  CLibrary functions;
  AddressRange room;
};

AddressRange FindRoom(pid_t pid, const Target& target) {
  AddressRange best = target.c_library.front().functions.spare;
  for (const MappedObject& object : target.map.objects) {
    if (best.end - best.start >= 2048) break;
    if (object.code.empty() || !absl::StartsWith(fs::path(object.path).filename().string(), "lib")) continue;
    const absl::StatusOr<ObjectFunctions> functions = ReadFunctions(pid, object);
    if (functions.ok() && functions->spare.end - functions->spare.start > best.end - best.start)
      best = functions->spare;
  }
  return best;
}

// Older C libraries keep threads and the loader's functions in libraries of their own.
absl::Status FindFunctions(pid_t pid, Target* target) {
  const std::pair<absl::string_view, uint64_t*> wanted[] = {{"pthread_create", &target->functions.pthread_create},
                                                            {"pthread_self", &target->functions.pthread_self},
                                                            {"pthread_detach", &target->functions.pthread_detach},
                                                            {"dlopen", &target->functions.dlopen},
                                                            {"dlsym", &target->functions.dlsym}};
  const auto take_from = [&wanted](const ObjectFunctions& functions) {
    for (const auto& [function, address] : wanted) {
      if (*address == 0) *address = functions.AddressOf(function);
    }
  };
  for (const absl::string_view name : {"libc", "libpthread", "libdl"}) {
    const MappedObject* object = target->map.FindOfGlibc(name);
    if (object == nullptr || object->code.empty()) continue;
    GPUMEM_ASSIGN_OR_RETURN(ObjectFunctions functions, ReadFunctions(pid, *object));
    take_from(functions);
    target->c_library.push_back({std::move(functions), {object->code.front().start, object->code.back().end}});
  }
  for (const auto& [function, address] : wanted) {
    if (*address == 0) return absl::UnimplementedError(absl::StrCat("the program's C library has no ", function));
  }
  return absl::OkStatus();
}

absl::StatusOr<Target> ReadTarget(pid_t pid) {
  Target target;
  GPUMEM_ASSIGN_OR_RETURN(target.map, ReadProcessMap(pid));
  const MappedObject* const c_library = target.map.FindOfGlibc("libc");
  if (c_library == nullptr) {
    const bool is_musl = target.map.Find("ld-musl") != nullptr;
    return absl::UnimplementedError(
        absl::StrCat("process ", pid,
                     is_musl ? " runs on musl, and the recorder needs glibc"
                             : " is linked statically, so nothing can be loaded into it",
                     "; CUDA's own libraries need glibc too, so it is likely another process that uses CUDA"));
  }
  if (c_library->code.empty()) return absl::UnimplementedError("the program's C library has no code");
  GPUMEM_RETURN_IF_ERROR(FindFunctions(pid, &target));
  target.room = FindRoom(pid, target);
  return target;
}

// With all that stands against it told.
absl::StatusOr<Target> CheckedTarget(pid_t pid, const std::string& library) {
  const std::string state = ProcessStatus(pid, "State");
  if (state.empty()) return absl::NotFoundError(absl::StrCat("there is no process ", pid));
  if (HasEnded(pid)) return absl::NotFoundError(absl::StrCat("process ", pid, " has ended"));
  if (absl::StartsWith(state, "T"))
    return absl::FailedPreconditionError(absl::StrCat("process ", pid, " is stopped: kill -CONT ", pid, " first"));
  if (const std::string group = ProcessStatus(pid, "Tgid"); group != absl::StrCat(pid))
    return absl::InvalidArgumentError(absl::StrCat(pid, " is a thread of process ", group, "; attach to that"));
  const absl::StatusOr<ElfFile> program = ReadElfFile(absl::StrCat("/proc/", pid, "/exe"));
  if (program.ok() && program->is_elf && !program->is_elf64)
    return absl::UnimplementedError(absl::StrCat(
        "process ", pid,
        " is a 32-bit program, which cannot use CUDA 12 or later; it is likely another process that uses CUDA"));
  GPUMEM_ASSIGN_OR_RETURN(const int memory, OpenMemory(pid));  // whoever may not do this cannot read the rest
  close(memory);
  GPUMEM_ASSIGN_OR_RETURN(Target target, ReadTarget(pid));
  GPUMEM_RETURN_IF_ERROR(CheckLibrary(pid, library));
  return target;
}

bool IsEnding(pid_t tid) {
  std::this_thread::sleep_for(kBetweenRounds);
  return HasEnded(tid);
}

// What a process lacks that ends at this moment is no reason. Its memory goes first.
absl::Status ReasonOf(pid_t pid, const absl::Status& status) {
  if (status.ok() || absl::IsNotFound(status)) return status;
  char program[8];
  const bool has_memory =
      readlink(absl::StrCat("/proc/", pid, "/exe").c_str(), program, sizeof program) >= 0 || errno != ENOENT;
  return !has_memory || HasEnded(pid) ? absl::NotFoundError(absl::StrCat("process ", pid, " ended meanwhile")) : status;
}

std::vector<pid_t> ThreadsOf(pid_t pid) {
  std::vector<pid_t> threads;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(absl::StrCat("/proc/", pid, "/task"), error))
    threads.push_back(std::atoi(entry.path().filename().c_str()));
  std::sort(threads.begin(), threads.end());  // the main thread first: it has the largest stack
  return threads;
}

// By what the kernel says of it without a stop: a thread that waits where a stop is noticed is left alone, and in the
// first round one of which the call must be made anew.
bool IsCandidate(pid_t pid, pid_t tid, bool is_first_round) {
  const std::string line = FirstLineOf(absl::StrCat("/proc/", pid, "/task/", tid, "/syscall"));
  if (line.empty() || absl::StartsWith(line, "running")) return true;
  const auto system_call = std::atol(line.c_str());
  return SafePoint::MayStopIn(system_call) && !(is_first_round && SafePoint::EndsWithStop(system_call));
}

// A handler of the program's is about to run, and what it interrupted is to end as the program wants it.
bool HasSignal(pid_t tid) {
  const auto mask_of = [tid](absl::string_view name) {
    return std::strtoull(ProcessStatus(tid, name).c_str(), nullptr, 16);
  };
  return ((mask_of("SigPnd") | mask_of("ShdPnd")) & ~mask_of("SigBlk")) != 0;
}

// A wait that ended with EINTR because of us. One of more than a second that has an end is left to the program, as
// after a debugger or Ctrl-Z: made anew it might last for twice as long.
bool WasInterrupted(const user_regs_struct& registers) {
  const auto system_call = static_cast<long>(registers.orig_rax);  // NOLINT(google-runtime-int)
  if (static_cast<int64_t>(registers.rax) != -EINTR || !SafePoint::MayStopIn(system_call)) return false;
  if (system_call == SYS_rt_sigtimedwait) return registers.rdx == 0;
  if (system_call == SYS_epoll_pwait2) return registers.r10 == 0;
  if (system_call == SYS_epoll_wait || system_call == SYS_epoll_pwait) {
    const auto timeout_ms = static_cast<int32_t>(registers.r10);
    return timeout_ms <= kLongestAnewMs;
  }
  return true;
}

// Where the thread is to go on afterwards, and with what in rax: as the kernel would after a stop.
struct Resume {
  uint64_t address, rax;
};
Resume ResumeOf(const user_regs_struct& registers) {
  const auto result = static_cast<int64_t>(registers.rax);
  if (static_cast<int64_t>(registers.orig_rax) < 0) return {registers.rip, registers.rax};
  if (result == kRestartBlock) return {registers.rip - kSyscallBytes, kRestartSyscall};
  if (result == kRestartSys || result == kRestartNoIntr || result == kRestartNoHand || WasInterrupted(registers))
    return {registers.rip - kSyscallBytes, registers.orig_rax};
  return {registers.rip, registers.rax};
}

bool HasRoomOnStack(const ProcessMap& map, uint64_t stack_pointer) {
  return std::any_of(map.writable.begin(), map.writable.end(), [stack_pointer](const AddressRange& range) {
    return range.Holds(stack_pointer) && stack_pointer - range.start > kRoomOnStack;
  });
}

class Injector {
 public:
  Injector(pid_t pid, const Target& target, Payload payload, int memory)
      : pid_(pid),
        target_(target),
        payload_(std::move(payload)),
        memory_(memory),
        safe_point_(target.map, target.c_library) {}

  absl::StatusOr<Injection> Run() {
    const Clock::time_point deadline = Clock::now() + kLongestSearch;
    int rounds = 0;
    do {
      for (const pid_t tid : ThreadsOf(pid_)) {
        if (!IsCandidate(pid_, tid, rounds == 0)) continue;
        const absl::StatusOr<bool> sent = Try(tid);
        if (sent.ok() && *sent) return done_;
        // Of a thread that ends the kernel says that it may not be traced.
        if (absl::IsPermissionDenied(sent.status()) && !IsEnding(tid)) return WhyNotTraced(pid_, sent.status());
        if (HasEnded(pid_)) break;
        if (Clock::now() > deadline) break;
      }
      if (HasEnded(pid_)) return absl::NotFoundError(absl::StrCat("process ", pid_, " ended meanwhile"));
      std::this_thread::sleep_for(std::min(kLongestPause, kBetweenRounds * (1 << std::min(rounds++ / 4, 6))));
    } while (Clock::now() < deadline);
    return absl::DeadlineExceededError(absl::StrCat("no thread of process ", pid_,
                                                    " came to a point where one can be added safely, in ", done_.stops,
                                                    " stops; try again"));
  }

 private:
  // True: the thread was sent on its way.
  absl::StatusOr<bool> Try(pid_t tid) {
    const Clock::time_point start = Clock::now();
    bool sent = false;
    {
      GPUMEM_ASSIGN_OR_RETURN(StoppedThread thread, StoppedThread::Stop(tid));
      ++done_.stops;
      const user_regs_struct& registers = thread.registers();
      const bool is_in_call = static_cast<int64_t>(registers.orig_rax) >= 0;
      if (is_in_call && HasSignal(tid)) return false;
      const Resume resume = ResumeOf(registers);
      if (IsSafe(registers)) {
        payload_.bytes.replace(payload_.resume_slot - payload_.address, sizeof resume.address,
                               reinterpret_cast<const char*>(&resume.address), sizeof resume.address);
        const auto size = static_cast<ssize_t>(payload_.bytes.size());
        if (pwrite(memory_, payload_.bytes.data(), payload_.bytes.size(), static_cast<off_t>(payload_.address)) != size)
          return absl::PermissionDeniedError(absl::StrCat("process ", pid_, " cannot be written to"));
        GPUMEM_RETURN_IF_ERROR(thread.GoOnAt(payload_.entry, resume.rax));
        sent = true;
      } else if (WasInterrupted(registers)) {
        GPUMEM_RETURN_IF_ERROR(thread.GoOnAt(resume.address, resume.rax));
      }
    }
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    done_.stopped_ns = std::max(done_.stopped_ns, static_cast<uint64_t>(ns));
    return sent;
  }

  // The same word at the same place of the stack for a while.
  bool IsLeftOver(uint64_t address, uint64_t word) {
    const Clock::time_point now = Clock::now();
    const auto [seen, is_new] = seen_.try_emplace(address, std::make_pair(word, now));
    if (!is_new && seen->second.first != word) seen->second = {word, now};
    return now - seen->second.second > kLeftOver;
  }

  bool IsSafe(const user_regs_struct& registers) {
    uint64_t words[SafePoint::kStackBytes / sizeof(uint64_t)];
    if (!HasRoomOnStack(target_.map, registers.rsp)) return false;
    const ssize_t size = pread(memory_, words, sizeof words, static_cast<off_t>(registers.rsp));
    if (size <= 0) return false;
    return safe_point_.Allows(registers, absl::MakeConstSpan(words, static_cast<size_t>(size) / sizeof *words),
                              [&](size_t i) { return IsLeftOver(registers.rsp + i * sizeof *words, words[i]); });
  }

  pid_t pid_;
  const Target& target_;
  Payload payload_;
  int memory_;
  SafePoint safe_point_;
  std::map<uint64_t, std::pair<uint64_t, Clock::time_point>> seen_;  // by address: a word, and since when
  Injection done_;
};

}  // namespace

bool HasLibrary(pid_t pid, const std::string& library) {
  const absl::StatusOr<ProcessMap> map = ReadProcessMap(pid);
  return map.ok() && std::any_of(map->objects.begin(), map->objects.end(),
                                 [&](const MappedObject& object) { return object.path == library; });
}

absl::Status CheckTarget(pid_t pid, const std::string& library) {
  return ReasonOf(pid, CheckedTarget(pid, library).status());
}

absl::StatusOr<Injection> Inject(pid_t pid, const std::string& library, const std::string& settings) {
  const absl::StatusOr<Target> checked = CheckedTarget(pid, library);
  if (!checked.ok()) return ReasonOf(pid, checked.status());
  const Target& target = *checked;
  GPUMEM_ASSIGN_OR_RETURN(Payload payload, MakePayload(target.room, target.functions, library, settings));
  GPUMEM_ASSIGN_OR_RETURN(const int memory, OpenMemory(pid));
  const absl::Cleanup close_memory = [memory] { close(memory); };
  return Injector(pid, target, std::move(payload), memory).Run();
}

}  // namespace gpumem
