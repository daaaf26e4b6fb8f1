// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/bundle/masked_path.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"

namespace gpumem {
namespace {

constexpr absl::string_view kSystem[] = {"/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/proc/", "/sys/", "/dev/"};
// What begins here is the same for everybody who has the package. The first that is found counts.
constexpr absl::string_view kInstalled[] = {"/site-packages/", "/dist-packages/", "/lib/python", "/torch/", "/bin/"};
// Folders of which each user has one.
constexpr absl::string_view kHomes[] = {"home",  "Home",  "home1", "home2", "home3",   "homes",
                                        "users", "Users", "u",     "user",  "scratch", "accounts"};

bool IsOfSystem(absl::string_view path) {
  return std::any_of(std::begin(kSystem), std::end(kSystem),
                     [path](absl::string_view prefix) { return absl::StartsWith(path, prefix); });
}

// Where in the path what is installed begins; npos where nothing is. From lib/python3.11 on, where packages are there.
size_t InstalledFrom(absl::string_view path) {
  for (const absl::string_view mark : kInstalled) {
    const size_t at = path.rfind(mark);
    if (at == absl::string_view::npos) continue;
    const size_t library = path.rfind("/lib/python", at);
    return library == absl::string_view::npos ? at : library;
  }
  return absl::string_view::npos;
}

}  // namespace

absl::string_view UserOfPath(absl::string_view path) {
  constexpr absl::string_view kSlashes = "/\\";
  bool is_after_home = false, is_first = true;
  for (size_t at = 0; at < path.size();) {
    const size_t begin = path.find_first_not_of(kSlashes, at);
    if (begin == absl::string_view::npos) return "";
    const size_t end = std::min(path.find_first_of(kSlashes, begin), path.size());
    const absl::string_view part = path.substr(begin, end - begin);
    const bool is_home = std::find(std::begin(kHomes), std::end(kHomes), part) != std::end(kHomes);
    // A file in a folder of that name is nobody's home, but below /home and /Users.
    const bool is_user = end < path.size() || is_first || part.find('.') == absl::string_view::npos;
    if (is_after_home && !is_home) return is_user ? part : "";
    is_first = is_home && (part == "home" || part == "Users") && begin <= 1;
    is_after_home = is_home;
    at = end;
  }
  return "";
}

SplitPathResult SplitPath(absl::string_view path) {
  if (IsOfSystem(path)) return {"", path};
  size_t kept = InstalledFrom(path);
  if (kept == absl::string_view::npos) {
    const size_t name = path.rfind('/') + 1;
    const bool has_ending = path.find('.', name + 1) != absl::string_view::npos && path[name] != '.';
    const bool is_home = UserOfPath(path).size() == path.size() - name && !UserOfPath(path).empty();
    kept = has_ending && !is_home ? name - 1 : path.size();
  }
  return {path.substr(0, kept), path.substr(kept)};
}

}  // namespace gpumem
