// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Traces of some kilobytes that ask for as much time or memory as they can, each in its own way, with correct
// checksums: what a reader of files from others must survive.
//
//   for (const Bomb& bomb : MakeBombs()) Read(bomb.bytes);

#ifndef GPUMEM_TESTS_ANALYZER_TESTING_BOMBS_H_
#define GPUMEM_TESTS_ANALYZER_TESTING_BOMBS_H_

#include <string>
#include <vector>

namespace gpumem::testing {

struct Bomb {
  std::string name;
  std::string bytes;
};

std::vector<Bomb> MakeBombs();

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_TESTING_BOMBS_H_
