// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Lists by location, and the histogram of sizes, as text and as JSON. Pure functions. `top` bounds lists; 0 = all.

#ifndef GPUMEM_ANALYZER_ANSWERS_VIEWS_TABLE_VIEW_H_
#define GPUMEM_ANALYZER_ANSWERS_VIEWS_TABLE_VIEW_H_

#include <cstddef>
#include <string>
#include <vector>

#include "answers/views/location_table.h"
#include "answers/views/size_histogram.h"
#include "answers/views/view_input.h"
#include "base/text_sink.h"
#include "render/page.h"

namespace gpumem {

void AddTable(const std::vector<Location>& rows, LocationKind kind, size_t top, const ViewInput& input, Page* page);
void WriteTableJson(const std::vector<Location>& rows, LocationKind kind, size_t top, const ViewInput& input,
                    const TextSink& sink);

// Lines of code that allocate most, once in the order of bytes and once in that of counts.
struct SizesAnswer {
  SizeHistogram histogram;
  std::vector<Location> by_bytes, by_count;
};
void AddSizes(const SizesAnswer& answer, size_t top, const ViewInput& input, Page* page);
void WriteSizesJson(const SizesAnswer& answer, size_t top, const ViewInput& input, const TextSink& sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_VIEWS_TABLE_VIEW_H_
