// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file_output.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/output_file.h"
#include "base/utf8.h"
#include "cli/bundle/bundle.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "ledger/load/example_traces.h"
#include "ledger/load/find_traces.h"
#include "render/page.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

class BundleCommand final : public Command {
 public:
  absl::string_view name() const override { return "bundle"; }
  CommandPlace place() const override { return {CommandGroup::kFiles, 3}; }
  absl::string_view summary() const override { return "a masked archive of a trace's answers, for a bug report"; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR] [-o OUT.zip]"; }
  absl::string_view help() const override {
    return R"(Writes NAME.bundle.zip beside the trace: report, info, explain, leaks, steps, pictures, and what doctor says of this
machine, for a report of a bug. Secrets, folders, names of users and hosts, URLs, addresses and GPU identifiers
are masked in all of it, also inside the trace, which --with-trace adds. Nothing is sent anywhere.
--show-masked prints what was replaced by what, so that you can judge it; that list is not in the archive.

  gpumemshim bundle run.gmtrace
  gpumemshim bundle run.gmtrace --with-trace -o bug.zip
  gpumemshim bundle --show-masked
)";
  }

  void AddFlags(Flags* flags) override {
    flags->Add("-o,--output", &output_, "where the archive goes").Value("OUT.zip");
    flags->Add("--with-trace", &with_trace_, "put the masked trace into it, too");
    flags->Add("--show-masked", &show_masked_, "print what was replaced by what");
    flags->Add("--json", &json_, "what was written, for machines (docs/json.md)");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (!output_.empty() && !absl::EndsWith(output_, ".zip"))
      return absl::InvalidArgumentError(absl::StrCat(output_, " is not a zip archive. End its name with .zip."));
    GPUMEM_ASSIGN_OR_RETURN(const std::string trace, FindTrace(arguments.empty() ? "" : arguments[0]));
    GPUMEM_ASSIGN_OR_RETURN(const std::string folder, NewTemporaryFolder("bundle"));
    const absl::Cleanup remove_it = [&folder] {
      std::error_code ignored;
      fs::remove_all(folder, ignored);
    };
    // What commands keep of the copy goes with it.
    setenv("XDG_CACHE_HOME", absl::StrCat(folder, "/cache").c_str(), 1);
    Masker masker;
    LearnThisMachine(&masker);
    BundleOptions options{"/proc/self/exe", trace, folder, with_trace_, {}};
    options.progress = [console](const std::string& what, uint64_t done, uint64_t all) {
      console->Progress(what, done, all);
    };
    const absl::StatusOr<Bundle> bundle = CollectBundle(options, &masker);
    console->ProgressDone();
    GPUMEM_RETURN_IF_ERROR(bundle.status());
    GPUMEM_ASSIGN_OR_RETURN(const std::string path, Write(*bundle, trace, folder));
    console->Print(json_ ? Json(*bundle, path, masker) : Text(*bundle, path, masker, *console));
    return kExitFine;
  }

 private:
  absl::StatusOr<std::string> Write(const Bundle& bundle, const std::string& trace, const std::string& folder) const {
    const std::string beside = fs::path(BesideTrace(trace)).replace_extension(".bundle.zip").string();
    const std::string path = output_.empty() ? beside : output_;
    const std::string made = absl::StrCat(folder, "/bundle.zip");
    GPUMEM_RETURN_IF_ERROR(WriteZip(made, bundle.files));
    GPUMEM_ASSIGN_OR_RETURN(const std::string bytes, FileBytes(made));
    GPUMEM_RETURN_IF_ERROR(WriteOutput(path, bytes, {.is_named = !output_.empty(), .like = trace}));
    return path;
  }

  std::string Text(const Bundle& bundle, const std::string& path, const Masker& masker, const Console& console) const {
    Page page(console.out_style());
    std::error_code error;
    page.Line(absl::StrCat(path, ": ", FormatBytes(fs::file_size(path, error)), ", ",
                           FormatCountOf(bundle.files.size(), "file", "files")));
    std::vector<std::string> kinds;
    for (size_t i = 0; i < kMaskedKinds; ++i) {
      const auto kind = static_cast<MaskedKind>(i);
      if (masker.count(kind) > 0) kinds.push_back(absl::StrCat(MaskedKindName(kind), " ", masker.count(kind)));
    }
    page.Paragraph("  masked: ", kinds.empty() ? "nothing was found" : absl::StrJoin(kinds, ", "));
    for (const std::string& failed : bundle.failed) page.Paragraph("  missing: ", failed, Tone::kWarning);
    for (const auto& [what, by] : masker.replaced()) {
      if (show_masked_) page.Paragraph("    ", absl::StrCat(MaskedKindName(by.kind), ": ", what, " -> ", by.with));
    }
    page.Paragraph("  ", "Names of files, functions and modules are in it. Look through it before you send it.");
    return page.text();
  }

  std::string Json(const Bundle& bundle, const std::string& path, const Masker& masker) const {
    std::string text;
    JsonWriter json(&text);
    std::error_code error;
    json.BeginObject();
    json.Field("schema_version", kJsonSchemaVersion);
    json.Field("command", "bundle");
    json.Field("file", path);
    json.Field("bytes", static_cast<uint64_t>(fs::file_size(path, error)));
    json.Key("files");
    json.BeginArray();
    for (const BundleFile& file : bundle.files) json.Value(file.name);
    json.EndArray();
    json.Key("failed");
    json.BeginArray();
    for (const std::string& failed : bundle.failed) json.Value(failed);
    json.EndArray();
    json.Key("masked");
    json.BeginObject();
    for (size_t i = 0; i < kMaskedKinds; ++i)
      json.Field(MaskedKindName(static_cast<MaskedKind>(i)), masker.count(static_cast<MaskedKind>(i)));
    json.EndObject();
    if (show_masked_) AddReplaced(masker, &json);
    json.EndObject();
    return text + "\n";
  }

  static void AddReplaced(const Masker& masker, JsonWriter* json) {
    json->Key("replaced");
    json->BeginArray();
    for (const auto& [what, by] : masker.replaced()) {
      json->BeginObject(JsonLayout::kOneLine);
      json->Field("kind", MaskedKindName(by.kind));
      json->Field("text", what);
      json->Field("with", by.with);
      json->EndObject();
    }
    json->EndArray();
  }

  std::string output_;
  bool with_trace_ = false, show_masked_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeBundleCommand() { return std::make_unique<BundleCommand>(); }

}  // namespace gpumem
