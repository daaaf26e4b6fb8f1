// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/copy_bytes.h"

#include <algorithm>

#include "base/status_macros.h"

namespace gpumem {
namespace {

constexpr uint64_t kCopyBytes = 1 << 20;

}  // namespace

absl::Status CopyBytes(FileWindow* window, uint64_t from, uint64_t to, OutputFile* file) {
  for (uint64_t at = from; at < to;) {
    const absl::string_view bytes = window->Read(at, std::min(kCopyBytes, to - at));
    if (bytes.empty()) return absl::InternalError("cannot read the trace to its end");
    GPUMEM_RETURN_IF_ERROR(file->Write(bytes));
    at += bytes.size();
  }
  return absl::OkStatus();
}

}  // namespace gpumem
