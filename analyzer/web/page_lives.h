// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PageLives: the pieces of memory that a page names one by one. All of a short run; of a long one those that were alive
// at moments that are looked at most (peaks, the end) or of single events, then the largest. What has no room is
// counted, and is in the layers of the timeline all the same. Memory is bounded by `most`. Not thread-safe; a value.
//
//   PageLives lives(40'000);
//   lives.Add(life, PageLives::Use::kOfMoment);
//   lives.Finish();

#ifndef GPUMEM_ANALYZER_WEB_PAGE_LIVES_H_
#define GPUMEM_ANALYZER_WEB_PAGE_LIVES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ledger/attribution/attribution.h"
#include "ledger/attribution/life_pass.h"

namespace gpumem {

struct PageLife {
  Life life;
  int device = 0;
  uint64_t stack_id = 0;
  Category category = Category::kUnknown;
  Evidence evidence = Evidence::kRule;
  uint32_t module = 0;  // ModuleTable
  uint32_t line = 0;    // PagePass::lines
  uint32_t name = 0;    // string id
  uint8_t layer = 0, memory = 0;
};

class PageLives {
 public:
  explicit PageLives(size_t most) : most_(most == 0 ? 1 : most) {}

  // Of a moment: it was alive when the page is opened for. Of an event: it began or ended in a stretch whose single
  // events are shown; these are few and stay longest.
  enum class Use : uint8_t { kNone, kOfMoment, kOfEvent };
  void Add(const PageLife& life, Use use);
  // In the order of their birth.
  void Finish();

  const std::vector<PageLife>& lives() const { return lives_; }
  uint64_t left_out() const { return left_out_; }
  // Whether all lives of single events are there.
  bool has_events() const { return has_events_; }

 private:
  void Prune();

  size_t most_;
  std::vector<PageLife> lives_;
  std::vector<uint64_t> ranks_;  // of `lives_`: size, and bits above all sizes for their use
  uint64_t left_out_ = 0;
  bool has_events_ = true;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_PAGE_LIVES_H_
