// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/valid_text.h"

#include "base/utf8.h"

namespace gpumem {

std::string ValidText(absl::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const DecodedChar first = DecodeUtf8(text);
    if (first.valid) {
      valid.append(text.data(), first.length);
    } else {
      AppendUtf8(0xfffd, &valid);
    }
    text.remove_prefix(first.length);
  }
  return valid;
}

}  // namespace gpumem
