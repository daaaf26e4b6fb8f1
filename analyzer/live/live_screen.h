// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ShowLive: the view in a terminal, until the user quits: ncurses draws what live_view.h says, and hands keys in. The
// job is read by a thread of its own, so that keys answer while a long trace is read. Colour as TERM has it, none with
// NO_COLOR.
//
//   return ShowLive(job.get(), std::chrono::seconds(1), console);

#ifndef GPUMEM_ANALYZER_LIVE_LIVE_SCREEN_H_
#define GPUMEM_ANALYZER_LIVE_LIVE_SCREEN_H_

#include <chrono>

#include "absl/status/statusor.h"
#include "base/console.h"
#include "live/live_job.h"

namespace gpumem {

// Exit code 0. InvalidArgument where ncurses does not know the terminal.
absl::StatusOr<int> ShowLive(LiveJob* job, std::chrono::milliseconds interval, Console* console);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_LIVE_SCREEN_H_
