// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The page that shows flame data: one HTML file without any other. Its sources are flame_page/*.{html,css,js}; the
// build makes one text of them, and it is part of this program. A content security policy in it allows its own script
// and style by their hashes and nothing else.

#ifndef GPUMEM_ANALYZER_WEB_FLAME_PAGE_H_
#define GPUMEM_ANALYZER_WEB_FLAME_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gpumem {

// `data` is FlameData's: it must hold no `<`.
// `language`: the one that it opens in, "en" or "zh"; both are in it.
std::string FlamePage(absl::string_view data, absl::string_view language);

// The page as it was built, for the words in it.
absl::string_view FlamePageSource();

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_FLAME_PAGE_H_
