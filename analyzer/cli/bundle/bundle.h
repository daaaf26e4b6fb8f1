// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a report of a bug needs, from one trace: what the commands say of a masked copy of it, what doctor says of this
// machine, and what went wrong on the way. Each command is a process of its own, so that the one that fails on this
// trace does not take the bundle with it.
//
//   Masker masker;
//   GPUMEM_ASSIGN_OR_RETURN(const Bundle bundle, CollectBundle(Options{"/proc/self/exe", files, folder}, &masker));
//   WriteZip(path, bundle.files);
//
// Failure: the trace cannot be read or copied. A command that fails is one of `failed`, and errors.txt says why.

#ifndef GPUMEM_ANALYZER_CLI_BUNDLE_BUNDLE_H_
#define GPUMEM_ANALYZER_CLI_BUNDLE_BUNDLE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/bundle/masker.h"
#include "cli/bundle/zip_file.h"

namespace gpumem {

struct BundleOptions {
  std::string gpumem;  // the program that is run
  std::string trace;
  std::string folder;  // an empty one, for what is made on the way
  bool with_trace = false;
  std::function<void(const std::string& what, uint64_t done, uint64_t all)> progress;
};

struct Bundle {
  std::vector<BundleFile> files;    // README.txt first
  std::vector<std::string> failed;  // "report.json: exit code 3"
};

absl::StatusOr<Bundle> CollectBundle(const BundleOptions& options, Masker* masker);

// All of a file that was made on the way.
absl::StatusOr<std::string> FileBytes(const std::string& path);

// What this machine and user are called: hosts, users, home and working directory.
void LearnThisMachine(Masker* masker);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_BUNDLE_BUNDLE_H_
