// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/nvml_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "shim/base/descriptors.h"
#include "shim/base/import_slots.h"
#include "shim/base/loader.h"

namespace gpumemshim::sampler {
namespace {

// Where there is no mode the callee does not look at it.
mode_t ModeOf(va_list arguments, int flags) {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

// A device stays open; what is read at once, of /proc, keeps its number.
int RaiseDevice(int fd, int folder, const char* path) {
  struct stat status;
  if (fd < 0 || fstatat(folder, path, &status, 0) != 0 || !S_ISCHR(status.st_mode)) return fd;
  return descriptors::Raise(fd, {.type = S_IFCHR, .file = {status.st_dev, status.st_ino}});
}

int Open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(arguments, flags);
  va_end(arguments);
  return RaiseDevice(open(path, flags, mode), AT_FDCWD, path);
}

int OpenAt(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(arguments, flags);
  va_end(arguments);
  return RaiseDevice(openat(folder, path, flags, mode), folder, path);
}

// The checked forms of a library built with _FORTIFY_SOURCE.
int OpenChecked(const char* path, int flags) { return RaiseDevice(open(path, flags & ~O_CREAT), AT_FDCWD, path); }
int OpenAtChecked(int folder, const char* path, int flags) {
  return RaiseDevice(openat(folder, path, flags & ~O_CREAT), folder, path);
}

constexpr descriptors::Mark kAnonymous{.type = descriptors::Mark::kNoType, .flags = O_RDWR};
int MakeEvent(unsigned start, int flags) { return descriptors::Raise(eventfd(start, flags), kAnonymous); }
int MakeEpoll(int flags) { return descriptors::Raise(epoll_create1(flags), kAnonymous); }

uintptr_t WrapperOf(const char* name) {
  struct Row {
    const char* name;
    uintptr_t wrapper;
  };
  const Row rows[] = {
      {"open", reinterpret_cast<uintptr_t>(&Open)},
      {"open64", reinterpret_cast<uintptr_t>(&Open)},
      {"openat", reinterpret_cast<uintptr_t>(&OpenAt)},
      {"openat64", reinterpret_cast<uintptr_t>(&OpenAt)},
      {"__open_2", reinterpret_cast<uintptr_t>(&OpenChecked)},
      {"__open64_2", reinterpret_cast<uintptr_t>(&OpenChecked)},
      {"__openat_2", reinterpret_cast<uintptr_t>(&OpenAtChecked)},
      {"__openat64_2", reinterpret_cast<uintptr_t>(&OpenAtChecked)},
      {"eventfd", reinterpret_cast<uintptr_t>(&MakeEvent)},
      {"epoll_create1", reinterpret_cast<uintptr_t>(&MakeEpoll)},
  };
  for (const Row& row : rows) {
    if (strcmp(row.name, name) == 0) return row.wrapper;
  }
  return 0;
}

int Patch(dl_phdr_info* info, size_t, void* data) {
  const auto* map = static_cast<const link_map*>(data);
  const imports::Object object{info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum};
  if (imports::DynamicOf(object) != map->l_ld) return 0;
  imports::ForEach(object, imports::Which::kAll, [&](const imports::Import& import) {
    if (const uintptr_t wrapper = WrapperOf(import.name); wrapper != 0) imports::Store(object, import.slot, wrapper);
  });
  return 1;
}

}  // namespace

void KeepFilesAway(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) loader::Iterate(&Patch, map);
}

}  // namespace gpumemshim::sampler
