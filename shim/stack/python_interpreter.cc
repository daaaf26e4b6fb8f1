// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/python_interpreter.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "shim/base/descriptors.h"
#include "shim/base/kernel.h"
#include "shim/base/loader.h"
#include "shim/base/symbol_lookup.h"
#include "shim/stack/dropped_code.h"
#include "shim/stack/memory_read.h"
#include "shim/stack/python_layout.h"
#include "shim/stack/python_walk.h"

namespace gpumemshim::stack {
namespace {

// Where the code of CPython's evaluation loop lies: the range of the exported `function` from the dynamic symbol table,
// and the cold part that the compiler may have split off, from the file's full symbol table where it was not stripped.

constexpr const char* kColdPart = "_PyEval_EvalFrameDefault.cold";

// A file mapped for reading; every access is checked against its size.
class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const int file = descriptors::Raise(open(path, O_RDONLY | O_CLOEXEC));
    struct stat status;
    if (file >= 0 && kernel::Fstat(file, &status) == 0 && status.st_size > 0) {
      void* memory = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (memory != MAP_FAILED) {
        data_ = static_cast<const char*>(memory);
        size_ = static_cast<uint64_t>(status.st_size);
      }
    }
    if (file >= 0) close(file);
  }
  ~MappedFile() {
    if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  template <typename T>
  const T* At(uint64_t offset, uint64_t count = 1) const {
    const bool fits = offset <= size_ && count <= (size_ - offset) / sizeof(T);
    return fits ? reinterpret_cast<const T*>(data_ + offset) : nullptr;
  }

 private:
  const char* data_ = nullptr;
  uint64_t size_ = 0;
};

bool NameStartsWith(const MappedFile& file, const ElfW(Shdr) & strings, uint32_t offset, const char* prefix) {
  const size_t length = std::strlen(prefix);
  const char* name = offset < strings.sh_size ? file.At<char>(strings.sh_offset + offset, length) : nullptr;
  return name != nullptr && std::strncmp(name, prefix, length) == 0;
}

CodeRange FindInSymbolTable(const MappedFile& file, const ElfW(Shdr) & table, const ElfW(Shdr) & strings,
                            uintptr_t base) {
  const uint64_t count = table.sh_size / sizeof(ElfW(Sym));
  const auto* symbols = file.At<ElfW(Sym)>(table.sh_offset, count);
  for (uint64_t i = 0; symbols != nullptr && i < count; ++i) {
    if (symbols[i].st_value == 0 || !NameStartsWith(file, strings, symbols[i].st_name, kColdPart)) continue;
    return {base + symbols[i].st_value, base + symbols[i].st_value + symbols[i].st_size};
  }
  return {0, 0};
}

CodeRange FindColdPart(const char* path, uintptr_t base) {
  const MappedFile file(path);
  const auto* header = file.At<ElfW(Ehdr)>(0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return {0, 0};
  const auto* sections = file.At<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
  for (int i = 0; sections != nullptr && i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum) continue;
    return FindInSymbolTable(file, sections[i], sections[sections[i].sh_link], base);
  }
  return {0, 0};
}

void FindEvaluationRange(const void* function, CodeRange* main_part, CodeRange* cold_part) {
  *main_part = *cold_part = {0, 0};
  if (function == nullptr) return;
  Dl_info info;
  const ElfW(Sym)* symbol = nullptr;
  if (dladdr1 == nullptr ||
      dladdr1(function, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr) {
    return;
  }
  const auto start = reinterpret_cast<uintptr_t>(function);
  *main_part = {start, start + symbol->st_size};
  // The load bias: for a position-dependent executable its addresses are absolute already.
  *cold_part = FindColdPart(info.dli_fname, start - symbol->st_value);
}

enum class State : uint32_t { kAbsent, kFound, kVerified, kRefused };

constinit Interpreter g_interpreter{};
std::atomic<State> g_state{State::kAbsent};
std::atomic_flag g_busy;
std::atomic<uint32_t> g_misses;
std::atomic<const char*> g_refusal{""};

// Of the object that the interpreter lies in; "" is the program itself, which comes first.
char g_file[256];

void* Find(const char* name) { return FindInLoaded(g_file, name); }

// A program may hold more than one library of Python: all that we use comes from the first.
bool FindFile() {
  char path[4096];
  if (FindInLoaded("", "PyGILState_GetThisThreadState", path, sizeof path) == nullptr) return false;
  const char* slash = std::strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  if (std::strlen(name) >= sizeof g_file) return false;
  std::strcpy(g_file, name);
  return true;
}

void Refuse(const char* why) {
  g_refusal.store(why, std::memory_order_relaxed);
  g_state.store(State::kRefused, std::memory_order_release);
}

const char* DescribeUnreadable(const char* version) {
  if (std::strstr(version, "free-threading") != nullptr) return "free-threaded build of Python";
  if (std::strstr(version, "PyPy") != nullptr) return "not CPython";
  return "this version of Python is not known";
}

// "" or why this build cannot be read.
const char* ReadLayout(const char* version, PythonLayout* layout) {
  const PythonLayout* known = FindPythonLayout(ReadableMinor(version));
  if (known == nullptr) return DescribeUnreadable(version);
  if (Find("_Py_PrintReferences") != nullptr) return "Python built with Py_TRACE_REFS";
  *layout = *known;
  return layout->minor < kFirstWithDebugOffsets ? "" : ReadDebugOffsets(Find("_PyRuntime"), layout);
}

void LookUp() {
  if (!FindFile()) return;
  auto* version = reinterpret_cast<const char* (*)()>(Find("Py_GetVersion"));
  if (version == nullptr) return;
  const char* refusal = ReadLayout(version(), &g_interpreter.layout);
  if (refusal[0] != '\0') return Refuse(refusal);

  g_interpreter.this_thread_state = reinterpret_cast<void* (*)()>(Find("PyGILState_GetThisThreadState"));
  void* finalizing = Find("Py_IsFinalizing");
  if (finalizing == nullptr) finalizing = Find("_Py_IsFinalizing");
  g_interpreter.is_finalizing = reinterpret_cast<int (*)()>(finalizing);
  g_interpreter.hash_frames = FrameHashes(g_interpreter.layout);
  g_interpreter.code_type = Find("PyCode_Type");
  g_interpreter.string_type = Find("PyUnicode_Type");
  g_interpreter.bytes_type = Find("PyBytes_Type");
  FindEvaluationRange(Find("_PyEval_EvalFrameDefault"), &g_interpreter.evaluation, &g_interpreter.evaluation_cold);
  g_state.store(State::kFound, std::memory_order_release);
}

bool HasType(const void* object, const void* type) {
  const void* found = nullptr;
  return TryRead(object, kObjectType, &found) && found == type;
}

bool IsCode(const Interpreter& python, const void* code) {
  const void* filename = nullptr;
  const void* name = nullptr;
  const void* line_table = nullptr;
  return HasType(code, python.code_type) && TryRead(code, python.layout.code_filename, &filename) &&
         TryRead(code, python.layout.code_qualname, &name) &&
         TryRead(code, python.layout.code_line_table, &line_table) && HasType(filename, python.string_type) &&
         HasType(name, python.string_type) && HasType(line_table, python.bytes_type);
}

// Within the bytecode, or just before it.
bool IsPosition(const PythonLayout& layout, const void* frame, const void* code) {
  const void* sized = code;
  int64_t at = 0;
  int64_t units = 0;
  if (layout.position == Position::kPointer) {
    if (!TryRead(frame, layout.frame_position, &at)) return false;
    at -= static_cast<int64_t>(reinterpret_cast<uintptr_t>(code) + layout.code_bytecode);
  } else {
    int32_t index = 0;
    if (!TryRead(frame, layout.frame_position, &index) || !TryRead(code, layout.code_instructions, &sized))
      return false;
    at = layout.position == Position::kUnitIndex ? int64_t{index} * kCodeUnit : index;
  }
  if (!TryRead(sized, kObjectSize, &units)) return false;
  const int64_t size = layout.position == Position::kPointer ? units * kCodeUnit : units;
  return at >= -int64_t{kCodeUnit} && at <= size;
}

bool IsOwnThread(const Interpreter& python, const void* thread) {
  const uint16_t offset = python.layout.thread_id;
  uint64_t id = 0;
  if (!TryRead(thread, offset, &id)) return false;
  if (!python.layout.thread_id_is_kernel) return id == static_cast<uint64_t>(pthread_self());
  if (id == static_cast<uint64_t>(syscall(SYS_gettid))) return true;
  // After a fork the kernel's id is the parent's; the pthread_t in front of it stays right.
  return TryRead(thread, offset - sizeof id, &id) && id == static_cast<uint64_t>(pthread_self());
}

enum class Verdict { kRight, kWrong, kUndecided };

// Walks the whole stack of this thread with checked reads. Undecided while it holds no Python frame.
Verdict Walk(const Interpreter& python, const void* thread) {
  const PythonLayout& layout = python.layout;
  if (!IsOwnThread(python, thread)) return Verdict::kWrong;
  const void* frame = nullptr;
  if (!TryRead(thread, layout.thread_frame, &frame)) return Verdict::kWrong;
  if (layout.has_cframe && (frame == nullptr || !TryRead(frame, layout.cframe_frame, &frame))) return Verdict::kWrong;
  bool seen = false;
  for (int depth = 0; frame != nullptr && depth < 1000; ++depth) {
    const void* code = nullptr;
    uint8_t owner = 0;
    if (layout.frame_owner != 0 && !TryRead(frame, layout.frame_owner, &owner)) return Verdict::kWrong;
    if (!TryRead(frame, layout.frame_code, &code)) return Verdict::kWrong;
    if (owner < kFirstForeignOwner) {
      code = reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(code) & ~uintptr_t{layout.code_tag});
      if (!IsCode(python, code) || !IsPosition(layout, frame, code)) return Verdict::kWrong;
      seen = true;
    }
    if (!TryRead(frame, layout.frame_previous, &frame)) return Verdict::kWrong;
  }
  return seen ? Verdict::kRight : Verdict::kUndecided;
}

void Verify() {
  void* thread = g_interpreter.this_thread_state();
  if (thread == nullptr) return;
  switch (Walk(g_interpreter, thread)) {
    case Verdict::kRight:
      WatchDroppedCode(g_interpreter.code_type);
      g_state.store(State::kVerified, std::memory_order_release);
      return;
    case Verdict::kWrong:
      return Refuse("the interpreter's frames do not look as expected");
    case Verdict::kUndecided:
      return;
  }
}

// Looking costs microseconds: at the 1st, 2nd, 4th, 8th ... event, and then at every 4096th.
bool IsTimeToLook() {
  const uint32_t misses = g_misses.fetch_add(1, std::memory_order_relaxed) + 1;
  return (misses & (misses - 1)) == 0 || misses % 4096 == 0;
}

const Interpreter* Search(State state) {
  if (state == State::kAbsent && !IsTimeToLook()) return nullptr;
  if (g_busy.test_and_set(std::memory_order_acquire))
    return nullptr;  // another thread is at it: this event goes without
  const int saved_errno = errno;
  if (g_state.load(std::memory_order_acquire) == State::kAbsent) LookUp();
  if (g_state.load(std::memory_order_acquire) == State::kFound) Verify();
  errno = saved_errno;
  g_busy.clear(std::memory_order_release);
  return g_state.load(std::memory_order_acquire) == State::kVerified ? &g_interpreter : nullptr;
}

}  // namespace

