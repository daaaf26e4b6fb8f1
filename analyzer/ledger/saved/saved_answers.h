// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SavedAnswers: what replays of a large trace told, kept for the next command in the folder of the indexes
// (ledger/saved/saved_file.h): its analysis, its leaks, its steps, stages and modules, and its lives, which give memory
// by category at every moment up to the end of the program's own code (life_table.h). The first command that
// asks makes it, in the replays that it needs anyway. Answers are the same with it and without. Only questions about
// the whole trace with the built-in rules are answered from it; others replay as ever, and so does everything where no
// file can be kept.
//
//   if (const SavedAnswers* const answers = AnswersOf(loaded)) answers->leaks();
//
// GPUMEMSHIM_INDEX_ABOVE: traces of this size and more are kept ("4MiB", the default; 0: all of them; "never").
// Not thread-safe.

#ifndef GPUMEM_ANALYZER_LEDGER_SAVED_SAVED_ANSWERS_H_
#define GPUMEM_ANALYZER_LEDGER_SAVED_SAVED_ANSWERS_H_

#include <memory>
#include <string>

#include "ledger/attribution/attribution.h"
#include "ledger/leaks/leaks.h"
#include "ledger/load/load_trace.h"
#include "ledger/saved/life_table.h"
#include "ledger/saved/saved_file.h"

namespace gpumem {

class SavedAnswers {
 public:
  // Null where a replay is needed for this. `request.device` and `measure` are those of the largest device, as
  // LoadedAttributor has it.
  std::unique_ptr<Attribution> Answer(const AttributionRequest& request, const Analysis& analysis,
                                      const StackTable& stacks) const;
  const LeakFindings& leaks() const { return leaks_; }
  LifeTable lives() const { return LifeTable(file_.get(), &lives_); }
  const Attribution& whole() const { return whole_; }  // what lives name is numbers of it; it has no moments

 private:
  friend const SavedAnswers* AnswersOf(LoadedTrace* loaded);
  static std::shared_ptr<SavedAnswers> Read(const IndexFile& file, uint64_t symbols);
  bool Find(const MomentQuery& query, const Analysis& analysis, const StackTable& stacks, Moment* moment) const;

  std::unique_ptr<SavedFile> file_;
  Attribution whole_;  // without moments
  LeakFindings leaks_;
  LifeTableData lives_;
};

// Of a trace that keeps answers; null for others, and where nothing can be kept.
const SavedAnswers* AnswersOf(LoadedTrace* loaded);

// Whether this is a question about the whole of a trace that is large enough. LoadTrace asks, as with all below.
bool MayKeepAnswers(const LoadRequest& request, const std::string& path);
// Whether something has answered from this trace before.
bool HasAnswers(const std::string& path);
// Not of traces that still grow, or whose end is not known.
bool IsWorthKeeping(const Analysis& analysis);

// False where nothing is kept.
bool ReadSavedAnalysis(const std::string& path, Analysis* analysis, StackTable* stacks);
void SaveAnalysis(const Analysis& analysis, const StackTable& stacks);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_SAVED_SAVED_ANSWERS_H_
