// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/import_header.h"

#include "absl/strings/strip.h"
#include "trace/import_info.h"
#include "trace/valid_text.h"

namespace gpumem {

trace::Header ImportHeader(const std::string& path, const ImportResult& result, absl::string_view recorder,
                           bool has_times) {
  trace::Header header;
  const std::string file = path.substr(path.rfind('/') + 1);
  absl::string_view name = file;
  absl::ConsumeSuffix(&name, ".gz");
  for (const absl::string_view ending : {".pickle", ".pkl", ".csv", ".json"}) {
    if (absl::ConsumeSuffix(&name, ending)) break;
  }
  header.set_writer_version(GPUMEM_VERSION);
  header.set_program(ValidText(name.empty() ? absl::string_view(file) : name));
  StoreImportInfo({result.format, std::string(recorder), ValidText(file), result.notes, has_times},
                  header.mutable_settings());
  return header;
}

}  // namespace gpumem
