// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which trace files a user means by a file or a folder. Reads directories alone; thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const std::string path, FindTrace("runs/"));   // the newest one there

#ifndef GPUMEM_ANALYZER_LEDGER_LOAD_FIND_TRACES_H_
#define GPUMEM_ANALYZER_LEDGER_LOAD_FIND_TRACES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// The file itself, or the newest *.gmtrace of a directory, else the newest file of others that can be imported; ""
// means the working directory. NotFound where there is none, PermissionDenied where the directory cannot be listed.
absl::StatusOr<std::string> FindTrace(const std::string& argument);

// ". No GPU is here: ...", what to do on such a machine; "" where there is one.
std::string WithoutGpuText();

// The files of a folder with such an extension (".summary"), by name; none where it is not a folder.
std::vector<std::string> FilesOfFolder(const std::string& folder, absl::string_view extension);

// The traces of a folder, by name, of a series its first file; where it has none, the files of others in it that can be
// imported (import/import.h); none where it is not a folder.
std::vector<std::string> TracesOfFolder(const std::string& folder);

// Rings of processes that were killed before they began a trace (docs/ring.md), by name.
std::vector<std::string> RingsWithoutTrace(const std::string& folder);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LOAD_FIND_TRACES_H_
