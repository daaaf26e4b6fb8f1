// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Whether a trace may say which files of this machine are opened and run. A trace is data and may come from anybody, so
// what it names is only believed of the reader's own: the file belongs to this user, nobody else may write it, and it
// was recorded on this machine since it started (the kernel's boot id, which nobody elsewhere can know).
//
//   if (IsOwnTrace(analysis.path, analysis.process)) ...   // its source files may be read
//
// The boot id is no secret among the users of one machine, and goes along with a trace that is passed on: it keeps out
// what comes from elsewhere, the owner keeps out what another user of this machine placed. A copy that one makes of
// such a user's file is one's own file, and is believed.
//
// Thread-safety: pure but for the files that are read. Failure: false.

#ifndef GPUMEM_ANALYZER_LEDGER_LOAD_OWN_TRACE_H_
#define GPUMEM_ANALYZER_LEDGER_LOAD_OWN_TRACE_H_

#include <string>

#include "replay/analysis.h"

namespace gpumem {

// 16 bytes, as traces have it; "" where the kernel does not say.
std::string BootId();

bool IsOwnTrace(const std::string& path, const ProcessInfo& process);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LOAD_OWN_TRACE_H_
