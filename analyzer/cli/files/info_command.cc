// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "answers/report/answers_json.h"
#include "answers/report/sections.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "render/draw.h"
#include "trace/import_info.h"
#include "trace/packet_reader.h"

namespace gpumem {
namespace {

// Packets and processes of the whole file: the analysis is of its first process.
InfoJsonExtras CountPackets(const std::string& path) {
  InfoJsonExtras extras{0, 0};
  absl::StatusOr<PacketReader> reader = PacketReader::Open(path);
  if (!reader.ok()) return extras;
  RawPacket packet;
  while (reader->Next(&packet) == PacketReader::Outcome::kPacket) {
    extras.packets += packet.compressed ? 0 : 1;  // those of the file
    if (packet.type == PacketType::kHeader) ++extras.sections;
  }
  return extras;
}

void AddMap(absl::string_view title, const std::map<std::string, std::string>& values, Document* text) {
  if (values.empty()) return;
  text->Gap();
  text->Line(title, Tone::kHeading);
  std::vector<Page::Row> rows;
  rows.reserve(values.size());
  for (const auto& [name, value] : values) rows.push_back({name, value});
  text->Cells({Align::kLeft, Align::kLeft}, rows, /*heading=*/false);
}

void AddCounts(const LoadedTrace& loaded, const InfoJsonExtras& extras, Document* text) {
  const Analysis& analysis = loaded.analysis;
  text->Gap();
  text->Line("Counts", Tone::kHeading);
  std::vector<Page::Row> rows = {{"processes in the file", FormatCount(extras.sections)},
                                 {"packets", FormatCount(extras.packets)}};
  const uint64_t events = analysis.events.torch + analysis.events.runtime + analysis.events.driver;
  rows.push_back({"events", FormatCount(events)});
  if (analysis.recovered_events > 0)
    rows.push_back({"  from the ring of the killed process", FormatCount(analysis.recovered_events)});
  uint64_t of_every_kind = 0;
  for (const auto& [kind, count] : analysis.events.by_kind) {
    rows.push_back({absl::StrCat("  ", absl::AsciiStrToLower(kind)), FormatCount(count)});
    of_every_kind += count;
  }
  if (of_every_kind > 0) {
    const double bytes = static_cast<double>(analysis.file_bytes) / static_cast<double>(of_every_kind);
    rows.push_back({"bytes an event", absl::StrFormat("%.1f", bytes)});
  }
  rows.push_back({"stack nodes", FormatCount(loaded.stacks.stack_count())});
  rows.push_back({"frames", FormatCount(loaded.stacks.frame_count())});
  rows.push_back({"modules", FormatCount(loaded.stacks.modules().size())});
  text->Cells({Align::kLeft, Align::kRight}, rows, /*heading=*/false);
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
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(trace_, arguments, console));
    const InfoJsonExtras extras = CountPackets(loaded->analysis.path);
    if (trace_.json) {
      console->Print(InfoJson(loaded->input, extras));
      return ExitCodeOf(*loaded);
    }
    const ProcessInfo& process = loaded->analysis.process;
    Document text;
    AddHead(loaded->input, Detail::kFull, &text);
    if (const ImportInfo imported = ImportInfoOf(process.settings); imported.any()) {
      text.Line(absl::StrCat("  made from  ", imported.source, ", a ", imported.format, ", by gpumemshim import ",
                             process.writer_version));
    } else {
      text.Line(absl::StrCat("  folder  ", process.working_directory));
      text.Line(absl::StrCat("  binary  ", process.executable));
      text.Line(absl::StrCat("  writer  libgpumemshim.so ", process.writer_version));
    }
    AddCounts(*loaded, extras, &text);
    std::map<std::string, std::string> settings = process.settings;
    std::erase_if(settings, [](const auto& setting) { return absl::StartsWith(setting.first, kImportPrefix); });
    AddMap("Settings", settings, &text);
    AddMap("Environment", process.environment, &text);
    AddLosses(loaded->input, &text);
    AddNotes(loaded->input, &text);
    console->Print(ToText(text, console->out_style()));
    return ExitCodeOf(*loaded);
  }

 private:
  TraceOptions trace_;
};

}  // namespace

std::unique_ptr<Command> MakeInfoCommand() { return std::make_unique<InfoCommand>(); }

}  // namespace gpumem
