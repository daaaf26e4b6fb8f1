// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where the ranks of a communicator meet: a file that each of them maps, with short messages of this round and of the
// one before, and a box of messages for each pair.
//
//   Rendezvous* rendezvous = JoinRendezvous("3f2a...", 8, 0);
//   if (GiveRound(rendezvous, bytes, size)) TakeRound(rendezvous, 3, bytes, size);   // what rank 3 gave
//   EndRound(rendezvous);
//
// Thread-safety: a communicator's calls come one at a time, as NCCL demands. Ownership: the caller's until
// LeaveRendezvous. Failure: a rank that has ended, or does not come for SIMCUDA_NCCL_WAIT seconds (120), leaves this
// one alone: it says so once, tells the others, and every later call returns false or kAlone at once. Nothing waits
// longer than that.
#ifndef SIMCUDA_STUBS_NCCL_RENDEZVOUS_H_
#define SIMCUDA_STUBS_NCCL_RENDEZVOUS_H_

#include <stddef.h>
#include <stdint.h>

namespace nccl {

struct Rendezvous;

constexpr int kNameBytes = 17;  // 16 digits and the end

// A name that nobody guesses, of a file in SIMCUDA_NCCL_FOLDER (/dev/shm) that the first one makes who joins.
bool NameRendezvous(char (&name)[kNameBytes]);
// The name of a part of the rendezvous, the same for all that ask alike.
void NameOfPart(const char* name, uint32_t number, int color, char (&part)[kNameBytes]);

// Null where a rank is alone: SIMCUDA_NCCL_ALONE is set, the name is empty or its file cannot be made.
Rendezvous* JoinRendezvous(const char* name, int ranks, int rank);
void LeaveRendezvous(Rendezvous* rendezvous);

// The longest message that is carried, as long as the longest copy that is kept; the same for all.
size_t MostBytes(const Rendezvous* rendezvous);
bool IsAlone(const Rendezvous* rendezvous);

enum class Taken { kZeros, kBytes, kAlone };

// A round: all ranks give `size` bytes (null: zeros), take what they want of each other, and end it.
bool GiveRound(Rendezvous* rendezvous, const void* bytes, size_t size);
Taken TakeRound(Rendezvous* rendezvous, int rank, void* bytes, size_t size);
void EndRound(Rendezvous* rendezvous);

// A message to or from one rank; false: not now. Nothing waits here.
bool TrySend(Rendezvous* rendezvous, int to, const void* bytes, size_t size);
bool TryReceive(Rendezvous* rendezvous, int from, void* bytes, size_t size, Taken* taken);
// For whoever tries again: whether `rank` has ended, or `since_ns` is too long ago. What it sent before can still be
// there.
bool IsGone(const Rendezvous* rendezvous, int rank, uint64_t since_ns);
void BeAlone(Rendezvous* rendezvous, int rank);  // because of `rank`
uint64_t NowNs();

}  // namespace nccl

#endif  // SIMCUDA_STUBS_NCCL_RENDEZVOUS_H_
