// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/debuginfod.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

namespace gpumem {
namespace {

bool IsAskedFor() {
  const char* const urls = std::getenv("DEBUGINFOD_URLS");
  return urls != nullptr && *urls != '\0';
}

// The functions of libdebuginfod that are used, and one client for the whole process: it keeps connections open.
class Library {
 public:
  static const Library& Get() {
    static const Library* const library = new Library;
    return *library;
  }

  bool usable() const { return client_ != nullptr; }

  std::string Fetch(const std::string& build_id, DebugFileKind kind) const {
    const FindFunction find = kind == DebugFileKind::kExecutable ? find_executable_ : find_debug_info_;
    char* path = nullptr;
    const int descriptor = find(client_, reinterpret_cast<const unsigned char*>(build_id.data()),
                                static_cast<int>(build_id.size()), &path);
    std::string result;
    if (descriptor >= 0) {
      close(descriptor);
      if (path != nullptr) result = path;
    }
    std::free(path);
    return result;
  }

 private:
  using BeginFunction = void* (*)();
  using FindFunction = int (*)(void* client, const unsigned char* build_id, int size, char** path);

  Library() {
    void* const handle = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return;
    const auto begin = reinterpret_cast<BeginFunction>(dlsym(handle, "debuginfod_begin"));
    find_executable_ = reinterpret_cast<FindFunction>(dlsym(handle, "debuginfod_find_executable"));
    find_debug_info_ = reinterpret_cast<FindFunction>(dlsym(handle, "debuginfod_find_debuginfo"));
    if (begin != nullptr && find_executable_ != nullptr && find_debug_info_ != nullptr) client_ = begin();
  }

  FindFunction find_executable_ = nullptr, find_debug_info_ = nullptr;
  void* client_ = nullptr;
};

}  // namespace

bool DebuginfodIsOn() { return IsAskedFor() && Library::Get().usable(); }

std::string DebuginfodProblem() {
  if (!IsAskedFor() || Library::Get().usable()) return "";
  return "DEBUGINFOD_URLS is set, but libdebuginfod.so.1 cannot be loaded: install libdebuginfod1";
}

std::string FetchDebugFile(const std::string& build_id, DebugFileKind kind) {
  if (build_id.empty() || !DebuginfodIsOn()) return "";
  return Library::Get().Fetch(build_id, kind);
}

}  // namespace gpumem
