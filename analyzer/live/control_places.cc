// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/control_places.h"

#include <sys/stat.h>

#include <cstddef>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/file_output.h"

namespace gpumem {
namespace {

constexpr const char* kShared[] = {"/tmp", "/dev/shm", "/var/tmp"};

std::string SharedPlace(const char* place, uint32_t uid) { return absl::StrCat(place, "/gpumemshim-", uid); }

constexpr size_t kMostBytes = size_t{256} << 20;  // of what the kernel says of a process

std::string ReadOf(int pid, const char* name) {
  return ReadRegularFile(absl::StrCat("/proc/", pid, "/", name), kMostBytes).value_or("");
}

// "/tmp/gpumemshim-0 belongs to user 1000", of the first place that is taken; "" where none is.
std::string TakenPlace(uint32_t uid) {
  for (const char* place : kShared) {
    const std::string path = SharedPlace(place, uid);
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0 || IsPlaceOf(path, uid)) continue;
    if (status.st_uid != uid) return absl::StrCat(path, " belongs to user ", status.st_uid);
    return absl::StrCat(path, S_ISDIR(status.st_mode) ? " is open to other users" : " is not a folder");
  }
  return "";
}

// The process's own setting.
std::string ControlSetting(int pid) {
  for (const absl::string_view entry : absl::StrSplit(ReadOf(pid, "environ"), '\0')) {
    if (absl::StartsWith(entry, "GPUMEMSHIM_CONTROL=")) return std::string(entry.substr(entry.find('=') + 1));
  }
  return "";
}

}  // namespace

std::vector<std::string> ControlPlaces(uint32_t uid) {
  std::vector<std::string> places;
  const auto add = [&](const char* variable, absl::string_view below) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && value[0] == '/') places.push_back(absl::StrCat(value, below));
  };
  add("GPUMEMSHIM_CONTROL", "");
  add("XDG_RUNTIME_DIR", "/gpumemshim");
  places.push_back(absl::StrCat("/run/user/", uid, "/gpumemshim"));
  for (const char* place : kShared) places.push_back(SharedPlace(place, uid));
  return places;
}

bool IsPlaceOf(const std::string& directory, uint32_t uid) {
  struct stat status {};
  return lstat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == uid &&
         (status.st_mode & 022) == 0;
}

std::string WhyNoSocket(int pid, uint32_t uid) {
  const std::string maps = ReadOf(pid, "maps");
  if (maps.empty())
    return "it runs without libgpumemshim.so, has not used CUDA so far, or was started with GPUMEMSHIM_CONTROL=0";
  if (!absl::StrContains(maps, "libgpumemshim")) return "it runs without libgpumemshim.so";
  const std::string setting = ControlSetting(pid);
  if (setting == "0") return "it was started with GPUMEMSHIM_CONTROL=0";
  if (absl::StartsWith(setting, "/"))
    return absl::StrCat("it has not used CUDA so far, or could not make its socket in ", setting,
                        " (GPUMEMSHIM_CONTROL)");
  const std::string taken = TakenPlace(uid);
  if (taken.empty()) return "it has not used CUDA so far";
  return absl::StrCat("it has not used CUDA so far, or found no place for its socket: ", taken,
                      ". Remove that, or set GPUMEMSHIM_CONTROL=/a/folder/of/yours");
}

}  // namespace gpumem
