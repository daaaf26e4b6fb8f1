// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which calls of CUDA go past us, told by how the loaded objects are bound: an object that was loaded with
// RTLD_DEEPBIND has CUDA's own functions in its slots, or the C library's dlsym; a namespace of dlmopen has a driver of
// its own; a second driver may be loaded under another path. What was called there nobody counts; that it can be is
// said in the trace (trace.proto, Unseen), and on stderr where there is no trace.
//
//   nothing loaded since the last look   one call of dl_iterate_phdr that stops at the first object
//   a new object                         its imported names; where CUDA's are among them, its slots
//   slots not bound yet (lazy binding)   looked at again after 1, 2, 4 ... 64 s, and at the end
//
// Thread-safety: one thread at a time (the writer's; the last one of a process that never recorded). Takes the loader's
// list lock for the length of a look. Failure: more than kMaxUnseen objects are not told; pointers that a program
// keeps on the heap, or found by reading libraries itself, cannot be.
//
//   if (FindUnseen(false) != known) PutUnseen(&writer);

#ifndef GPUMEM_SHIM_CONTROL_LOADER_UNSEEN_CALLS_H_
#define GPUMEM_SHIM_CONTROL_LOADER_UNSEEN_CALLS_H_

#include <cstddef>
#include <cstdint>

#include "shim/base/proto_writer.h"

namespace gpumemshim::control {

inline constexpr uint32_t kMaxUnseen = 16;

// How many things are known: each object counts, and each function of it. `last`: look in any case.
uint32_t FindUnseen(bool last);

// The same number as of the last look.
uint32_t CountUnseen();

// As fields of trace.proto's Losses.
void PutUnseen(ProtoWriter* w);

// What is known in words, terminated; any thread. Its length, 0 where nothing is known.
size_t UnseenText(char* out, size_t capacity);

// "gpumemshim: no trace written, although ...\n"; 0 where nothing is known. Its length.
size_t UnseenLine(char* out, size_t capacity);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_LOADER_UNSEEN_CALLS_H_
