// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/symbol_flags.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <system_error>

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

bool SymbolFlags::Check(Console* console) const {
  std::error_code error;
  if (!sysroot.empty() && !fs::is_directory(sysroot, error)) {
    console->Complain(absl::StrCat("--sysroot ", sysroot, " is no folder. Name the folder that holds usr/ and lib/."));
    return false;
  }
  for (const std::string& place : symbols) {
    if (fs::exists(place, error)) continue;
    console->Complain(absl::StrCat("--symbols ", place, ": there is no such file or folder."));
    return false;
  }
  return true;
}

SymbolizerOptions SymbolFlags::Options(const std::string& working_directory, Console* console) const {
  SymbolizerOptions options;
  options.native = !no_native_symbols;
  options.search.symbols = symbols;
  std::error_code error;
  if (!sysroot.empty()) options.search.sysroot = fs::canonical(sysroot, error).string();
  options.search.working_directory = working_directory;
  options.cache_folder = SymbolCache::DefaultFolder();
  options.progress = [console](const std::string& what, uint64_t done, uint64_t all) {
    console->Progress(what, done, all);
  };
  return options;
}

}  // namespace gpumem
