// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/sections.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "render/draw.h"
#include "trace/packet_reader.h"

namespace gpumem {
namespace {

// Packets and processes are those of the whole file: the analysis is of its first process.
FileCounts Count(const LoadedTrace& loaded) {
  FileCounts counts;
  counts.stack_nodes = loaded.stacks.stack_count();
  counts.frames = loaded.stacks.frame_count();
  counts.modules = loaded.stacks.modules().size();
  absl::StatusOr<PacketReader> reader = PacketReader::Open(loaded.analysis.path);
  if (!reader.ok()) return counts;
  RawPacket packet;
  while (reader->Next(&packet) == PacketReader::Outcome::kPacket) {
    counts.packets += packet.compressed ? 0 : 1;  // those of the file
    if (packet.type == PacketType::kHeader) ++counts.sections;
  }
  return counts;
}

class InfoCommand final : public Command {
 public:
  absl::string_view name() const override { return "info"; }
  CommandPlace place() const override { return {CommandGroup::kReport, 12}; }
  absl::string_view summary() const override {
    return "a trace file's program, versions, counts, dropped events and size";
  }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Prints the metadata of a trace: program, versions, settings, counts and dropped events.

  gpumemshim info run.gmtrace
  gpumemshim info --json | jq '.losses'
)";
  }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    trace_.shows_stacks = false;
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadSection(trace_, arguments, console));
    const FileCounts counts = Count(*loaded);
    const Document answer = InfoAnswer(loaded->input, counts);
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    return ExitCodeOf(*loaded);
  }

 private:
  TraceOptions trace_;
};

}  // namespace

std::unique_ptr<Command> MakeInfoCommand() { return std::make_unique<InfoCommand>(); }

}  // namespace gpumem
