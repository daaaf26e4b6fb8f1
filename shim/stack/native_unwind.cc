// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/native_unwind.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "shim/base/descriptors.h"
#include "shim/base/loaded_modules.h"
#include "shim/base/loader.h"
#include "shim/base/thread.h"
#include "shim/stack/memory_read.h"
#include "shim/stack/path_cache.h"
#include "shim/stack/unwinder_memory.h"

namespace gpumemshim::stack {
namespace {

// Return addresses by following saved frame pointers: half a nanosecond a frame, and right only as far as all code is
// compiled with them (-fno-omit-frame-pointer). Where it is not, the walk ends early or skips callers; it never reads
// outside the stack that it began on.

struct Mapping {
  uintptr_t start;
  uintptr_t end;
  bool Holds(uintptr_t address) const { return address >= start && address < end; }
};

constinit thread_local Mapping t_stack __attribute__((tls_model("initial-exec"))) = {0, 0};

// Reads "7f..-7f.. rw-p ..." lines a character at a time: only the two addresses of each count.
class MapsParser {
 public:
  // True once the mapping that holds `address` was read.
  bool Feed(char c, uintptr_t address, Mapping* out) {
    if (c == '\n') {
      part_ = Part::kStart;
      mapping_ = {0, 0};
    } else if (part_ == Part::kStart && c == '-') {
      part_ = Part::kEnd;
    } else if (part_ == Part::kEnd && c == ' ') {
      part_ = Part::kRest;
      *out = mapping_;
      return mapping_.Holds(address);
    } else if (part_ != Part::kRest) {
      uintptr_t& number = part_ == Part::kStart ? mapping_.start : mapping_.end;
      number = number << 4 | static_cast<uintptr_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return false;
  }

 private:
  enum class Part { kStart, kEnd, kRest };
  Part part_ = Part::kStart;
  Mapping mapping_{0, 0};
};

Mapping FindMapping(uintptr_t address) {
  const int file = descriptors::Raise(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (file < 0) return {0, 0};
  MapsParser parser;
  Mapping found{0, 0};
  bool done = false;
  char buffer[1024];
  for (ssize_t size = read(file, buffer, sizeof buffer); size > 0 && !done; size = read(file, buffer, sizeof buffer)) {
    for (ssize_t i = 0; i < size && !done; ++i) done = parser.Feed(buffer[i], address, &found);
  }
  close(file);
  return done ? found : Mapping{0, 0};
}

// The stack that holds `address`; a coroutine's or a signal's own stack may have come in between.
const Mapping& CurrentStack(uintptr_t address) {
  if (!t_stack.Holds(address)) {
    const int saved_errno = errno;
    t_stack = FindMapping(address);
    errno = saved_errno;
  }
  return t_stack;
}

// At most `capacity` addresses, innermost first, beginning with the return address of the frame at `frame`.
uint32_t WalkFramePointers(const void* frame, void** out, uint32_t capacity) {
  auto at = reinterpret_cast<uintptr_t>(frame);
  const Mapping& stack = CurrentStack(at);
  uint32_t count = 0;
  while (count < capacity && at % sizeof(void*) == 0 && stack.Holds(at) && stack.end - at >= 2 * sizeof(void*)) {
    void* const caller = Load<void*>(reinterpret_cast<const void*>(at), sizeof(void*));
    if (caller == nullptr) break;
    out[count++] = caller;
    const auto next = Load<uintptr_t>(reinterpret_cast<const void*>(at), 0);
    if (next <= at) break;  // a chain leads outwards
    at = next;
  }
  return count;
}

// Signatures of the libraries' public C interfaces, declared here since we link with neither.
using Backtrace = int (*)(void** addresses, int capacity);
using SetCachingPolicy = int (*)(void* address_space, int policy);
constexpr int kCachePerThread = 2;

struct Context;
using Trace = int (*)(Context*, void*);
using UnwindBacktrace = int (*)(Trace, void*);
using GetIp = uintptr_t (*)(Context*);
constexpr int kGoOn = 0;
constexpr int kStop = 5;

std::atomic<Backtrace> g_backtrace;
std::atomic<UnwindBacktrace> g_unwind_backtrace;
std::atomic<GetIp> g_get_ip;
std::atomic<Unwinder> g_unwinder{Unwinder::kNone};

#if defined(__x86_64__)
#define GPUMEM_UNWIND_SYMBOL(name) "_ULx86_64_" name
#elif defined(__aarch64__)
#define GPUMEM_UNWIND_SYMBOL(name) "_ULaarch64_" name
#endif

bool LoadLibunwind();

// A package has the library beside us, since many machines have none; without that the machine's own is taken.
void* OpenLibunwind() {
  constexpr char kName[] = "libunwind.so.8";
  Dl_info own;
  char path[PATH_MAX];
  if (dladdr(reinterpret_cast<const void*>(&LoadLibunwind), &own) != 0 && own.dli_fname != nullptr) {
    const char* slash = std::strrchr(own.dli_fname, '/');
    const size_t folder = slash == nullptr ? 0 : static_cast<size_t>(slash + 1 - own.dli_fname);
    if (folder != 0 && folder + sizeof kName <= sizeof path) {
      std::memcpy(path, own.dli_fname, folder);
      std::memcpy(path + folder, kName, sizeof kName);
      void* library = access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
      if (library != nullptr) return library;
    }
  }
  return dlopen(kName, RTLD_NOW | RTLD_LOCAL);
}

bool LoadLibunwind() {
  const loader::Use use;
  void* library = OpenLibunwind();
  if (library == nullptr) {
    dlerror();
    return false;
  }
  const auto backtrace = reinterpret_cast<Backtrace>(dlsym(library, "unw_backtrace"));
  if (backtrace == nullptr || !TakeOverMemory(library)) {
    dlerror();
    return false;
  }
  // Otherwise a miss takes one global lock with all signals blocked.
  auto* set_policy = reinterpret_cast<SetCachingPolicy>(dlsym(library, GPUMEM_UNWIND_SYMBOL("set_caching_policy")));
  auto** address_space = static_cast<void**>(dlsym(library, GPUMEM_UNWIND_SYMBOL("local_addr_space")));
  if (set_policy != nullptr && address_space != nullptr) set_policy(*address_space, kCachePerThread);
  LoadStepper(library);
  g_backtrace.store(backtrace, std::memory_order_release);
  return true;
}

bool LoadLibgcc() {
  const loader::Use use;
  void* library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD);
  // Bound at once, as a program's own C++ library has it bound.
  if (library == nullptr) library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    dlerror();
    return false;
  }
  const auto walk = reinterpret_cast<UnwindBacktrace>(dlsym(library, "_Unwind_Backtrace"));
  const auto get_ip = reinterpret_cast<GetIp>(dlsym(library, "_Unwind_GetIP"));
  if (walk == nullptr || get_ip == nullptr) return false;
  g_get_ip.store(get_ip, std::memory_order_release);
  g_unwind_backtrace.store(walk, std::memory_order_release);
  return true;
}

struct Collected {
  void** out;
  uint32_t capacity;
  uint32_t count;
};

int Collect(Context* context, void* data) {
  auto* collected = static_cast<Collected*>(data);
  if (collected->count >= collected->capacity) return kStop;
  collected->out[collected->count++] = reinterpret_cast<void*>(g_get_ip.load(std::memory_order_relaxed)(context));
  return kGoOn;
}

uint32_t UnwindLibunwind(void** out, uint32_t capacity) {
  const NoCancellation no_cancellation;  // it may open and read files, under locks of its own
  const PagesOnce once;
  const int count = g_backtrace.load(std::memory_order_relaxed)(out, static_cast<int>(capacity));
  return count < 0 ? 0 : static_cast<uint32_t>(count);
}

uint32_t UnwindLibgcc(void** out, uint32_t capacity) {
  const UnwindBacktrace walk = g_unwind_backtrace.load(std::memory_order_relaxed);
  Collected collected{out, capacity, 0};
  if (walk != nullptr) walk(&Collect, &collected);
  // It tells of the end as of a frame at address 0.
  if (collected.count > 0 && out[collected.count - 1] == nullptr) --collected.count;
  return collected.count;
}

// A return address has a call in front of it. Of the x86-64 encodings the common ones; others are taken for wrong.
bool FollowsCall(const void* pc) {
#if defined(__x86_64__)
  uint8_t bytes[7];
  if (!TryReadBytes(static_cast<const uint8_t*>(pc) - sizeof bytes, bytes, sizeof bytes)) return false;
  if (bytes[2] == 0xE8) return true;                  // call rel32
  for (const uint32_t size : {2u, 3u, 4u, 6u, 7u}) {  // call r/m64: FF /2
    if (bytes[7 - size] == 0xFF && (bytes[8 - size] & 0x38) == 0x10) return true;
  }
  return false;
#else
  return pc != nullptr;
#endif
}

uint32_t FirstIrregular(void* const* pcs, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (modules::IsIrregular(reinterpret_cast<uint64_t>(pcs[i]))) return i;
  }
  return count;
}

// Generated code without unwind tables, at which libgcc ended: what libunwind made of its frame pointer, as far as it
// looks right. guessed[0 .. count) are libunwind's frames. Returns how many there are then.
uint32_t GoOnGuessing(void** out, uint32_t known, uint32_t capacity, void* const* guessed, uint32_t count) {
  uint32_t at = 0;
  while (at < count && guessed[at] != out[known - 1]) ++at;
  for (++at; at < count && known < capacity; ++at) {
    const auto pc = reinterpret_cast<uint64_t>(guessed[at]);
    const bool stale = modules::IsIrregular(pc) && !modules::IsForeign(pc);
    if (stale || !FollowsCall(guessed[at])) break;
    out[known++] = guessed[at];
  }
  return known;
}

// libunwind's answer holds code of which it may remember something wrong.
[[gnu::noinline]] Unwound UnwindIrregular(void** out, uint32_t capacity, uint32_t guesses, uint32_t first) {
  void* guessed[kMaxUnwind];
  for (uint32_t i = 0; i < guesses; ++i) guessed[i] = out[i];
  uint32_t known = UnwindLibgcc(out, capacity);
  if (known == 0) return {first + 1, true, true};  // as far as libunwind was still right
  if (known == capacity || !modules::IsForeign(reinterpret_cast<uint64_t>(out[known - 1]))) return {known, false, true};
  known = GoOnGuessing(out, known, capacity, guessed, guesses);
  return {known, known < guesses, true};
}

}  // namespace

