// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SymbolFlags: where commands that show stacks look for names of native frames: --no-native-symbols, --symbols,
// --sysroot. The same for all of them.
//
//   SymbolFlags flags;
//   flags.AddFlags(&app);
//   Symbolizer symbolizer(&stacks, flags.Options(working_directory, console));

#ifndef GPUMEM_ANALYZER_COMMANDS_SYMBOL_FLAGS_H_
#define GPUMEM_ANALYZER_COMMANDS_SYMBOL_FLAGS_H_

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "commands/console.h"
#include "symbols/symbolizer.h"

namespace gpumem {

struct SymbolFlags {
  bool no_native_symbols = false;
  std::vector<std::string> symbols;
  std::string sysroot;

  void AddFlags(CLI::App* app);
  // --symbols and --sysroot alone.
  void AddPlaces(CLI::App* app);

  // False, and a complaint, where a place does not exist.
  bool Check(Console* console) const;
  // Progress goes to `console`, which must outlive the symbolizer.
  SymbolizerOptions Options(const std::string& working_directory, Console* console) const;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_COMMANDS_SYMBOL_FLAGS_H_
