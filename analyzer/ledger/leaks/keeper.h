// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FindKeepers: which lines of a Python program may keep memory alive. An allocation shows where memory was made; what
// keeps it is often another line: `total += loss`, `outputs.append(out[:1])`. No allocation shows that one, so the
// source is read: from the functions on the stacks that allocated, what is assigned there is followed by name to lines
// that add it to something. A graph of autograd's is followed until something cuts it (.detach()), memory until a
// number is taken from it (.item(), float()).
//
//   loss = criterion(model(x), y)     <- on the stacks: `loss` ends a graph
//   history.append(loss.item())       <- cut
//   total += loss                     <- found
//
// What a call gives back is followed, too: one whose every return is a number leaves its caller nothing to keep, and a
// method of the program's own that is called `update` is no dict's. A reading of text, not a proof: reports show such a
// line where nobody was seen to keep the memory, as one that may. Pure.

#ifndef GPUMEM_ANALYZER_LEDGER_LEAKS_KEEPER_H_
#define GPUMEM_ANALYZER_LEDGER_LEAKS_KEEPER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ledger/leaks/leak_place.h"

namespace gpumem {

// What is kept.
enum class Kept : uint8_t { kGraph, kTensor };

struct Keeper {
  UserFrame frame;   // its line is the statement's first
  std::string code;  // the statement's first line, secrets masked
};

// The lines of a source file; empty where it cannot be read, or is not the one that ran.
using SourceLines = std::function<std::vector<std::string>(const std::string& file)>;

// `stacks`: the user's frames of each stack, innermost first. Outermost function first, at most three.
std::vector<Keeper> FindKeepers(Kept kept, const std::vector<std::vector<UserFrame>>& stacks,
                                const SourceLines& source);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LEAKS_KEEPER_H_
