// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A zip archive of texts and files in memory, which every system opens, written by minizip.
//
//   GPUMEM_RETURN_IF_ERROR(WriteZip("/tmp/x/bundle.zip", {{"report.txt", text}}));
//
// Names have no folder. Fails where `path` cannot be written; it must not be there before.

#ifndef GPUMEM_ANALYZER_CLI_BUNDLE_ZIP_FILE_H_
#define GPUMEM_ANALYZER_CLI_BUNDLE_ZIP_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace gpumem {

struct BundleFile {
  std::string name, bytes;
};

absl::Status WriteZip(const std::string& path, const std::vector<BundleFile>& files);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_BUNDLE_ZIP_FILE_H_