Unwinder LoadUnwinder(Unwinder wanted) {
  Unwinder got = wanted == Unwinder::kFramePointers ? wanted : Unwinder::kNone;
  if (wanted == Unwinder::kLibunwind || wanted == Unwinder::kLibgcc) {
    if (LoadLibgcc()) got = Unwinder::kLibgcc;
    if (wanted == Unwinder::kLibunwind && LoadLibunwind()) got = Unwinder::kLibunwind;
  }
  g_unwinder.store(got, std::memory_order_release);
  return got;
}

Unwinder CurrentUnwinder() { return g_unwinder.load(std::memory_order_acquire); }

const char* UnwinderName(Unwinder unwinder) {
  switch (unwinder) {
    case Unwinder::kLibunwind:
      return "libunwind";
    case Unwinder::kLibgcc:
      return "libgcc";
    case Unwinder::kFramePointers:
      return "fp";
    case Unwinder::kNone:
      break;
  }
  return "none";
}

Unwound UnwindNative(void** out, uint32_t capacity) {
  const loader::Use use;  // they look for tables of what they meet for the first time
  switch (g_unwinder.load(std::memory_order_acquire)) {
    case Unwinder::kLibunwind: {
      const uint32_t count = UnwindLibunwind(out, capacity);
      if (!modules::HasIrregular()) [[likely]]
        return {count, false, false};
      const uint32_t first = FirstIrregular(out, count);
      if (first == count) return {count, false, false};
      return UnwindIrregular(out, capacity, count, first);
    }
    case Unwinder::kLibgcc:
      return {UnwindLibgcc(out, capacity), false, false};
    case Unwinder::kFramePointers:
      return {WalkFramePointers(__builtin_frame_address(0), out, capacity), false, false};
    case Unwinder::kNone:
      break;
  }
  return {0, false, false};
}

}  // namespace gpumemshim::stack
