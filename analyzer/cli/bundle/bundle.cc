// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/bundle/bundle.h"

#include <limits.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/output_file.h"
#include "base/process.h"
#include "base/status_macros.h"
#include "cli/bundle/masked_trace.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

struct BundlePart {
  const char* name;
  std::vector<std::string> command;
  bool of_trace;
};

const std::vector<BundlePart>& Parts() {
  static const auto* const parts = new std::vector<BundlePart>{
      {"report.txt", {"report", "--full"}, true},
      {"report.json", {"report", "--full", "--json"}, true},
      {"info.txt", {"info"}, true},
      {"info.json", {"info", "--json"}, true},
      {"explain.txt", {"explain", "--full", "--no-replay"}, true},
      {"leaks.json", {"leaks", "--json"}, true},
      {"steps.json", {"steps", "--json"}, true},
      {"timeline.png", {"plot", "timeline", "-o", "-"}, true},
      {"peak.png", {"plot", "peak", "-o", "-"}, true},
      {"doctor.txt", {"doctor"}, false},
      {"doctor.json", {"doctor", "--json"}, false},
  };
  return *parts;
}

constexpr char kAboutTheBundle[] = R"(A diagnose bundle of gpumemshim, for a report of a bug.

report, info, explain, leaks, steps   what gpumemshim says of the trace
timeline.png, peak.png                pictures of it
doctor                                the machine on which the bundle was made; the recording may be of another one
errors.txt                            what commands wrote to standard error, and how they ended
trace.gmtrace                         the trace, masked like all the rest; only with --with-trace

Masked, in everything: secrets, as docs/secrets.md lists them; folders of files (/dir1, /dir2, ...; the same number is
the same folder); names of users and of the hosts that are known; URLs; addresses of machines and people; identifiers
of GPUs. What stays: names of files, functions, classes, modules and tensors, of everything below site-packages and
/usr, relative paths, names of other hosts where they stand alone, and what marks and arguments say in plain words.
Please look through it before you send it.

)";

// A JSON text with every string in it masked; the text as such where it is none.
std::string MaskedJson(const std::string& text, Masker* masker, bool names_only) {
  nlohmann::ordered_json root = nlohmann::ordered_json::parse(text, nullptr, false);
  if (root.is_discarded()) return masker->Text(text);
  std::vector<nlohmann::ordered_json*> open = {&root};
  while (!open.empty()) {
    nlohmann::ordered_json* const value = open.back();
    open.pop_back();
    if (value->is_string()) {
      const std::string plain = value->get<std::string>();
      *value = names_only ? masker->Names(plain) : masker->Value(plain);
    } else if (value->is_structured()) {
      for (nlohmann::ordered_json& each : *value) open.push_back(&each);
    }
  }
  return root.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Answers about the masked copy hold nothing that is not masked, but for the name of the copy.
std::string MaskedAnswer(const BundlePart& part, const std::string& output, Masker* masker) {
  if (absl::EndsWith(part.name, ".png")) return output;
  if (absl::EndsWith(part.name, ".json")) return MaskedJson(output, masker, part.of_trace);
  return part.of_trace ? masker->Names(output) : masker->Text(output);
}

std::string MaskedList(const Masker& masker) {
  std::string text = "Replaced here:\n";
  for (size_t i = 0; i < kMaskedKinds; ++i) {
    const auto kind = static_cast<MaskedKind>(i);
    absl::StrAppend(&text, "  ", MaskedKindName(kind), ": ", masker.count(kind), "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.good() && !file.eof()) return absl::UnavailableError(absl::StrCat("cannot read ", path));
  return bytes;
}

namespace {

// The trace with names of native frames, which are found by paths that are masked afterwards; then its masked copy.
absl::StatusOr<std::string> MaskedCopy(const BundleOptions& options, Masker* masker, std::string* errors) {
  const std::string named = absl::StrCat(options.folder, "/named.gmtrace");
  const std::string masked = absl::StrCat(options.folder, "/trace.gmtrace");
  ChildOutput child;
  const bool is_trace = absl::EndsWith(options.trace, ".gmtrace");
  std::vector<std::string> command = {options.gpumem, "import"};
  if (is_trace) command = {options.gpumem, "export", "trace", "--names"};
  command.insert(command.end(), {"-o", named, options.trace});
  GPUMEM_ASSIGN_OR_RETURN(const ChildOutput::Result result, child.Run(command));
  if (!fs::exists(named)) {
    absl::string_view why = absl::StripTrailingAsciiWhitespace(result.errors);
    absl::ConsumePrefix(&why, "gpumemshim: ");
    return absl::UnavailableError(absl::StrCat("no bundle: ", why));
  }
  if (!result.errors.empty()) absl::StrAppend(errors, "copy: ", masker->Text(result.errors));
  GPUMEM_RETURN_IF_ERROR(WriteMaskedTrace({named}, masked, masker));
  RemovePlainFile(named);
  return masked;
}

}  // namespace

void LearnThisMachine(Masker* masker) {
  char host[HOST_NAME_MAX + 1] = {};
  if (gethostname(host, sizeof host - 1) == 0) masker->AddHost(host);
  for (const char* name : {"USER", "LOGNAME", "SUDO_USER"}) {
    if (const char* value = std::getenv(name)) masker->AddUser(value);
  }
  if (const passwd* entry = getpwuid(getuid())) {
    masker->AddUser(entry->pw_name);
    masker->AddFolder(entry->pw_dir);
  }
  for (const char* name : {"HOME", "PWD", "VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* value = std::getenv(name)) masker->AddFolder(value);
  }
}

absl::StatusOr<Bundle> CollectBundle(const BundleOptions& options, Masker* masker) {
  Bundle bundle;
  std::string errors;
  GPUMEM_ASSIGN_OR_RETURN(const std::string copy, MaskedCopy(options, masker, &errors));
  masker->AddFolder(options.folder);
  bundle.files.push_back({"README.txt", ""});
  uint64_t done = 0;
  for (const BundlePart& part : Parts()) {
    if (options.progress) options.progress("bundle", done++, Parts().size());
    std::vector<std::string> command = {options.gpumem};
    command.insert(command.end(), part.command.begin(), part.command.end());
    if (part.of_trace) command.push_back(copy);
    ChildOutput child;
    const absl::StatusOr<ChildOutput::Result> result = child.Run(command);
    const std::string said = result.ok() ? result->errors : std::string(result.status().message());
    const int code = result.ok() ? result->exit_code : 127;
    if (code != 0 || !said.empty())
      absl::StrAppend(&errors, part.name, ": exit code ", code, "\n", masker->Text(said), "\n");
    if (result.ok() && !result->output.empty())
      bundle.files.push_back({part.name, MaskedAnswer(part, result->output, masker)});
    if (!result.ok() || result->output.empty()) bundle.failed.push_back(absl::StrCat(part.name, ": exit code ", code));
  }
  bundle.files.push_back({"errors.txt", errors.empty() ? "none\n" : errors});
  if (options.with_trace) {
    GPUMEM_ASSIGN_OR_RETURN(std::string bytes, FileBytes(copy));
    bundle.files.push_back({"trace.gmtrace", std::move(bytes)});
  }
  bundle.files.front().bytes = absl::StrCat(kAboutTheBundle, "gpumemshim ", GPUMEM_VERSION, "\n", MaskedList(*masker));
  return bundle;
}

}  // namespace gpumem
