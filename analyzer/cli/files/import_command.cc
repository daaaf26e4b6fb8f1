// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "import/import.h"

namespace gpumem {
namespace {

// snapshot.pickle and snapshot.pickle.gz become snapshot.gmtrace, beside the file.
std::string NameOfTrace(absl::string_view path) {
  absl::ConsumeSuffix(&path, ".gz");
  for (const absl::string_view ending : {".pickle", ".pkl", ".csv", ".json"}) {
    if (absl::ConsumeSuffix(&path, ending)) break;
  }
  return absl::StrCat(path, ".gmtrace");
}

class ImportCommand final : public Command {
 public:
  absl::string_view name() const override { return "import"; }
  CommandPlace place() const override { return {CommandGroup::kFiles, 1}; }
  absl::string_view summary() const override { return "a trace of PyTorch's snapshot (.pickle), or others' records"; }
  bool takes_traces() const override { return false; }
  absl::string_view arguments() const override { return "[FLAGS] FILE..."; }
  absl::string_view help() const override {
    return R"(Writes a trace, FILE.gmtrace, from what another program recorded, also gzipped:

  .pickle   torch.cuda.memory._dump_snapshot() of PyTorch 1.13 to 2.15, with or without history
  .json     the memory events of torch.profiler.profile(profile_memory=True), or export_memory_timeline
  .prof     jax.profiler.save_device_memory_profile(); .xplane.pb: jax.profiler.trace() and TensorFlow's profiler
  .sqlite   Nsight Systems: nsys profile --cuda-memory-usage=true, nsys export --type sqlite
  .csv      the log of RMM (rmm.reinitialize(logging=True)); .txt: its debug log
  lines     CuPy's DebugPrintHook

The format is known by the content. The file is read as data; nothing in it is run. Other commands take such
files directly: they import them into your cache first.

  gpumemshim import snapshot.pickle
  gpumemshim import snapshot.pickle -o run.gmtrace
  gpumemshim report snapshot.pickle
)";
  }
  size_t most_arguments() const override { return SIZE_MAX; }

  void AddFlags(Flags* flags) override {
    flags->Add("-o,--output", &output_, "the file to write").Value("FILE");
    flags->Add("--force", &force_, "replace a file that is there");
    flags->Add("--json", &json_, "what was imported, for machines");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (arguments.empty()) return absl::InvalidArgumentError("No file. Name a snapshot: gpumemshim import FILE.pickle");
    if (!output_.empty() && arguments.size() > 1)
      return absl::InvalidArgumentError("-o names one new file: give one FILE with it.");
    int code = kExitFine;
    std::string text;
    JsonWriter json(&text);
    json.BeginObject();
    json.Field("schema_version", kJsonSchemaVersion);
    json.Field("command", "import");
    json.Key("files");
    json.BeginArray();
    for (const std::string& path : arguments) {
      const absl::Status status = ImportOne(path, console, &json);
      if (status.ok()) continue;
      console->Complain(absl::StrCat(status.message(), "."));
      code = kExitCannotRead;
    }
    json.EndArray();
    json.EndObject();
    if (json_) console->Print(absl::StrCat(text, "\n"));
    return code;
  }

 private:
  absl::Status ImportOne(const std::string& path, Console* console, JsonWriter* json) const {
    const std::string to = output_.empty() ? NameOfTrace(path) : output_;
    OutputOptions options{.is_named = !output_.empty(), .keeps = !force_, .is_durable = true};
    if (!force_) absl::StrAppend(&options.hint, ", or replace one that is there by --force");
    GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(to, options));
    const auto sink = [&](absl::string_view bytes) { return file->Write(bytes); };
    const auto progress = [&](uint64_t done, uint64_t all) {
      console->Progress(absl::StrCat("importing ", path), done, all);
    };
    const absl::StatusOr<ImportResult> result = ImportFile(path, sink, progress);
    console->ProgressDone();
    GPUMEM_RETURN_IF_ERROR(result.status());
    GPUMEM_RETURN_IF_ERROR(file->Commit());
    json_ ? AddJson(path, to, *result, json) : Tell(to, *result, console);
    return absl::OkStatus();
  }

  static void Tell(const std::string& to, const ImportResult& result, Console* console) {
    console->Say(absl::StrCat(to, ": ", FormatCountOf(result.events, "event", "events"), " on ",
                              FormatCountOf(result.devices, "GPU", "GPUs"), ", from a ", result.format,
                              ". Next: gpumemshim report ", ShellQuoted(to), "\n"));
    for (const std::string& note : result.notes) console->Say(absl::StrCat("  ", note, "\n"));
  }

  static void AddJson(const std::string& path, const std::string& to, const ImportResult& result, JsonWriter* json) {
    json->BeginObject();
    json->Field("source", path);
    json->Field("trace", to);
    json->Field("format", result.format);
    json->Field("events", result.events);
    json->Field("devices", result.devices);
    json->Key("notes");
    json->BeginArray();
    for (const std::string& note : result.notes) json->Value(note);
    json->EndArray();
    json->EndObject();
  }

  std::string output_;
  bool force_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeImportCommand() { return std::make_unique<ImportCommand>(); }

}  // namespace gpumem
