// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Names of functions for people. Pure functions.
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

// A Python function's own name where torch.compile made functions of its parts: "Net.forward" of
// "Net.torch_dynamo_resume_in_forward_at_24". Other names as they are.
std::string WithoutResumption(absl::string_view python_name);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_NAMES_H_
