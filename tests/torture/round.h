// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// One round: start the victim with the recorder in front, kill -9 it at a chosen moment, hold what it left against what
// it says of itself. Also through `gpumemshim export trace`, whose file must say the same.
//
// Not thread-safe. Leaves nothing behind where the round was fine; keeps its folder where it was not, and names it.
//
//   const Outcome outcome = RunRound(setup, {.events = 200'000, .moment = Moment::kHalfWritten, .seed = 7});

#ifndef GPUMEM_TESTS_TORTURE_ROUND_H_
#define GPUMEM_TESTS_TORTURE_ROUND_H_

#include <cstdint>
#include <string>

#include "check.h"

namespace torture {

struct Setup {
  std::string victim, library, simcuda, gpumem;
  std::string ring_size;  // "" = the default
};

// When the victim is killed, once so many events are acknowledged.
enum class Moment {
  kAnyTime,
  kBeforeTheWrite,  // the ring says how far the next packet goes; the file has nothing of it (append_trap.h)
  kHalfWritten,     // the file has a part of it
  kAfterTheWrite,   // all of it, and its chunks are not given back
};

struct Round {
  uint64_t events = 0;
  Moment moment = Moment::kAnyTime;
  uint32_t delay_us = 0;  // on top
  uint32_t part = 0;      // of the packet that is half written
  uint64_t seed = 0;
};

struct Outcome {
  Verdict verdict;
  bool trapped = false;       // killed in the append, as was asked
  bool no_file = false;       // killed before the first append: from the ring alone
  bool marked_ahead = false;  // the ring spoke of a packet that is not whole in the file
  std::string folder;         // kept, where something is wrong
};

Outcome RunRound(const Setup& setup, const Round& round);

}  // namespace torture

#endif  // GPUMEM_TESTS_TORTURE_ROUND_H_
