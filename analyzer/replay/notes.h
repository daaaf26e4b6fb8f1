// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The notes of an Analysis: what its numbers rest on, one sentence each, for the reader of a report.

#ifndef GPUMEM_ANALYZER_REPLAY_NOTES_H_
#define GPUMEM_ANALYZER_REPLAY_NOTES_H_

#include <string>
#include <vector>

#include "replay/analysis.h"
#include "replay/state/accounts.h"

namespace gpumem {

std::vector<std::string> NotesOn(const Accounts& accounts, const Analysis& analysis);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_NOTES_H_
