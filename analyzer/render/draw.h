// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A Document drawn: one renderer each for people and for machines. Pure functions.
//
//   console->Print(json ? ToJson(answer) : ToText(answer, console->out_style()));

#ifndef GPUMEM_ANALYZER_RENDER_DRAW_H_
#define GPUMEM_ANALYZER_RENDER_DRAW_H_

#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/text_sink.h"
#include "render/document.h"
#include "render/page.h"

namespace gpumem {

// Numbers stand to the right in their columns, texts to the left; the last column may be cut.
void Draw(const Document& document, Page* page);
std::string ToText(const Document& document, const TextStyle& style);

// Members of the object that is open.
void WriteMembers(const Document& document, JsonWriter* json);

// What its keys mean, as the rows of a table of docs/json.md; keys of one meaning share a row. What `elsewhere` says of
// a key is not said again.
std::string KeyRows(const Document& document, const std::vector<Document>& elsewhere = {});

// One object with a final newline; a long one piece by piece.
void WriteJson(const Document& document, const TextSink& sink, JsonLayout layout = JsonLayout::kLines);
std::string ToJson(const Document& document, JsonLayout layout = JsonLayout::kLines);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_RENDER_DRAW_H_
