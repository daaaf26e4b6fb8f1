// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A trace as it is in its file, for people and scripts: every packet, or every event on a line. Both are streamed, so
// any size works; what lies in the ring of a killed process comes last.
//
//   GPUMEM_ASSIGN_OR_RETURN(const int code, WritePackets({.place = "run.gmtrace"}, lines, console));
//
// Failure: as of reading a trace. The exit code is kExitDamaged where something cannot be read; why is complained
// about.

#ifndef GPUMEM_ANALYZER_CLI_FILES_PACKET_TEXT_H_
#define GPUMEM_ANALYZER_CLI_FILES_PACKET_TEXT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/console.h"
#include "base/text_sink.h"
#include "replay/analyze.h"

namespace gpumem {

struct PacketTextRequest {
  std::string place;           // "" = the newest trace here
  AnalyzeOptions filter = {};  // of events
  bool json = false;           // one object a line
  uint64_t limit = 0;          // stop after so many packets or events; 0 = all
};

struct PacketTextOutput {
  TextSink sink;
  std::function<bool()> failed;  // nothing more is taken
};

// In protobuf's text form, decompressed.
absl::StatusOr<int> WritePackets(const PacketTextRequest& request, const PacketTextOutput& out, Console* console);
// Times are since the first event.
absl::StatusOr<int> WriteEventLines(const PacketTextRequest& request, const PacketTextOutput& out, Console* console);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_FILES_PACKET_TEXT_H_
