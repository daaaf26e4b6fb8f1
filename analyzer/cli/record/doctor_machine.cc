// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim doctor` looks at on this machine (doctor_checks.h).

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "attach/elf_file.h"
#include "attach/preload.h"
#include "base/format.h"
#include "cli/record/doctor_checks.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kComfortableRing = 64ull << 20, kComfortableDisk = 256ull << 20;

// Where a loaded library lies, "" where the loader does not say.
std::string PathOf(void* handle) {
  const link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr
             ? fs::path(map->l_name).lexically_normal().string()
             : "";
}

std::string VersionText(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

bool IsIn(const std::set<std::string>& names, const std::string& name) { return names.count(name) != 0; }

}  // namespace

Finding CheckLibrary() {
  const absl::StatusOr<std::string> path = FindShimLibrary();
  if (!path.ok())
    return {"library", Health::kFailure, std::string(path.status().message()), "build it, or set GPUMEMSHIM_LIBRARY"};
  const absl::StatusOr<ElfFile> elf = ReadElfFile(*path);
  if (!elf.ok() || !elf->is_elf64)
    return {"library", Health::kFailure, absl::StrCat(*path, " is not a 64-bit ELF library"), "build it again"};
  for (const char* hook : {"cuMemAlloc_v2", "cudaMalloc", "dlsym"}) {
    if (!IsIn(elf->exported, hook)) {
      return {"library", Health::kFailure, absl::StrCat(*path, " does not export ", hook, ": it hooks nothing"),
              "build it again (scripts/check_exports)"};
    }
  }
  static const std::set<std::string> kExpected = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
                                                  "libm.so.6", "libdl.so.2",           "libpthread.so.0"};
  for (const std::string& needed : elf->needed) {
    if (!IsIn(kExpected, needed)) {
      return {"library", Health::kWarning,
              absl::StrCat(*path, " needs ", needed, ", which may clash with the program's own copy"),
              "build it as it is shipped"};
    }
  }
  return {"library", Health::kOk, absl::StrCat(*path, " (needs ", absl::StrJoin(elf->needed, ", "), ")"), ""};
}

Finding CheckUnwinder() {
  const absl::StatusOr<std::string> recorder = FindShimLibrary();
  void* handle = nullptr;
  if (recorder.ok()) {  // a package has it beside the recorder, which looks there first
    const fs::path beside = fs::path(*recorder).parent_path() / "libunwind.so.8";
    handle = dlopen(beside.c_str(), RTLD_LAZY | RTLD_LOCAL);
  }
  if (handle == nullptr) handle = dlopen("libunwind.so.8", RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    return {"unwinder", Health::kWarning,
            "libunwind.so.8 is not here: native frames come from libgcc's unwinder, which is slower",
            "install libunwind8, or leave native frames out (gpumemshim run --no-native)"};
  }
  Finding finding{"unwinder", Health::kOk, PathOf(handle), ""};
  dlclose(handle);
  return finding;
}

Finding CheckDriver() {
  void* handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    return {"driver", Health::kWarning, "libcuda.so.1 is not found: no CUDA program runs here as it is",
            "install NVIDIA's driver, or run on the simulated one: gpumemshim simulate -- COMMAND"};
  }
  const std::string path = PathOf(handle);
  std::string version = "version not known";
  int number = 0;
  const auto get_version = reinterpret_cast<int (*)(int*)>(dlsym(handle, "cuDriverGetVersion"));
  if (get_version != nullptr && get_version(&number) == 0) version = absl::StrCat("CUDA ", VersionText(number));
  std::error_code ignored;
  const bool real = fs::exists("/proc/driver/nvidia/version", ignored);
  dlclose(handle);
  if (absl::StrContains(path, "simcuda"))
    return {"driver", Health::kOk, absl::StrCat(path, ", ", version, ": simulated, no GPU"), ""};
  if (absl::StrContains(path, "/stubs/")) {
    return {"driver", Health::kFailure, absl::StrCat(path, " is the toolkit's stub for linking"),
            "take its folder out of LD_LIBRARY_PATH"};
  }
  if (!real) {
    return {"driver", Health::kWarning, absl::StrCat(path, ", ", version, ", but NVIDIA's kernel module is not loaded"),
            "run where a GPU is, or with the container's --gpus flag"};
  }
  return {"driver", Health::kOk, absl::StrCat(path, ", ", version), ""};
}

