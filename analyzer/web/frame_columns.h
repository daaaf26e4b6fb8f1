// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The frames of a page's data, as its scripts read them (flame_page/data.js, Frames). Not thread-safe; a value.
//
//   FrameColumns columns;
//   columns.Add(frames.frame(i), static_cast<uint64_t>(frames.frame(i).kind), &words, &strings);
//   columns.Write(&json);   // "frames": {...}

#ifndef GPUMEM_ANALYZER_WEB_FRAME_COLUMNS_H_
#define GPUMEM_ANALYZER_WEB_FRAME_COLUMNS_H_

#include <cstdint>

#include "answers/views/frame_table.h"
#include "render/columns.h"
#include "web/page_words.h"

namespace gpumem {

class FrameColumns {
 public:
  // `kind`: FrameClass, or what a page has beyond.
  void Add(const ViewFrame& frame, uint64_t kind, PageWords* words, StringTable* strings) {
    const std::string& function = frame.function.empty() ? frame.label : frame.function;
    words->AddCell(function);
    function_.Add(strings->Place(function));
    file_.Add(strings->Place(frame.file));
    path_.Add(strings->Place(frame.path == frame.file ? "" : frame.path));
    line_.Add(frame.line);
    module_.Add(strings->Place(frame.module));
    kind_.Add(kind);
  }
  void Write(JsonWriter* json) const {
    WriteJsonColumns("frames",
                     {{"function", &function_},
                      {"file", &file_},
                      {"path", &path_},
                      {"line", &line_},
                      {"module", &module_},
                      {"kind", &kind_}},
                     json);
  }

 private:
  NumberColumn function_, file_, path_, line_, module_, kind_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_FRAME_COLUMNS_H_
