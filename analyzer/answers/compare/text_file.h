// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReadTextFile: a small text that users or programs wrote: limits, answers of other commands. Thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const std::string text, ReadTextFile("budget.yaml"));

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_TEXT_FILE_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_TEXT_FILE_H_

#include <fstream>
#include <sstream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace gpumem {

// NotFound where it cannot be read, ResourceExhausted where it is larger than 128 MiB.
inline absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{128} << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::string piece(size_t{1} << 16, '\0');
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    text.append(piece.data(), static_cast<size_t>(file.gcount()));
    if (text.size() > kMaxBytes) return absl::ResourceExhaustedError(absl::StrCat(path, " is larger than 128 MiB"));
  }
  return text;
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_TEXT_FILE_H_
