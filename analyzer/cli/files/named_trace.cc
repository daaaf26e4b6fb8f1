// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/files/named_trace.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/files/symbolized_copy.h"
#include "ledger/load/find_traces.h"
#include "ledger/load/own_trace.h"
#include "render/page.h"
#include "replay/process_info.h"
#include "symbols/elf_identity.h"
#include "trace/series.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kTraceEnding = ".gmtrace";

absl::string_view SourceName(SymbolSource source) {
  switch (source) {
    case SymbolSource::kTrace:
      return "trace";
    case SymbolSource::kCache:
      return "cache";
    case SymbolSource::kFile:
      return "file";
    case SymbolSource::kNone:
      break;
  }
  return "none";
}

std::string NameOfSymbolized(const std::string& from) {
  return absl::StrCat(absl::StripSuffix(from, kTraceEnding), ".symbolized", kTraceEnding);
}

// One written file: what it was made of, and what is in it.
struct Written {
  std::vector<std::string> from;
  std::string to;
  SymbolizedCopy copy;
};

void AddModule(const ModuleReport& module, JsonWriter* json) {
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("module", module.path);
  json->Field("build_id", BuildIdText(module.build_id));
  json->Field("source", SourceName(module.source));
  json->Field("file", module.file);
  json->Field("addresses", static_cast<uint64_t>(module.addresses));
  json->Field("named", static_cast<uint64_t>(module.named));
  json->Field("with_lines", static_cast<uint64_t>(module.with_lines));
  json->Key("problem");
  if (module.problem.empty()) {
    json->Null();
  } else {
    json->Value(module.problem);
  }
  json->EndObject();
}

std::string WrittenJson(const std::vector<Written>& all) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Field("schema_version", kJsonSchemaVersion);
  json.Field("command", "export");
  json.Key("files");
  json.BeginArray();
  for (const Written& written : all) {
    json.BeginObject();
    json.Key("from");
    json.BeginArray();
    for (const std::string& file : written.from) json.Value(file);
    json.EndArray();
    json.Field("file", written.to);
    json.Field("recovered_events", written.copy.recovered_events());
    json.Key("modules");
    json.BeginArray();
    for (const ModuleReport& module : written.copy.modules()) AddModule(module, &json);
    json.EndArray();
    json.Key("notes");
    json.BeginArray();
    for (const std::string& note : written.copy.notes()) json.Value(note);
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out += '\n';
  return out;
}

void AddWritten(const Written& written, Page* page) {
  size_t addresses = 0, named = 0, with_lines = 0;
  std::vector<Page::Row> rows = {{"module", "addresses", "named", "lines", ""}};
  for (const ModuleReport& module : written.copy.modules()) {
    addresses += module.addresses;
    named += module.named;
    with_lines += module.with_lines;
    rows.push_back({module.path.substr(module.path.rfind('/') + 1), FormatCount(module.addresses),
                    FormatCount(module.named), FormatCount(module.with_lines), module.problem});
  }
  page->Paragraph("", absl::StrCat(written.to, ": names for ", FormatCount(named), " of ",
                                   FormatCountOf(addresses, "native address", "native addresses"),
                                   ", source lines for ", FormatCount(with_lines)));
  if (rows.size() > 1)
    page->Table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kLeft}, rows, /*heading=*/true);
  if (written.copy.recovered_events() > 0)
    page->Line(absl::StrCat(FormatCountOf(written.copy.recovered_events(), "event", "events"),
                            " taken from the ring of the killed process"));
  if (written.copy.running()) page->Line("The program still runs: this is what was recorded so far.");
  for (const std::string& note : written.copy.notes()) page->Paragraph("  - ", note, Tone::kAside);
}

class TraceNamer {
 public:
  explicit TraceNamer(const NameRequest& request) : request_(request) {}

