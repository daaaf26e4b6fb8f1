// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as a file of ranks' summaries: every line that is one is compared with the others, and the answer is
// printed. What is read and written again is the same.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "answers/ranks/judge.h"
#include "answers/ranks/merge_summaries.h"
#include "answers/ranks/ranks_report.h"
#include "answers/ranks/summary_file.h"
#include "render/draw.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<gpumem::RankSummary> ranks;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    gpumem::FileStamp stamp;
    auto rank = gpumem::ParseSummary(line, &stamp);
    if (!rank.ok()) continue;
    const std::string written = gpumem::SummaryLine(*rank, stamp);
    const auto again = gpumem::ParseSummary(written, &stamp);
    if (!again.ok() || gpumem::SummaryLine(*again, stamp) != written) __builtin_trap();
    ranks.push_back(*std::move(rank));
  }
  if (ranks.empty()) return 0;
  gpumem::SummaryLine(gpumem::MergeSummaries(ranks.front(), ranks.back()), {});
  const gpumem::Job job = gpumem::SortIntoJob(std::move(ranks));
  for (const bool has_step : {false, true}) {
    gpumem::RanksQuery query;
    if (has_step) query.step = 3;
    const gpumem::RanksVerdict verdict = gpumem::JudgeRanks(job, query);
    const gpumem::Document answer = gpumem::RanksAnswer({job, verdict}, {0, true});
    gpumem::ToJson(answer);
    gpumem::ToText(answer, gpumem::TextStyle());
  }
  return 0;
}
