// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The traces that come with gpumemshim, for who has none yet: `gpumemshim report --example oom`. They are in
// share/gpumemshim/examples beside the program's folder, or in examples/traces of a clone; scripts/regen_examples
// records them. Looks at directories alone; thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const std::string path, FindExample("oom"));   // ".../examples/oom.gmtrace"

#ifndef GPUMEM_ANALYZER_LEDGER_LOAD_EXAMPLE_TRACES_H_
#define GPUMEM_ANALYZER_LEDGER_LOAD_EXAMPLE_TRACES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

struct ExampleTrace {
  absl::string_view name, about;
};

// All of them, the first one to try first.
const std::vector<ExampleTrace>& ExampleTraces();

// Its file, or its folder where it has several processes; "ranks/rank0" is one of these. InvalidArgument for a name
// that none has, NotFound where the examples are not beside this program.
absl::StatusOr<std::string> FindExample(absl::string_view name);

// A trace as a command line names it: "--example oom" of one of them, else its path in the shell's words.
std::string TraceArgument(const std::string& path);

// What files about a trace are named after where no name is given. They go beside it; those about an example go into
// the working directory, since its own folder is the package's.
std::string BesideTrace(const std::string& path);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LOAD_EXAMPLE_TRACES_H_