  absl::StatusOr<int> Run(Console* console) {
    GPUMEM_ASSIGN_OR_RETURN(options_, request_.symbols.Options());
    const std::vector<std::string>& arguments = request_.places;
    std::vector<Written> all;
    int code = kExitFine;
    for (const std::string& argument : arguments.empty() ? std::vector<std::string>{""} : arguments) {
      const absl::Status status = SymbolizeOne(argument, &all, console);
      console->ProgressDone();
      if (status.ok()) continue;
      console->Complain(absl::StrCat(status.message(), "."));
      code = kExitCannotRead;
    }
    for (const Written& written : all) {
      if (written.copy.damage().empty()) continue;
      console->Complain(absl::StrCat(written.copy.damage(), ". ", written.to, " has the same damage."));
      code = std::max<int>(code, kExitDamaged);
    }
    Tell(all, console);
    return code;
  }

 private:
  absl::Status SymbolizeOne(const std::string& argument, std::vector<Written>* all, Console* console) const {
    GPUMEM_ASSIGN_OR_RETURN(const std::string path, FindTrace(argument));
    std::vector<std::string> files;
    for (const SeriesFile& file : FindSeries(path).files) files.push_back(file.path);
    if (!request_.in_place)
      return Write(files, request_.output.empty() ? NameOfSymbolized(files.front()) : request_.output, all, console);
    for (const std::string& file : files) {
      std::error_code error;
      const fs::path real = fs::canonical(file, error);  // a link stays one
      GPUMEM_RETURN_IF_ERROR(Write({error ? file : real.string()}, error ? file : real.string(), all, console));
    }
    return absl::OkStatus();
  }

  // Several files, one behind the other, are one trace: a series in its order.
  absl::Status Write(const std::vector<std::string>& from, const std::string& to, std::vector<Written>* all,
                     Console* console) const {
    Written written{from, to, SymbolizedCopy([this, console](const std::string& file, const trace::Header& header) {
                      SymbolizerOptions options = options_;
                      options.search.working_directory = header.working_directory();
                      options.search.needs_build_ids = !IsOwnTrace(file, ProcessInfoOf(header));
                      options.progress = [console](const std::string& what, uint64_t done, uint64_t all_of_it) {
                        console->Progress(what, done, all_of_it);
                      };
                      return options;
                    })};
    const OutputOptions new_file{
        .is_named = !request_.output.empty(), .keeps = !request_.in_place, .is_durable = true, .like = from.front()};
    GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(to, new_file));
    for (const std::string& one : from) {
      GPUMEM_RETURN_IF_ERROR(written.copy.Append(one, file.get()));
    }
    if (request_.in_place && written.copy.running()) {
      return absl::FailedPreconditionError(
          absl::StrCat(to, ": the program still runs and writes to it. Write a copy with -o"));
    }
    if (request_.in_place && !written.copy.damage().empty()) {
      return absl::DataLossError(
          absl::StrCat(written.copy.damage(), ". A damaged file is not changed in place. Write a copy with -o"));
    }
    GPUMEM_RETURN_IF_ERROR(file->Commit());
    all->push_back(std::move(written));
    return absl::OkStatus();
  }

  void Tell(const std::vector<Written>& all, Console* console) const {
    if (request_.json) return console->Print(WrittenJson(all));
    if (all.empty()) return;
    Page page(console->out_style());
    for (const Written& written : all) AddWritten(written, &page);
    page.Line(absl::StrCat("Next: gpumemshim report ", ShellQuoted(all.back().to)), Tone::kAside);
    console->Print(page.text());
  }

  const NameRequest& request_;
  SymbolizerOptions options_;
};

}  // namespace

absl::StatusOr<int> WriteNamedTraces(const NameRequest& request, Console* console) {
  if (!request.output.empty() && (request.in_place || request.places.size() > 1))
    return absl::InvalidArgumentError("-o names one new file: give one FILE with it, and not --in-place.");
  return TraceNamer(request).Run(console);
}

}  // namespace gpumem
