// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The recorder's lines on the program's stderr, and how they get there.
//
// Thread-safety: any thread; not in a hook. Failure: an empty line where there is nothing to tell; what does not fit is
// cut; WriteLine loses the line. errno stays.
//
//   WriteLine(line, SummaryLine(summary, facts, line, sizeof line));

#ifndef GPUMEM_SHIM_CONTROL_STDERR_LINES_H_
#define GPUMEM_SHIM_CONTROL_STDERR_LINES_H_

#include <cstddef>
#include <cstdint>

#include "shim/settings/settings.h"
#include "shim/witness/sampler/sample.h"
#include "shim/writer/writer.h"

namespace gpumemshim::control {

// Writes a line to the program's stderr in such a way that the program does not feel it: a reader that has gone
// (SIGPIPE) or a limit on the size of files (SIGXFSZ) must not end a program that never wrote there itself, a pipe that
// nobody empties must not hold it up, and a program that was started without a stderr may have a file of its own under
// that number.
void WriteLine(const char* line, size_t size);

// The level of GPUMEMSHIM_LOG, which may change while the program runs (gpumemshim ctl PID set). At first kInfo.
void SetLogLevel(LogLevel level);
LogLevel GetLogLevel();
inline bool IsSaid(LogLevel level) { return level <= GetLogLevel(); }

// WriteLine, where lines of that level are said.
inline void SayLine(LogLevel level, const char* line, size_t size) {
  if (IsSaid(level)) WriteLine(line, size);
}

// The one line that a traced program ends with on stderr.
//
//   gpumemshim: 17,904 events (17,800 torch, 96 runtime, 8 driver), 0 lost, in ./gpumemshim.train.123.gmtrace (61 KiB).
//   Next: gpumemshim report gpumemshim.train.123.gmtrace
struct SummaryLineFacts {
  uint64_t failed_callbacks = 0;  // of the forecast (GPUMEMSHIM_FORECAST_EXEC and the like); named where there are any
  const char* directory = "";     // the working directory, so that a path inside it is shown short
  const char* summary_file = "";  // all that is kept of a rank (GPUMEMSHIM_RANKS); "" = its trace is
};

// Returns the line's length.
size_t SummaryLine(const writer::Summary& summary, const SummaryLineFacts& facts, char* out, size_t capacity);

// The line on stderr that says that a device has reached a limit of GPUMEMSHIM_WARN_AT. Stateless.
//
//   gpumemshim: GPU 0 is 91 % full (72.8 GiB of 80 GiB, 61 GiB by this process): reached 90 %

// Writes the line, newline included, and returns its size. What does not fit is cut.
size_t WarningLine(const sampler::Crossing& crossing, char* out, size_t capacity);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_STDERR_LINES_H_
