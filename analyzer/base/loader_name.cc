// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/loader_name.h"

#include "absl/strings/str_cat.h"

namespace gpumem {

absl::StatusOr<LoaderName> NameForLoader(const std::string& library) {
  if (library.find_first_of(": ") == std::string::npos) return LoaderName{library, ""};
  const size_t slash = library.rfind('/');
  const LoaderName name{library.substr(slash + 1), library.substr(0, slash)};
  if (slash == std::string::npos || name.preload.find_first_of(": ") != std::string::npos ||
      name.folder.find_first_of(":;$") != std::string::npos) {
    return absl::UnavailableError(absl::StrCat(library,
                                               " has a character in its path that the loader's variables cannot hold. "
                                               "Copy it elsewhere and set GPUMEMSHIM_LIBRARY."));
  }
  return name;
}

std::string LibraryPathWith(const char* before, const std::string& folder) {
  return before == nullptr || *before == '\0' ? folder : absl::StrCat(before, ":", folder);
}

}  // namespace gpumem
