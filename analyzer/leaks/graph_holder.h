// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FindGraphHolders: which lines of a Python program may keep autograd's graphs alive. What stays allocated was made by
// forward passes; what keeps it is another line: `total += loss`, `outputs.append(out)`. No allocation shows that line,
// so the source is read: from the functions on the stacks that made the graphs, what is assigned there is followed by
// name to lines that add it to something and do not cut the graph (.item(), .detach(), float()).
//
//   loss = criterion(model(x), y)     <- on the stacks: `loss` ends a graph
//   history.append(loss.item())       <- cut
//   total += loss                     <- found
//
// A reading of text, not a proof: reports say "probably". Pure.

#ifndef GPUMEM_ANALYZER_LEAKS_GRAPH_HOLDER_H_
#define GPUMEM_ANALYZER_LEAKS_GRAPH_HOLDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "leaks/leak_place.h"

namespace gpumem {

struct GraphHolder {
  UserFrame frame;   // its line is the statement's first
  std::string code;  // the statement's first line
};

// The lines of a source file; empty where it cannot be read, or is not the one that ran.
using SourceLines = std::function<std::vector<std::string>(const std::string& file)>;

// `stacks`: the user's frames of each stack, innermost first. Outermost function first, at most three.
std::vector<GraphHolder> FindGraphHolders(const std::vector<std::vector<UserFrame>>& stacks, const SourceLines& source);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEAKS_GRAPH_HOLDER_H_
