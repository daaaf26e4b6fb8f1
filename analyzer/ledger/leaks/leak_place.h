// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LeakPlace: where in the user's code a stack is. Callers turn stacks into places, so that leaks/ does not depend on
// how reports name lines. Plain values.

#ifndef GPUMEM_ANALYZER_LEDGER_LEAKS_LEAK_PLACE_H_
#define GPUMEM_ANALYZER_LEDGER_LEAKS_LEAK_PLACE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gpumem {

// A frame of the user's own code.
struct UserFrame {
  std::string file;  // as Python or the debug information names it
  std::string function;
  uint32_t line = 0;
  bool is_python = false;
};

// Where a stack is in the user's code.
struct LeakPlace {
  std::string site;  // as all reports name the line; stacks with the same one are one row
  std::string file;  // "" = not known
  uint32_t line = 0;
  std::vector<UserFrame> frames;   // innermost first
  std::vector<std::string> names;  // functions and files of all frames, for suppressions
};

using PlaceOfStack = std::function<LeakPlace(uint64_t stack)>;

// Joins tensors: what it makes may have what it made before in it.
bool IsConcatenation(const LeakPlace& place);

// Asked for by PyTorch, whatever its allocator; false also where there are no native frames.
bool IsOfTensors(const LeakPlace& place);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LEAKS_LEAK_PLACE_H_
