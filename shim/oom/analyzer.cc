// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/oom/analyzer.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace gpumemshim::oom {
namespace {

constexpr const char* kVariables[] = {"PATH",     "HOME", "LANG",    "LC_ALL",   "LC_CTYPE",
                                      "LANGUAGE", "TERM", "COLUMNS", "NO_COLOR", "TMPDIR"};
constexpr char kComplaint[] =
    "gpumem: out of memory, and no report: the program gpumem was not found (GPUMEMSHIM_GPUMEM names it)\n";

}  // namespace

bool Analyzer::Try(const char* folder, size_t folder_size, const char* name) {
  const size_t name_size = std::strlen(name) + 1;
  if (folder_size == 0 || folder[0] != '/' || folder_size + 1 + name_size > sizeof program_) return false;
  std::memcpy(program_, folder, folder_size);
  program_[folder_size] = '/';
  std::memcpy(program_ + folder_size + 1, name, name_size);
  if (access(program_, X_OK) == 0) return true;
  program_[0] = '\0';
  return false;
}

bool Analyzer::FindBesideLibrary() {
  Dl_info info;
  if (dladdr(static_cast<const void*>(kComplaint), &info) == 0 || info.dli_fname == nullptr) return false;
  const char* end = std::strrchr(info.dli_fname, '/');
  if (end == nullptr) return false;
  const auto size = static_cast<size_t>(end - info.dli_fname);
  return Try(info.dli_fname, size, "../bin/gpumem") || Try(info.dli_fname, size, "../../bin/gpumem") ||
         Try(info.dli_fname, size, "gpumem");
}

bool Analyzer::FindOnPath() {
  const char* path = std::getenv("PATH");
  while (path != nullptr && *path != '\0') {
    const char* end = std::strchr(path, ':');
    const size_t size = end == nullptr ? std::strlen(path) : static_cast<size_t>(end - path);
    if (Try(path, size, "gpumem")) return true;
    path = end == nullptr ? nullptr : end + 1;
  }
  return false;
}

void Analyzer::CopyEnvironment() {
  size_t used = 0;
  size_t count = 0;
  for (const char* name : kVariables) {
    const char* value = std::getenv(name);
    if (value == nullptr || count == kMaxVariables) continue;
    const size_t name_size = std::strlen(name);
    const size_t value_size = std::strlen(value) + 1;
    if (used + name_size + 1 + value_size > sizeof variables_) continue;
    environment_[count++] = variables_ + used;
    std::memcpy(variables_ + used, name, name_size);
    variables_[used + name_size] = '=';
    std::memcpy(variables_ + used + name_size + 1, value, value_size);
    used += name_size + 1 + value_size;
  }
  environment_[count] = nullptr;
}

void Analyzer::Find() {
  program_[0] = '\0';
  CopyEnvironment();
  const char* named = std::getenv("GPUMEMSHIM_GPUMEM");
  if (named != nullptr && *named != '\0') {
    const size_t size = std::strlen(named) + 1;
    if (size <= sizeof program_ && access(named, X_OK) == 0) std::memcpy(program_, named, size);
    return;
  }
  if (!FindBesideLibrary()) FindOnPath();
}

bool Analyzer::Prepare(const char* path) {
  if (program_[0] == '\0') {
    if (!complained_ && write(STDERR_FILENO, kComplaint, sizeof kComplaint - 1) < 0) return false;
    complained_ = true;
    return false;
  }
  const char* wanted[] = {"gpumem", "oom", "--no-replay", "--top", "5", path, nullptr};
  static_assert(sizeof wanted <= sizeof arguments_);
  std::memcpy(arguments_, wanted, sizeof wanted);
  return true;
}

}  // namespace gpumemshim::oom
