// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TimeRows: the totals of one device over a whole run in at most so many rows. A row is the highest moment (allocated +
// other: what the program held) of a stretch of changes, so that every total of a row is of one and the same state and
// can be taken apart exactly. A run with fewer changes than rows is kept as it is; a longer one in stretches whose
// length doubles, which loses no maximum. Where single events are asked for, each change is a row beside these. Not
// thread-safe; a value.
//
//   TimeRows rows(8192, 8192);
//   rows.Observe(event, time_ns, values, windows.Has(event));   // behind each event of the device
//   rows.Finish();
//   rows.At(event)                          // the first row at or behind an event

#ifndef GPUMEM_ANALYZER_WEB_TIME_ROWS_H_
#define GPUMEM_ANALYZER_WEB_TIME_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/state/accounts.h"

namespace gpumem {

struct TimeRow {
  uint64_t first_event = 0;                    // of its stretch
  uint64_t event = 0, time_ns = 0;             // of the highest moment: the state behind this event
  MeasureValues values;                        // at that moment
  uint64_t most_reserved = 0, most_total = 0;  // of the whole stretch
};

class TimeRows {
 public:
  // A run with up to `most_exact` changes is kept as it is.
  explicit TimeRows(size_t most_rows, size_t most_exact = 0)
      : most_(most_rows < 2 ? 2 : most_rows & ~size_t{1}),
        room_(most_exact > most_ ? most_exact & ~size_t{1} : most_) {}

  // `is_single`: a row of its own.
  void Observe(uint64_t event, uint64_t time_ns, const MeasureValues& values, bool is_single = false);
  // The row of its stretch becomes this moment: the peak that other answers name, where several are equally high.
  // Before Finish.
  void Pin(uint64_t event, uint64_t time_ns, const MeasureValues& values);
  // The last state is a row of its own.
  void Finish();

  bool empty() const { return rows_.empty() && singles_.empty(); }
  // Once it is finished.
  const std::vector<TimeRow>& rows() const { return rows_; }
  // Rows before it are of states before `event`; rows().size() where none is behind it.
  size_t At(uint64_t event) const;
  // Of those that are not single.
  uint64_t changes_in_row() const { return stretch_; }

 private:
  static uint64_t Height(const TimeRow& row) { return row.values.allocated + row.values.other; }
  static void Merge(const TimeRow& next, TimeRow* row);
  void Halve();

  size_t most_, room_;
  uint64_t stretch_ = 1;  // changes in a row
  uint64_t in_last_ = 0;  // in the last row so far
  std::vector<TimeRow> rows_, singles_;
  TimeRow last_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_TIME_ROWS_H_
