// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/symbol_flags.h"

#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "symbols/symbol_cache.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

}  // namespace

void SymbolFlags::AddPlaces(Flags* flags) {
  flags->Add("--symbols", &symbols, "a module's file, or a folder of such; may be repeated").Value("PATH").Repeats();
  flags->Add("--sysroot", &sysroot, "root folder of the machine that was traced").Value("DIR");
}

void SymbolFlags::AddFlags(Flags* flags) {
  flags->Add("--no-native-symbols", &no_native_symbols, "leave native frames as module and offset");
  AddPlaces(flags);
}

absl::StatusOr<SymbolizerOptions> SymbolFlags::Options() const {
  std::error_code error;
  if (!sysroot.empty() && !fs::is_directory(sysroot, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sysroot ", sysroot, " is not a folder. Name the folder that holds usr/ and lib/."));
  }
  for (const std::string& place : symbols) {
    if (fs::exists(place, error)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--symbols ", place, ": there is no such file or folder."));
  }
  SymbolizerOptions options;
  options.native = !no_native_symbols;
  options.search.symbols = symbols;
  if (!sysroot.empty()) options.search.sysroot = fs::canonical(sysroot, error).string();
  options.cache_folder = SymbolCache::DefaultFolder();
  return options;
}

}  // namespace gpumem
