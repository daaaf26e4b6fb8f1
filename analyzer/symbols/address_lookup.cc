// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/address_lookup.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file_output.h"
#include "symbols/debug_info.h"
#include "symbols/elf_identity.h"
#include "symbols/names.h"

namespace gpumem {
namespace {

constexpr rlim_t kMaxSeconds = 120;
constexpr uint64_t kMaxAnswerBytes = 1 << 30;

// What goes through the pipe.
struct Frame {
  enum Kind : uint64_t { kProgress = 1, kAnswer = 2 };
  uint64_t kind, first, second;  // done and all; or the size of the answer, which follows
};

absl::string_view BytesOf(const Frame& frame) { return {reinterpret_cast<const char*>(&frame), sizeof(frame)}; }

// Private memory that this process has mapped: sanitizers reserve terabytes.
uint64_t DataBytes() {
  uint64_t kib = 0;
  if (FILE* const file = fopen("/proc/self/status", "re")) {
    char line[256];
    while (fgets(line, sizeof(line), file) != nullptr) {
      unsigned long long value = 0;
      if (sscanf(line, "VmData: %llu", &value) == 1) kib = value;
    }
    fclose(file);
  }
  return kib * 1024;
}

void Limit(__rlimit_resource resource, rlim_t most) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, std::min(limit.rlim_cur, most));
  setrlimit(resource, &limit);
}

[[noreturn]] void Work(int pipe, pid_t parent, const std::function<std::string(const ReportProgress&)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  // Crashes are expected here: no handler, no core file.
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU}) signal(signal_number, SIG_DFL);
  const uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_CPU, kMaxSeconds);
  Limit(RLIMIT_DATA, DataBytes() + memory / 2);
  try {
    const std::string answer = work([pipe](uint64_t done, uint64_t all) {
      const Frame frame{Frame::kProgress, done, all};
      if (!WriteAll(pipe, BytesOf(frame))) _exit(1);
    });
    const Frame frame{Frame::kAnswer, answer.size(), 0};
    _exit(WriteAll(pipe, BytesOf(frame)) && WriteAll(pipe, answer) ? 0 : 1);
  } catch (const std::exception&) {
    _exit(2);  // memory, as a rule
  }
}

absl::Status Died(int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
    return absl::AbortedError(absl::StrCat("the reader took more than ", kMaxSeconds, " s"));
  }
  if (WIFSIGNALED(status))
    return absl::AbortedError(absl::StrCat("the reader crashed (signal ", WTERMSIG(status), ")"));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return absl::AbortedError("the reader ran out of memory");
  return absl::AbortedError("the reader ended without an answer");
}

// True once the whole answer is there.
bool ReadAnswer(int pipe, const ReportProgress& progress, std::string* answer) {
  for (Frame frame{}; ReadExactly(pipe, &frame, sizeof(frame));) {
    if (frame.kind == Frame::kProgress) {
      progress(frame.first, frame.second);
    } else if (frame.kind == Frame::kAnswer && frame.first <= kMaxAnswerBytes) {
      answer->resize(frame.first);
      return ReadExactly(pipe, answer->data(), answer->size());
    } else {
      return false;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<std::string> RunIsolated(const std::function<std::string(const ReportProgress& report)>& work,
                                        const ReportProgress& progress) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::UnavailableError(absl::StrCat("no pipe: ", std::strerror(errno)));
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    Work(ends[1], parent, work);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return absl::UnavailableError(absl::StrCat("no process for the reader: ", std::strerror(errno)));
  }
  std::string answer;
  const bool whole = ReadAnswer(ends[0], progress, &answer);
  close(ends[0]);
  if (!whole) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (whole) return answer;
  return Died(status);
}

namespace {

// An ELF file that is open for reading. Closes itself.
class OpenElf {
 public:
  OpenElf() = default;
  OpenElf(const OpenElf&) = delete;
  OpenElf& operator=(const OpenElf&) = delete;
  ~OpenElf() {
    if (elf_ != nullptr) elf_end(elf_);
    if (descriptor_ >= 0) close(descriptor_);
  }

  // False where the file is another one than it was when it was chosen.
  bool Open(const std::string& path, const std::string& build_id) {
    if (path.empty()) return false;
    descriptor_ = OpenRegularFile(path);
    const auto identity = descriptor_ < 0 ? std::nullopt : ReadElfIdentity(descriptor_);
    if (!identity || (!build_id.empty() && identity->build_id != build_id)) return false;
    has_debug_info_ = identity->has_debug_info;
    elf_version(EV_CURRENT);
    elf_ = elf_begin(descriptor_, ELF_C_READ_MMAP, nullptr);
    return elf_ != nullptr && elf_kind(elf_) == ELF_K_ELF;
  }

  // The small symbol table that distributions pack into a section of stripped files.
  bool OpenPacked(const OpenElf& around) {
    Elf_Data* const packed = around.elf_ == nullptr ? nullptr : around.Section(".gnu_debugdata");
    if (packed == nullptr || packed->d_size == 0) return false;
    descriptor_ = memfd_create("gnu_debugdata", MFD_CLOEXEC);
    if (descriptor_ < 0) return false;
    const ssize_t written = write(descriptor_, packed->d_buf, packed->d_size);
    if (written != static_cast<ssize_t>(packed->d_size) || lseek(descriptor_, 0, SEEK_SET) != 0) return false;
    elf_ = dwelf_elf_begin(descriptor_);  // unpacks
    return elf_ != nullptr && elf_kind(elf_) == ELF_K_ELF;
  }

  Elf* elf() const { return elf_; }
  bool has_debug_info() const { return has_debug_info_; }

 private:
  Elf_Data* Section(const char* name) const {
    size_t names = 0;
    if (elf_getshdrstrndx(elf_, &names) != 0) return nullptr;
    for (Elf_Scn* section = elf_nextscn(elf_, nullptr); section != nullptr; section = elf_nextscn(elf_, section)) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
      const char* const found = elf_strptr(elf_, names, header.sh_name);
      if (found != nullptr && std::strcmp(found, name) == 0) return elf_rawdata(section, nullptr);
    }
    return nullptr;
  }

  int descriptor_ = -1;
  Elf* elf_ = nullptr;
  bool has_debug_info_ = false;
};

struct DwarfDeleter {
  void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
};

std::vector<std::vector<NativeFunction>> FromDwarf(const OpenElf& file, const std::vector<uint64_t>& calls,
                                                   const LookupProgress& progress) {
  const std::unique_ptr<Dwarf, DwarfDeleter> dwarf(dwarf_begin_elf(file.elf(), DWARF_C_READ, nullptr));
  if (dwarf == nullptr) return {};
  return DwarfLookup(dwarf.get()).Find(calls, [&](size_t done) { progress(done, calls.size()); });
}

}  // namespace

