// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// C++ names for people. Pure functions.
//
//   Demangle("_ZN2at6native3addIfEEvRKNS_6TensorE")        // "void at::native::add<float>(at::Tensor const&)"
//   ShortName("void at::native::add<float>(at::Tensor const&)")   // "at::native::add"

#ifndef GPUMEM_ANALYZER_SYMBOLS_NAMES_H_
#define GPUMEM_ANALYZER_SYMBOLS_NAMES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gpumem {

// The name itself where it is not mangled, or in a way that is not understood. At most 32 KiB. Hostile input may need
// much memory and time: to be called where that is limited (address_lookup.h).
std::string Demangle(const std::string& symbol);

// Without return type, parameters, template arguments and qualifiers; of a mangled name the part that can be read off
// it. The name itself where nothing would be left.
std::string ShortName(absl::string_view demangled);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_NAMES_H_
