// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Names with values inside a text, as shells, JSON, YAML, Python, URLs and connection strings write them.
//
//   FindPair("--token abc --lr 1", 0)        // kSecret, value [8, 11)
//   FindPair("{\"api_key\": \"x y\"}", 2)    // kSecret, value [12, 15): what is within the quotes
//   FindPair("Cookie: a=b; c=d", 0)          // kHeader, value [8, 16)
//
// Thread-safety: pure, no heap. Time: linear in name and value.

#ifndef GPUMEM_SHARED_SECRET_PAIRS_H_
#define GPUMEM_SHARED_SECRET_PAIRS_H_

#include <cstddef>

#include "shared/secret_names.h"
#include "shared/slice.h"

namespace gpumem::format {

struct Pair {
  NameKind kind = NameKind::kPlain;
  size_t value = 0;  // where it begins, behind its quote
  size_t end = 0;
};

// The pair whose name begins at `at`; kPlain where there is none, or nothing to say of it.
Pair FindPair(Slice text, size_t at);

// "Bearer", "Basic" and the like: words in front of a credential.
bool IsScheme(Slice word);

// Whether an argument behind an option of a secret is the next option rather than a value that begins with a dash.
bool LooksLikeOption(Slice argument);

}  // namespace gpumem::format

#endif  // GPUMEM_SHARED_SECRET_PAIRS_H_