const Interpreter* FindInterpreter() {
  const State state = g_state.load(std::memory_order_acquire);
  if (state == State::kVerified) return &g_interpreter;
  if (state == State::kRefused) return nullptr;
  return Search(state);
}

bool KnowsInterpreter() {
  if (FindInterpreter() != nullptr) return true;
  return g_state.load(std::memory_order_acquire) == State::kFound;
}

void* FindInInterpreter(const char* name) { return KnowsInterpreter() ? Find(name) : nullptr; }

const char* Refusal() { return g_refusal.load(std::memory_order_relaxed); }

const char* InterpreterVersion() {
  auto* version = reinterpret_cast<const char* (*)()>(FindInLoaded("", "Py_GetVersion"));
  return version == nullptr ? "" : version();
}

int ReadableMinor(const char* version) {
  if (version == nullptr || std::strncmp(version, "3.", 2) != 0) return 0;
  if (std::strstr(version, "free-threading") != nullptr || std::strstr(version, "PyPy") != nullptr) return 0;
  int minor = 0;
  const char* digit = version + 2;
  for (; *digit >= '0' && *digit <= '9' && minor < 100; ++digit) minor = minor * 10 + (*digit - '0');
  if (*digit++ != '.') return 0;
  while (*digit >= '0' && *digit <= '9') ++digit;
  return *digit == 'a' || *digit == 'b' ? 0 : minor;  // before a candidate the layout still changes
}

void EndSearchInChild() { g_busy.clear(std::memory_order_release); }

}  // namespace gpumemshim::stack
