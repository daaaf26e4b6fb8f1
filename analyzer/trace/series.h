// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The files of one process's trace where it was written as a series (GPUMEMSHIM_MAX_SIZE; docs/trace-files.md). They
// are found beside the one that is named, by their names and then by what their headers say, so that renamed files of
// others are not taken. Thread-safe. Failure: what cannot be read is not in the list.
//
//   run.gmtrace  run.part2.gmtrace  run.part3.gmtrace
//
//   for (const SeriesFile& file : FindSeries("run.part2.gmtrace").files) Read(file.path);

#ifndef GPUMEM_ANALYZER_TRACE_SERIES_H_
#define GPUMEM_ANALYZER_TRACE_SERIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gpumem/trace.pb.h"

namespace gpumem {

struct SeriesFile {
  std::string path;
  uint32_t number = 0;  // 0 = not of a series
  uint64_t bytes = 0;
  uint64_t bytes_before = 0;  // of the files before it in the list
};

struct Series {
  std::vector<SeriesFile> files;  // by number; the named file alone where it is of no series
  // The last file is followed by one that was begun and has no whole header yet: its writer was killed, or is at it.
  bool next_was_begun = false;
};

// `path` need not be there any more: the first name of a series whose oldest files were removed stands for the rest.
Series FindSeries(absl::string_view path);

// What the files of a series have in common by default: "run" of run.gmtrace, run.part2.gmtrace and
// run.part2.1.gmtrace.
std::string SeriesStem(absl::string_view path);

// The first of each series, by their names alone: a series is read as a whole, whichever of its files is named.
std::vector<std::string> OneOfEachSeries(std::vector<std::string> paths);

// How the file of this number is called by default, beside `path`, which is another one of the series.
std::string SeriesFileName(absl::string_view path, uint32_t number);

// Which file a name means now; 0 = none.
uint64_t InodeOf(const std::string& path);

bool IsSameSeries(const trace::Part& a, const trace::Part& b);

// The part begins a later file of the series to which `before` belongs.
bool IsBehind(const trace::Part& part, const trace::Part& before);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_SERIES_H_
