// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/safe_point.h"

#include <sys/syscall.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace gpumem {
namespace {

// Of the C library's allocator. Its other functions lie between these.
const std::set<absl::string_view>& Allocator() {
  static const auto* const kNames =
      new std::set<absl::string_view>{"malloc",          "free",          "calloc",         "realloc",
                                      "memalign",        "aligned_alloc", "valloc",         "pvalloc",
                                      "posix_memalign",  "mallinfo",      "mallinfo2",      "malloc_stats",
                                      "malloc_trim",     "mallopt",       "malloc_info",    "malloc_usable_size",
                                      "__libc_malloc",   "__libc_free",   "__libc_calloc",  "__libc_realloc",
                                      "__libc_memalign", "__libc_valloc", "__libc_pvalloc", "__libc_mallopt",
                                      "__libc_freeres",  "cfree"};
  return *kNames;
}

bool IsOfThreadsOrLoader(absl::string_view name) {
  static const auto* const kNames = new std::set<absl::string_view>{"pthread_create",
                                                                    "pthread_detach",
                                                                    "pthread_exit",
                                                                    "pthread_getattr_np",
                                                                    "pthread_key_create",
                                                                    "pthread_key_delete",
                                                                    "fork",
                                                                    "vfork",
                                                                    "_Fork",
                                                                    "__libc_fork",
                                                                    "exit",
                                                                    "_exit",
                                                                    "quick_exit",
                                                                    "dlopen",
                                                                    "dlmopen",
                                                                    "dlclose",
                                                                    "dlsym",
                                                                    "dlvsym",
                                                                    "dlerror",
                                                                    "dladdr",
                                                                    "dladdr1",
                                                                    "dlinfo",
                                                                    "dl_iterate_phdr",
                                                                    "__cxa_thread_atexit_impl",
                                                                    "__cxa_finalize",
                                                                    "brk",
                                                                    "sbrk"};
  return kNames->count(name) != 0 || absl::StartsWith(name, "_dl_") || absl::StartsWith(name, "__libc_dl");
}

// Another library that hands out memory.
bool IsAllocator(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return absl::StrContains(name, "jemalloc") || absl::StrContains(name, "tcmalloc") ||
         absl::StrContains(name, "mimalloc") || absl::StartsWith(name, "libasan") || absl::StartsWith(name, "libtsan");
}

bool IsLoader(const std::string& path) {
  return absl::StartsWith(std::filesystem::path(path).filename().string(), "ld-");
}

bool Holds(const std::vector<AddressRange>& ranges, uint64_t address) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [address](const AddressRange& range) { return range.Holds(address); });
}

// Words of the stack in which a caller shows. In a system call that is the allocator or the loader, which wait for a
// lock a few hundred bytes deep at most. The program's own code is called by them as a constructor, which is no harm,
// or while they bind functions, and then directly. Deeper ones are often left from calls that are over, and would stay
// so for as long as the thread stays where it is.
constexpr size_t kInCall = 512 / sizeof(uint64_t), kInCode = 128 / sizeof(uint64_t);

}  // namespace

SafePoint::SafePoint(const ProcessMap& map, absl::Span<const CLibraryPart> c_library) {
  for (const MappedObject& object : map.objects) {
    if (IsLoader(object.path)) forbidden_.insert(forbidden_.end(), object.code.begin(), object.code.end());
    if (IsAllocator(object.path)) allocators_.insert(allocators_.end(), object.code.begin(), object.code.end());
  }
  for (const CLibraryPart& part : c_library) {
    c_library_.push_back(part.code);
    ForbidFunctionsOf(part);
  }
}

// Functions that are not exported lie beside the one that is of the same source file: all from the end of the one
// before to the begin of the one behind.
void SafePoint::ForbidFunctionsOf(const CLibraryPart& part) {
  uint64_t before = part.code.start;
  const std::vector<Function>& functions = part.functions.functions;
  for (size_t i = 0; i < functions.size(); ++i) {
    if (Allocator().count(functions[i].name) != 0 || IsOfThreadsOrLoader(functions[i].name)) {
      const uint64_t next = i + 1 < functions.size() ? functions[i + 1].start : part.code.end;
      forbidden_.push_back({before, std::max(next, functions[i].end)});
    }
    before = std::max(before, functions[i].end);
  }
}

bool SafePoint::IsForbidden(uint64_t address) const {
  return Holds(forbidden_, address) || Holds(allocators_, address);
}

bool SafePoint::MayStopIn(long system_call) {  // NOLINT(google-runtime-int): the kernel's type
  switch (system_call) {
    case SYS_futex:
    case SYS_sched_yield:  // as CUDA does while it waits for a GPU
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_read:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_pause:
    case SYS_rt_sigsuspend:
      return true;
    default:
      return EndsWithStop(system_call);
  }
}

bool SafePoint::EndsWithStop(long system_call) {  // NOLINT(google-runtime-int): the kernel's type
  switch (system_call) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_rt_sigtimedwait:
      return true;
    default:
      return false;
  }
}

bool SafePoint::Allows(const user_regs_struct& registers, absl::Span<const uint64_t> stack,
                       absl::FunctionRef<bool(size_t)> is_left_over) const {
  const auto system_call = static_cast<long>(registers.orig_rax);  // NOLINT(google-runtime-int)
  const bool is_in_call = system_call >= 0;
  if (is_in_call ? !MayStopIn(system_call) : Holds(c_library_, registers.rip)) return false;
  if (IsForbidden(registers.rip) || stack.empty()) return false;
  bool allows = true;
  // All of them are asked for, since the caller learns what stays where it is.
  for (size_t i = 0; i < std::min(stack.size(), is_in_call ? kInCall : kInCode); ++i) {
    if (Holds(allocators_, stack[i])) allows = false;
    if (Holds(forbidden_, stack[i]) && !is_left_over(i)) allows = false;
  }
  return allows;
}

}  // namespace gpumem
