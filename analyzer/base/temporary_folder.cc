// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace gpumem {

absl::StatusOr<std::string> NewTemporaryFolder(absl::string_view purpose) {
  std::error_code error;
  const std::filesystem::path place = std::filesystem::temp_directory_path(error);
  std::string name = (place / absl::StrCat("gpumemshim-", purpose, "-XXXXXX")).string();
  if (!error && mkdtemp(name.data()) != nullptr) return name;
  return absl::UnavailableError(absl::StrCat("cannot make a folder like ", name, ": ",
                                             error ? error.message() : std::strerror(errno),
                                             ". Set TMPDIR to another place."));
}

}  // namespace gpumem
