// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportLineLog: logs with one line an event, as traces. All of it is CUDA memory. The kinds:
//
//   Thread,Time,Action,Pointer,Size,Stream                RMM's logging_resource_adaptor (CSV), one file a device
//   1742,11:06:24.000256,allocate,0x7f1a2c000000,1048576,0x0
//
//   [1742][11:06:24:000256][trace ] [A][stream 0x0][1048576B]         RMM's debug log (RMM_DEBUG_LOG_FILE): requests,
//   [1742][11:06:24:000256][trace ] [A][stream 0x0][1048576B][0x7f1a2c000000]     what they got, and frees at the level
//   [1742][11:06:24:000256][trace ] [D][stream 0x0][1048576B][0x7f1a2c000000]     "trace" alone,
//   [1742][11:06:24:000256][error ] [A][Stream 0x0][Upstream 800000B][FAILURE maximum pool size exceeded]    failures
//
//   {"hook":"malloc","device_id":0,"size":24,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x7f39200c5278"}
//                                                                                            CuPy's DebugPrintHook
//
// Times are of the day, and go on behind midnight; CuPy's have none. RMM's files name no device but by their name
// ("rmm_log.dev1.csv"). Where its debug log gives allocations no address, frees are matched by size. Lines that are no
// event are passed over, and counted where there should be none. DataLoss where no line is one, or the file is damaged;
// else errors are the sink's.
//
//   if (IsLineLog(source.Peek())) ImportLineLog("rmm.csv", sink);

#ifndef GPUMEM_ANALYZER_IMPORT_LINE_LOG_H_
#define GPUMEM_ANALYZER_IMPORT_LINE_LOG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/import.h"

namespace gpumem {

bool IsLineLog(absl::string_view begin);

absl::StatusOr<ImportResult> ImportLineLog(const std::string& path, TraceWriter::Sink sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_LINE_LOG_H_