Finding CheckPreload(const std::string& ld_preload) {
  std::vector<std::string> others;
  for (const absl::string_view part : absl::StrSplit(ld_preload, absl::ByAnyChar(": "), absl::SkipEmpty())) {
    const std::string name = fs::path(std::string(part)).filename().string();
    if (absl::StartsWith(name, "libgpumemshim")) continue;
    others.push_back(name);
    for (const char* hooking :
         {"libvgpu", "heaptrack", "memray", "libcuinj", "libnccl-net", "libcudart", "libnvshare", "fakecuda"}) {
      if (absl::StrContains(name, hooking)) {
        return {"preload", Health::kWarning,
                absl::StrCat("LD_PRELOAD names ", std::string(part), ", which hooks the same calls"),
                "if numbers look wrong, try without it"};
      }
    }
  }
  if (others.empty()) return {"preload", Health::kOk, "nothing else in LD_PRELOAD", ""};
  return {"preload", Health::kOk, absl::StrCat("LD_PRELOAD names ", absl::StrJoin(others, ", "), ": no known clash"),
          ""};
}

Finding CheckRingMemory(const std::string& folder) {
  const std::string probe = absl::StrCat(folder, "/gpumemshim.doctor.", getpid());
  const int fd = open(probe.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    return {"ring", Health::kWarning,
            absl::StrCat("cannot write to ", folder, ": ", strerror(errno),
                         "; up to 100 ms of events die with a killed process"),
            "make it writable, or set GPUMEMSHIM_RING_DIRECTORY"};
  }
  close(fd);
  unlink(probe.c_str());
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) return {"ring", Health::kOk, absl::StrCat(folder, " is writable"), ""};
  const uint64_t free_bytes = uint64_t{status.f_bavail} * status.f_frsize;
  const std::string found = absl::StrCat(folder, " is writable, ", FormatBytes(free_bytes), " free");
  if (free_bytes < kComfortableRing) {
    return {"ring", Health::kWarning, found,
            "give the container more (--shm-size), or set GPUMEMSHIM_RING_SIZE smaller"};
  }
  return {"ring", Health::kOk, found, ""};
}

Finding CheckWorkingDirectory() {
  std::error_code error;
  const std::string here = fs::current_path(error).string();
  if (access(".", W_OK | X_OK) != 0) {
    return {"output", Health::kFailure, absl::StrCat("cannot write into ", here, ", where traces go"),
            "choose another place with gpumemshim run -o"};
  }
  const fs::space_info space = fs::space(".", error);
  const std::string found = absl::StrCat(here, " is writable, ", FormatBytes(space.available), " free");
  if (!error && space.available < kComfortableDisk)
    return {"output", Health::kWarning, found, "choose another place with gpumemshim run -o"};
  return {"output", Health::kOk, found, ""};
}

Finding CheckFileLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return {"file size", Health::kOk, "no limit", ""};
  return {"file size", Health::kWarning,
          absl::StrCat("files may grow to ", FormatBytes(limit.rlim_cur), ": a longer trace is cut there"),
          "ulimit -f unlimited"};
}

Finding CheckCoreLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_CORE, &limit);
  if (limit.rlim_cur == 0) return {"core files", Health::kOk, "off", ""};
  const std::string size =
      limit.rlim_cur == RLIM_INFINITY ? "without limit" : absl::StrCat("up to ", FormatBytes(limit.rlim_cur));
  return {"core files", Health::kOk, absl::StrCat("on, ", size, "; a crash of the program writes one, recorded or not"),
          ""};
}

}  // namespace gpumem
