// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/what_if.h"

#include <utility>

namespace gpumem {
namespace {

WhatIfAsker& Asker() {
  static auto* const kAsker = new WhatIfAsker;
  return *kAsker;
}

}  // namespace

void SetWhatIfAsker(WhatIfAsker asker) { Asker() = std::move(asker); }

std::optional<WhatIfAnswer> WhatIfFlag::Ask(const WhatIfQuestion& question, Console* console) const {
  if (skips_ || Asker() == nullptr) return std::nullopt;
  WhatIfAnswer answer = Asker()(question, console);
  console->ProgressDone();
  return answer;
}

}  // namespace gpumem
