// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Growth: whether what PyTorch holds rises over a run, from the lowest number of bytes in each stretch of it. A run of
// any length has at most kMaxStretches of them: when they are full, neighbours are joined, and the next ones are twice
// as long. What comes and goes in each step leaves the lows as they are.
//
//   bytes    /\  /\_/\  /\       lows of the last quarter against those of the second one
//           /  \/     \/  \_
//
// It decides whether a look at owners is worth its time, and nothing that anybody reads. Not thread-safe; never fails.
//
//   Growth growth;
//   growth.Add(512);  ...  growth.Add(-512);
//   if (growth.Rises()) ...

#ifndef GPUMEM_SHIM_PYTHON_GROWTH_H_
#define GPUMEM_SHIM_PYTHON_GROWTH_H_

#include <cstdint>

namespace gpumemshim::python {

class Growth {
 public:
  // A block came (its bytes), or went (negative).
  void Add(int64_t bytes) {
    now_ += bytes;
    if (now_ < low_) low_ = now_;
    if (++events_ == stretch_) EndStretch();
  }

  // Whether the last quarter's low is above that of the second one, and at least half of that rise is still there.
  bool Rises() const;

 private:
  static constexpr int kMaxStretches = 64;
  static constexpr int kLeastStretches = 8;
  void EndStretch();
  int64_t LowOf(int from, int to) const;

  int64_t now_ = 0;
  int64_t low_ = INT64_MAX;  // of this stretch
  uint32_t events_ = 0;      // in it
  uint32_t stretch_ = 2;     // events a stretch
  int count_ = 0;
  int64_t lows_[kMaxStretches] = {};
};

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_GROWTH_H_