ModuleSymbols LookUpAddresses(const LookupRequest& request, const LookupProgress& progress) {
  OpenElf binary, debug, packed;
  const bool has_binary = binary.Open(request.binary, request.build_id);
  const bool has_debug = debug.Open(request.debug, request.build_id);
  // A return address may lie behind its function, after a call that never returns; the call itself never does.
  std::vector<uint64_t> calls = request.addresses;
  for (uint64_t& call : calls) --call;

  SymbolNames names(calls);
  if (has_binary) names.Scan(binary.elf());
  if (has_debug) names.Scan(debug.elf());
  if (has_binary && !names.all_named() && packed.OpenPacked(binary)) names.Scan(packed.elf());
  if (has_binary) names.ScanPlt(binary.elf());

  std::vector<std::vector<NativeFunction>> found;
  if (request.dwarf && has_binary && binary.has_debug_info()) {
    found = FromDwarf(binary, calls, progress);
  } else if (request.dwarf && has_debug && debug.has_debug_info()) {
    found = FromDwarf(debug, calls, progress);
  }
  found.resize(calls.size());

  ModuleSymbols symbols;
  for (size_t i = 0; i < calls.size(); ++i) {
    std::vector<NativeFunction>& functions = found[i];
    const std::string name = names.NameOf(i);
    if (functions.empty() && !name.empty()) functions.push_back({name, "", 0});
    // A linkage name says more than a plain one, and the symbol table's plain one no more than DWARF's.
    if (!functions.empty() && names.IsSure(i)) {
      std::string& own = functions.back().function;
      if (own.empty() || (!absl::StartsWith(own, "_Z") && absl::StartsWith(name, "_Z"))) own = name;
    }
    for (NativeFunction& function : functions) function.function = Demangle(function.function);
    symbols.Add(request.addresses[i], functions);
  }
  return symbols;
}

LookupAnswer LookUpIsolated(const LookupRequest& request, const LookupProgress& progress) {
  LookupAnswer answer;
  LookupRequest attempt = request;
  for (const bool dwarf : {true, false}) {
    if (dwarf && !request.dwarf) continue;
    attempt.dwarf = dwarf;
    const absl::StatusOr<std::string> bytes = RunIsolated(
        [&](const LookupProgress& report) { return LookUpAddresses(attempt, report).Serialize(); }, progress);
    const absl::Status status = bytes.ok() ? answer.symbols.Parse(*bytes) : bytes.status();
    if (status.ok()) return answer;
    answer.problem =
        absl::StrCat(dwarf ? "its debug information" : "its symbol table", " could not be read: ", status.message());
  }
  return answer;
}

}  // namespace gpumem
