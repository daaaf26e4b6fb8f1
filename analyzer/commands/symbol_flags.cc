// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/symbol_flags.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "symbols/symbol_cache.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

}  // namespace

void SymbolFlags::AddPlaces(CLI::App* app) {
  app->add_option("--symbols", symbols, "a module's file, or a folder of such; may be repeated")
      ->type_name("PATH")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app->add_option("--sysroot", sysroot, "root folder of the machine that was traced")->type_name("DIR");
}

void SymbolFlags::AddFlags(CLI::App* app) {
  app->add_flag("--no-native-symbols", no_native_symbols, "leave native frames as module and offset");
  AddPlaces(app);
}

absl::StatusOr<SymbolizerOptions> SymbolFlags::Options() const {
  std::error_code error;
  if (!sysroot.empty() && !fs::is_directory(sysroot, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sysroot ", sysroot, " is no folder. Name the folder that holds usr/ and lib/."));
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
