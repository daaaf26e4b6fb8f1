// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which part of an absolute path may be passed on: the name of a file, and what lies in an installed package or in the
// system, which is the same on every machine. All before it is a folder of somebody's.
//
//   SplitPath("/home/me/secret/train.py")                              // folder "/home/me/secret", kept "/train.py"
//   SplitPath("/home/me/v/lib/python3.11/site-packages/torch/cuda.py")
//                                    // folder "/home/me/v", kept "/lib/python3.11/site-packages/torch/cuda.py"
//   SplitPath("/usr/lib/libc.so.6")                                    // folder "", kept: all
//   SplitPath("/data/project")                                         // folder: all, kept ""
//
// Pure. A last part without an ending may be a folder, so it is not kept.

#ifndef GPUMEM_ANALYZER_CLI_BUNDLE_MASKED_PATH_H_
#define GPUMEM_ANALYZER_CLI_BUNDLE_MASKED_PATH_H_

#include "absl/strings/string_view.h"

namespace gpumem {

struct SplitPathResult {
  absl::string_view folder, kept;
};

SplitPathResult SplitPath(absl::string_view path);

// The user whose home folder the path is in: "me" of /home/me/x, /Users/me, /nfs/home/me/x, /scratch/me/x and
// C:\Users\me\x; "" where it is in none.
absl::string_view UserOfPath(absl::string_view path);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_BUNDLE_MASKED_PATH_H_
