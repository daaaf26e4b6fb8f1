// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/oom/analyzer.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "shim/base/kernel.h"

namespace gpumemshim::oom {
namespace {

constexpr const char* kVariables[] = {"PATH", "HOME",    "LANG",     "LC_ALL", "LC_CTYPE",       "LANGUAGE",
                                      "TERM", "COLUMNS", "NO_COLOR", "TMPDIR", "XDG_RUNTIME_DIR"};
// Of the forecast alone: an address may be a secret.
constexpr const char* kForecastVariables[] = {"GPUMEMSHIM_CONTROL",          "GPUMEMSHIM_FORECAST_RISK",
                                              "GPUMEMSHIM_FORECAST_EXEC",    "GPUMEMSHIM_FORECAST_SIGNAL",
                                              "GPUMEMSHIM_FORECAST_WEBHOOK", "GPUMEMSHIM_FORECAST_ALLOW_HOST"};
constexpr char kComplaint[] =
    "gpumemshim: no report, forecast or summary: the program gpumemshim was not found (GPUMEMSHIM_PROGRAM names it)\n";

}  // namespace

bool Analyzer::Try(const char* folder, size_t folder_size, const char* name) {
  const size_t name_size = std::strlen(name) + 1;
  if (folder_size == 0 || folder[0] != '/' || folder_size + 1 + name_size > sizeof program_) return false;
  std::memcpy(program_, folder, folder_size);
  program_[folder_size] = '/';
  std::memcpy(program_ + folder_size + 1, name, name_size);
  struct stat status;
  const bool is_file = kernel::Stat(program_, &status) == 0 && S_ISREG(status.st_mode);  // folders have this name, too
  if (is_file && access(program_, X_OK) == 0) return true;
  program_[0] = '\0';
  return false;
}

bool Analyzer::FindBesideLibrary() {
  Dl_info info;
  if (dladdr(static_cast<const void*>(kComplaint), &info) == 0 || info.dli_fname == nullptr) return false;
  const char* end = std::strrchr(info.dli_fname, '/');
  if (end == nullptr) return false;
  const auto size = static_cast<size_t>(end - info.dli_fname);
  return Try(info.dli_fname, size, "../bin/gpumemshim") || Try(info.dli_fname, size, "../../bin/gpumemshim") ||
         Try(info.dli_fname, size, "gpumemshim");
}

bool Analyzer::FindOnPath() {
  const char* path = std::getenv("PATH");
  while (path != nullptr && *path != '\0') {
    const char* end = std::strchr(path, ':');
    const size_t size = end == nullptr ? std::strlen(path) : static_cast<size_t>(end - path);
    if (Try(path, size, "gpumemshim")) return true;
    path = end == nullptr ? nullptr : end + 1;
  }
  return false;
}

const char* Analyzer::ValueOf(const char* name) const {
  const char* const value = setting_ == nullptr ? nullptr : setting_(name);
  return value != nullptr ? value : std::getenv(name);
}

void Analyzer::Copy(const char* name) {
  const char* value = ValueOf(name);
  if (value == nullptr || variable_count_ == kMaxVariables) return;
  const size_t name_size = std::strlen(name);
  const size_t value_size = std::strlen(value) + 1;
  if (variables_size_ + name_size + 1 + value_size > sizeof variables_) return;
  char* to = variables_ + variables_size_;
  std::memcpy(to, name, name_size + 1);  // its end becomes the sign between
  to[name_size] = '=';
  std::memcpy(to + name_size + 1, value, value_size);
  variables_size_ += name_size + 1 + value_size;
  environment_[variable_count_++] = to;
  environment_[variable_count_] = nullptr;
}

void Analyzer::CopyEnvironment() {
  variables_size_ = variable_count_ = 0;
  environment_[0] = nullptr;
  for (const char* name : kVariables) Copy(name);
}

void Analyzer::Find(SettingLookup setting) {
  setting_ = setting;
  program_[0] = '\0';
  CopyEnvironment();
  const char* named = ValueOf("GPUMEMSHIM_PROGRAM");
  if (named != nullptr && *named != '\0') {
    const size_t size = std::strlen(named) + 1;
    if (size <= sizeof program_ && access(named, X_OK) == 0) std::memcpy(program_, named, size);
    return;
  }
  if (!FindBesideLibrary()) FindOnPath();
}

bool Analyzer::PrepareCommand(const char* const* wanted, size_t count) {
  if (program_[0] == '\0') {
    if (!complained_ && write(STDERR_FILENO, kComplaint, sizeof kComplaint - 1) < 0) return false;
    complained_ = true;
    return false;
  }
  std::memcpy(arguments_, wanted, count * sizeof *wanted);
  return true;
}

bool Analyzer::Prepare(const char* path) {
  const char* wanted[] = {"gpumemshim", "oom", "--no-replay", "--top", "5", path, nullptr};
  static_assert(sizeof wanted <= sizeof arguments_);
  return PrepareCommand(wanted, sizeof wanted / sizeof *wanted);
}

bool Analyzer::PrepareSummary(const char* path, const char* target) {
  const bool is_beside = target[0] == '\0';
  const char* wanted[] = {"gpumemshim", "ranks", "--summarize", path, is_beside ? nullptr : "--to", target, nullptr};
  static_assert(sizeof wanted <= sizeof arguments_);
  if (!PrepareCommand(wanted, sizeof wanted / sizeof *wanted)) return false;
  // A thousand ranks may share one cache.
  if (variable_count_ < kMaxVariables && environment_[variable_count_] == nullptr) {
    environment_[variable_count_] = "GPUMEMSHIM_INDEX_ABOVE=never";
    environment_[variable_count_ + 1] = nullptr;
  }
  return true;
}

bool Analyzer::PrepareForecast(const char* path) {
  const char* wanted[] = {"gpumemshim", "forecast", "--watch", path, nullptr};
  static_assert(sizeof wanted <= sizeof arguments_);
  for (const char* name : kForecastVariables) Copy(name);
  return PrepareCommand(wanted, sizeof wanted / sizeof *wanted);
}

void StandardError::Remember() {
  struct stat status;
  known_ = kernel::Fstat(STDERR_FILENO, &status) == 0;
  if (!known_) return;
  device_ = status.st_dev;
  node_ = status.st_ino;
}

bool StandardError::Usable() const {
  struct stat status;
  if (kernel::Fstat(STDERR_FILENO, &status) != 0) return false;
  if (known_ && status.st_dev == device_ && status.st_ino == node_) return true;
  if (S_ISFIFO(status.st_mode) || isatty(STDERR_FILENO) == 1) return true;
  const int flags = fcntl(STDERR_FILENO, F_GETFL);
  return S_ISREG(status.st_mode) && flags >= 0 && (flags & O_APPEND) != 0;
}

}  // namespace gpumemshim::oom
