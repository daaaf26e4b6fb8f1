// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportHeader: how every imported trace begins: it says that it is one, of what, and what that lacks. Pure.
//
//   trace::Header header = ImportHeader("runs/snapshot.pickle", result, "PyTorch");

#ifndef GPUMEM_ANALYZER_IMPORT_IMPORT_HEADER_H_
#define GPUMEM_ANALYZER_IMPORT_IMPORT_HEADER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "gpumem/trace.pb.h"
#include "import/import.h"

namespace gpumem {

// The program's name is the file's, without its endings. `result` gives format and notes.
trace::Header ImportHeader(const std::string& path, const ImportResult& result, absl::string_view recorder,
                           bool has_times = true);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_IMPORT_HEADER_H_
