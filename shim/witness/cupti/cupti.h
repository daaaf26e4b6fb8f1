// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CUPTI as a second witness (GPUMEMSHIM_CUPTI=1): a thread of our own loads the program's libcupti, asks it for its
// records of memory and of pools, and hands them to the writer. docs/cross-check.md says what is done with them.
//
// CUPTI serves one subscriber a process, and the program's own profiler goes first: we look whether somebody has
// subscribed, before we ask for anything and about once a second, hold no subscription ourselves, and stop for good
// once there is somebody. The trace says so.
//
// Thread-safety: Start and Finish one thread at a time; PutRecords by the writer's; ForgetInChild in a fork's child.
// Bounded: Start waits at most `wait_ms`, Finish `timeout_ms`; past that the thread is left to itself. Failure: the
// trace's Cupti packet says why there are no records.
//
//   cupti::Start(150);                     // at the first cuInit
//   while (cupti::PutRecords(&writer)) {}  // every pass
//   cupti::Finish(500);

#ifndef GPUMEM_SHIM_WITNESS_CUPTI_CUPTI_H_
#define GPUMEM_SHIM_WITNESS_CUPTI_CUPTI_H_

#include <cstdint>

#include "shim/base/proto_writer.h"

namespace gpumemshim::cupti {

// Starts the thread and waits until CUPTI records, or it is known that it will not. Nothing where it runs already.
void Start(uint32_t wait_ms);

// Appends a packet of what is new; false: nothing is.
bool PutRecords(ProtoWriter* w);

// Whether records wait for PutRecords. At any time; while the lock is another's, as if there were none.
bool HasRecords();

// Asks CUPTI for the last records and ends. Also runs at exit, before the driver's own end.
void Finish(uint32_t timeout_ms);

void ForgetInChild();

}  // namespace gpumemshim::cupti

#endif  // GPUMEM_SHIM_WITNESS_CUPTI_CUPTI_H_
