// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/cupti/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "shim/base/loader.h"
#include "shim/base/symbol_lookup.h"

namespace gpumemshim::cupti {
namespace {

constexpr int kNewestMajor = 13, kOldestMajor = 11;

// Of CUDA 11 the file's name has the minor version, too.
const char* NameOf(int major) {
  return major == 13 ? "libcupti.so.13" : major == 12 ? "libcupti.so.12" : major == 11 ? "libcupti.so.11.8" : nullptr;
}

void* Open(const char* name, int more_flags) {
  void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL | more_flags);
  if (handle == nullptr) dlerror();  // ours, not the host's to find
  return handle;
}

void* OpenBeside(const char* cudart, int major) {
  char place[1024];
  for (int i = 0; PlaceBeside(cudart, major, i, place, sizeof place); i++) {
    if (void* handle = Open(place, 0); handle != nullptr) return handle;
  }
  return nullptr;
}

void* Find() {
  char path[1024];
  if (FindLoadedPath("libcupti.so", path, sizeof path)) return Open(path, RTLD_NOLOAD);
  int only = 0;
  if (FindLoadedPath("libcudart.so", path, sizeof path)) {
    only = MajorOf(path);
    if (void* handle = OpenBeside(path, only); handle != nullptr) return handle;
  }
  for (int major = kNewestMajor; major >= kOldestMajor; major--) {
    if (only != 0 && major != only) continue;  // beside one of another version that may be loaded later, it would fail
    if (void* handle = Open(NameOf(major), 0); handle != nullptr) return handle;
  }
  return nullptr;
}

template <typename Function>
bool Get(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  return *function != nullptr;
}

}  // namespace

int MajorOf(const char* path) {
  const char* version = strstr(path, ".so.");
  if (version == nullptr) return 0;
  int major = 0;
  for (const char* p = version + 4; *p >= '0' && *p <= '9' && major < 1000; p++) major = major * 10 + (*p - '0');
  return major;
}

bool PlaceBeside(const char* cudart, int major, int index, char* out, size_t capacity) {
  // The toolkit's folder; its extras; wheels of CUDA 12, where each library has a folder of its own.
  static constexpr const char* kFolders[] = {"", "../extras/CUPTI/lib64/", "../../cuda_cupti/lib/"};
  const char* name = NameOf(major);
  const char* slash = strrchr(cudart, '/');
  if (name == nullptr || slash == nullptr || index >= static_cast<int>(sizeof kFolders / sizeof *kFolders))
    return false;
  const int length =
      snprintf(out, capacity, "%.*s/%s%s", static_cast<int>(slash - cudart), cudart, kFolders[index], name);
  return length > 0 && static_cast<size_t>(length) < capacity;
}

bool LoadLibrary(Library* library) {
  *library = {};
  const loader::Use use;
  void* handle = Find();
  if (handle == nullptr) return false;
  Dl_info info;
  const bool complete =
      Get(handle, "cuptiGetVersion", &library->get_version) &&
      Get(handle, "cuptiGetTimestamp", &library->get_timestamp) && Get(handle, "cuptiSubscribe", &library->subscribe) &&
      Get(handle, "cuptiUnsubscribe", &library->unsubscribe) &&
      Get(handle, "cuptiActivityRegisterCallbacks", &library->register_callbacks) &&
      Get(handle, "cuptiActivityEnable", &library->enable) && Get(handle, "cuptiActivityDisable", &library->disable) &&
      Get(handle, "cuptiActivityFlushAll", &library->flush_all) &&
      Get(handle, "cuptiActivityGetNextRecord", &library->next_record) &&
      Get(handle, "cuptiActivityGetNumDroppedRecords", &library->dropped_records);
  if (!complete) dlerror();
  if (complete && dladdr(reinterpret_cast<void*>(library->get_version), &info) != 0 && info.dli_fname != nullptr)
    snprintf(library->path, sizeof library->path, "%s", info.dli_fname);
  return complete;
}

}  // namespace gpumemshim::cupti
