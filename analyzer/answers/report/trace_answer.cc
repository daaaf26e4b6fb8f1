// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/trace_answer.h"

#include <string>

#include "answers/report/json_parts.h"
#include "answers/report/sections.h"

namespace gpumem {

Document TraceAnswer(absl::string_view command, const ReportInput& input) {
  Document answer;
  answer.Old([command = std::string(command), &input](JsonWriter* json) { WriteJsonCommon(command, input, json); },
             [&input](Page* page) { AddHead(input, Detail::kBrief, page); });
  return answer;
}

void EndWithNotes(const ReportInput& input, Document* answer) {
  answer->Gap();
  answer->Old(nullptr, [&input](Page* page) { AddNotes(input, page); });
}

}  // namespace gpumem
