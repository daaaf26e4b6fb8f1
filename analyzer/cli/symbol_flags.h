// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SymbolFlags: where commands that show stacks look for names of native frames: --no-native-symbols, --symbols,
// --sysroot. The same for all of them.
//
//   SymbolFlags flags;
//   flags.AddFlags(flags);
//   GPUMEM_ASSIGN_OR_RETURN(SymbolizerOptions options, flags.Options());

#ifndef GPUMEM_ANALYZER_CLI_SYMBOL_FLAGS_H_
#define GPUMEM_ANALYZER_CLI_SYMBOL_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/flags.h"
#include "symbols/symbolizer.h"

namespace gpumem {

struct SymbolFlags {
  bool no_native_symbols = false;
  std::vector<std::string> symbols;
  std::string sysroot;

  void AddFlags(Flags* flags);
  // --symbols and --sysroot alone.
  void AddPlaces(Flags* flags);

  bool given() const { return no_native_symbols || !symbols.empty() || !sysroot.empty(); }
  // InvalidArgument where a place does not exist.
  absl::StatusOr<SymbolizerOptions> Options() const;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_SYMBOL_FLAGS_H_
