// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Writes a trace anew with the names of its native frames in it. Every packet is copied as it is; behind those of each
// process come its names, as definitions, and what the ring of a killed process still held. Only the numbers of the
// closing packets (End, Continued) change. Not thread-safe.
//
//   SymbolizedCopy copy(options);
//   GPUMEM_RETURN_IF_ERROR(copy.Append("run.gmtrace", file.get()));
//   copy.modules();

#ifndef GPUMEM_ANALYZER_CLI_FILES_SYMBOLIZED_COPY_H_
#define GPUMEM_ANALYZER_CLI_FILES_SYMBOLIZED_COPY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/output_file.h"
#include "gpumem/trace.pb.h"
#include "symbols/symbolizer.h"
#include "trace/packet_reader.h"
#include "trace/ring/ring_recovery.h"

namespace gpumem {

class SymbolizedCopy {
 public:
  // Options for the process with this header, in this file.
  using OptionsFor = std::function<SymbolizerOptions(const std::string& from, const trace::Header& header)>;
  explicit SymbolizedCopy(OptionsFor options) : options_(std::move(options)) {}

  // Copies one file behind what is in `file` already.
  absl::Status Append(const std::string& from, OutputFile* file);

  // Of all files and processes so far.
  const std::vector<ModuleReport>& modules() const { return modules_; }
  const std::vector<std::string>& notes() const { return notes_; }
  uint64_t recovered_events() const { return recovered_events_; }
  bool running() const { return running_; }              // a process of it goes on writing
  const std::string& damage() const { return damage_; }  // what follows it was not copied

 private:
  // The packets of one process, or of one file of its series.
  struct Section {
    trace::Header header;
    StackTable stacks;
    uint64_t begin = 0, end = 0;  // in the file
    uint64_t next_sequence = 0;
    bool ended = false;
    // The closing packet, where it is the last one.
    std::optional<RecoveredPacket> closing;
    uint64_t closing_offset = 0;
  };
  void Take(const RawPacket& packet, Section* section);
  absl::Status Finish(const std::string& from, RingsOfTrace* rings, Section* section, OutputFile* file);
  Recovery TakeFromRing(RingsOfTrace* rings, Section* section);
  absl::Status WriteNames(const std::string& from, const Section& section, uint64_t* sequence, OutputFile* file);
  void Note(const std::string& note);

  OptionsFor options_;
  std::vector<ModuleReport> modules_;
  std::vector<std::string> notes_;
  uint64_t recovered_events_ = 0;
  bool running_ = false;
  std::string damage_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_FILES_SYMBOLIZED_COPY_H_
