// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How LD_PRELOAD names a library. The loader takes a blank or a colon there for the end of a path, so a library whose
// path has a blank goes by its file's name, and LD_LIBRARY_PATH, which may have blanks, says where that is.
//
//   NameForLoader("/opt/lib/a.so")      {"/opt/lib/a.so", ""}
//   NameForLoader("/my tools/lib/a.so") {"a.so", "/my tools/lib"}
//   NameForLoader("/a:b/a.so")          Unavailable: no variable of the loader can hold it

#ifndef GPUMEM_ANALYZER_BASE_LOADER_NAME_H_
#define GPUMEM_ANALYZER_BASE_LOADER_NAME_H_

#include <string>

#include "absl/status/statusor.h"

namespace gpumem {

struct LoaderName {
  std::string preload;
  std::string folder;  // to be in LD_LIBRARY_PATH; "" where it need not be
};

absl::StatusOr<LoaderName> NameForLoader(const std::string& library);

// LD_LIBRARY_PATH with `folder` last, given what it has now (may be null).
std::string LibraryPathWith(const char* before, const std::string& folder);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_LOADER_NAME_H_
