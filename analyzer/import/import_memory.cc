// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/import_memory.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/format.h"

namespace gpumem {
namespace {

constexpr uint64_t kLeast = uint64_t{64} << 20;
constexpr uint64_t kMost = uint64_t{1} << 50;

}  // namespace

ImportMemory ImportMemory::OfProcess() {
  const char* const text = std::getenv("GPUMEMSHIM_IMPORT_MEMORY");
  const std::optional<uint64_t> bytes = text == nullptr ? std::nullopt : ParseBytes(text);
  return ImportMemory(bytes ? std::clamp(*bytes, kLeast, kMost) : kDefault);
}

absl::Status ImportMemory::TooMuch() const {
  return absl::DataLossError(absl::StrCat("importing it would take over ", FormatBytes(all_),
                                          " of memory. If you know where the file comes from, allow more: set "
                                          "GPUMEMSHIM_IMPORT_MEMORY=",
                                          all_ >> 20 << 2, "MiB"));
}

}  // namespace gpumem
