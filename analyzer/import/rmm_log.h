// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportRmmLog: the CSV of RMM's logging_resource_adaptor as a trace:
//
//   Thread,Time,Action,Pointer,Size,Stream
//   1742,11:06:24.000256,allocate,0x7f1a2c000000,1048576,0x0
//
// allocate and free become runtime events of device 0, since the log names no device; "allocate failure" an
// ALLOC_FAILED. Times are of the day, and go on behind midnight. Lines that are no such line are passed over and
// counted. DataLoss where no line is one, or the file is damaged; else errors are the sink's.
//
//   if (IsRmmLog(source.Peek())) ImportRmmLog("rmm.csv", sink);

#ifndef GPUMEM_ANALYZER_IMPORT_RMM_LOG_H_
#define GPUMEM_ANALYZER_IMPORT_RMM_LOG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/import.h"

namespace gpumem {

bool IsRmmLog(absl::string_view begin);

absl::StatusOr<ImportResult> ImportRmmLog(const std::string& path, TraceWriter::Sink sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_RMM_LOG_H_
