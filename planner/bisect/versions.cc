// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Versions of a package that the program imports, each in a folder of its own in front of the interpreter's own
// packages: the environment of the user is read, and never written. pip decides what must move along with a version;
// PyTorch and NVIDIA's libraries stay as they are.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/json_reader.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "planner/bisect/history.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

// What stays as it is installed, and is never moved along.
constexpr char kAskFixed[] = R"(
from importlib import metadata
import re
seen = {}
for one in metadata.distributions():
    name = re.sub(r"[-_.]+", "-", one.metadata["Name"] or "").lower()
    if re.fullmatch(r"torch|torchvision|torchaudio|triton|nvidia-.*|cuda-.*", name):
        seen.setdefault(name, one.version)
print("\n".join(f"{name}=={version}" for name, version in seen.items()))
)";

// argv: the two ends, then all versions. Those from one end to the other, by PEP 440; pre-releases only as ends.
constexpr char kAskOrder[] = R"(
import sys
from pip._vendor.packaging.version import InvalidVersion, Version
def read(text):
    try:
        return Version(text)
    except InvalidVersion:
        return None
ends = [Version(text) for text in sys.argv[1:3]]
known = {read(text): text for text in sys.argv[3:] if read(text) is not None}
for end, text in zip(ends, sys.argv[1:3]):
    known.setdefault(end, text)
inside = sorted(v for v in known if min(ends) <= v <= max(ends) and (not v.is_prerelease or v in ends))
print("\n".join(known[v] for v in inside))
)";

bool StaysInstalled(const std::string& name) {
  const std::string lower = absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", "-"}, {".", "-"}});
  static const auto* const kNames = new std::set<std::string>{"torch", "torchvision", "torchaudio", "triton"};
  return kNames->count(lower) != 0 || absl::StartsWith(lower, "nvidia-") || absl::StartsWith(lower, "cuda-");
}

class VersionHistory final : public History {
 public:
  VersionHistory(const VersionsRequest& request, std::string folder)
      : request_(request), folder_(std::move(folder)), python_(InterpreterOf(request.command)) {}

  absl::Status Open() {
    GPUMEM_RETURN_IF_ERROR(FindPip());
    GPUMEM_ASSIGN_OR_RETURN(const std::string fixed, OutputOf(Words({python_, "-c", kAskFixed})));
    const std::string constraints = absl::StrCat(folder_, "/constraints.txt");
    GPUMEM_RETURN_IF_ERROR(WriteOutput(constraints, absl::StrCat(fixed, "\n"), {.hint = "Give another --results-dir"}));
    return List();
  }

  absl::Status Prepare(size_t index, RunRequest* run) override {
    const std::string packages = absl::StrCat(folder_, "/packages/", states_[index].name);
    if (std::error_code error; !fs::is_directory(packages, error))
      GPUMEM_RETURN_IF_ERROR(Install(states_[index].name, packages));
    run->command = request_.command;
    run->environment.emplace_back("PYTHONPATH", PathWithFirst("PYTHONPATH", {packages}));
    run->environment.emplace_back("PYTHONDONTWRITEBYTECODE", "1");
    return absl::OkStatus();
  }

 private:
  static std::vector<std::string> Words(const std::vector<std::string>& command) {
    std::vector<std::string> words = {"PYTHONDONTWRITEBYTECODE=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_INPUT=1"};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  absl::StatusOr<std::string> Pip(std::vector<std::string> words) const {
    if (!request_.wheelhouse.empty() && words.front() != "--version") {
      std::error_code error;
      const std::string wheels = fs::absolute(request_.wheelhouse, error).string();
      words.insert(words.end(), {"--no-index", "--find-links", wheels});
    }
    std::vector<std::string> all = pip_;
    all.insert(all.end(), words.begin(), words.end());
    return OutputOf(Words(all));
  }

  absl::Status FindPip() {
    pip_ = {python_, "-m", "pip"};
    pip_python_ = python_;
    if (Pip({"--version"}).ok()) return absl::OkStatus();
    pip_ = {"python3", "-m", "pip", "--python", python_};
    pip_python_ = "python3";
    if (Pip({"--version"}).ok()) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("neither ", python_,
                                            " nor python3 has pip, which finds and installs the versions. ",
                                            "Install it: ", python_, " -m ensurepip"));
  }

  absl::Status List() {
    std::vector<std::string> words = {"index", "versions", request_.package};
    const absl::StatusOr<std::string> listed = Pip(words);
    if (absl::IsCancelled(listed.status())) return listed.status();
    if (!listed.ok())
      return absl::NotFoundError(absl::StrCat("no versions of ", request_.package,
                                              " are to be had: ", listed.status().message(),
                                              ". A folder of wheels serves as well: --wheelhouse DIR"));
    std::vector<std::string> order = {pip_python_, "-c", kAskOrder, request_.good, request_.bad};
    for (const absl::string_view line : absl::StrSplit(*listed, '\n')) {
      constexpr absl::string_view kBegin = "Available versions: ";
      if (!absl::StartsWith(line, kBegin)) continue;
      for (const absl::string_view version : absl::StrSplit(line.substr(kBegin.size()), ", ", absl::SkipWhitespace()))
        order.emplace_back(version);
    }
    const absl::StatusOr<std::string> inside = OutputOf(Words(order));
    if (absl::IsFailedPrecondition(inside.status()))
      return absl::InvalidArgumentError(
          absl::StrCat(request_.good, " and ", request_.bad, " are not both versions: ", inside.status().message()));
    GPUMEM_RETURN_IF_ERROR(inside.status());
    for (const absl::string_view version : absl::StrSplit(*inside, '\n', absl::SkipEmpty())) {
      states_.push_back({std::string(version),
                         absl::StrCat(request_.package, "==", version, " ", python_, " ", request_.wheelhouse), "", "",
                         ""});
    }
    return absl::OkStatus();
  }

  // What pip would change in the user's environment for this version: names and versions.
  absl::StatusOr<std::vector<std::string>> Needed(const std::string& version) {
    const std::string wanted = absl::StrCat(request_.package, "==", version);
    const absl::StatusOr<std::string> report =
        Pip({"install", "--dry-run", "--quiet", "--report", "-", "--constraint", folder_ + "/constraints.txt", wanted});
    GPUMEM_RETURN_IF_ERROR(report.status());
    GPUMEM_ASSIGN_OR_RETURN(const nlohmann::json read, ParseJson(*report));
    std::vector<std::string> needed;
    for (const nlohmann::json& one : read.value("install", nlohmann::json::array())) {
      const nlohmann::json metadata = one.value("metadata", nlohmann::json::object());
      const std::string name = metadata.value("name", "");
      if (!name.empty() && !StaysInstalled(name))
        needed.push_back(absl::StrCat(name, "==", metadata.value("version", "")));
    }
    if (needed.empty()) needed.push_back(wanted);  // it is what is installed
    return needed;
  }

  absl::Status Install(const std::string& version, const std::string& packages) {
    absl::StatusOr<std::vector<std::string>> needed = Needed(version);
    if (absl::IsCancelled(needed.status())) return needed.status();
    if (!needed.ok())
      return absl::FailedPreconditionError(absl::StrCat("cannot be installed: ", needed.status().message()));
    const std::string half = absl::StrCat(folder_, "/packages/.half");
    std::error_code error;
    fs::remove_all(half, error);
    std::vector<std::string> words = {"install", "--quiet", "--no-deps", "--no-compile", "--target", half};
    words.insert(words.end(), needed->begin(), needed->end());
    const absl::StatusOr<std::string> installed = Pip(words);
    if (absl::IsFailedPrecondition(installed.status()))
      return absl::FailedPreconditionError(absl::StrCat("cannot be installed: ", installed.status().message()));
    GPUMEM_RETURN_IF_ERROR(installed.status());
    fs::rename(half, packages, error);
    if (error) return absl::UnavailableError(absl::StrCat("cannot make ", packages, ": ", error.message()));
    NoteMoved(*needed);
    return absl::OkStatus();
  }

  void NoteMoved(const std::vector<std::string>& needed) {
    for (const std::string& one : needed) {
      const std::string name = one.substr(0, one.find('='));
      if (!absl::EqualsIgnoreCase(absl::StrReplaceAll(name, {{"_", "-"}}),
                                  absl::StrReplaceAll(request_.package, {{"_", "-"}})))
        moved_.insert(name);
    }
    notes_.clear();
    if (!moved_.empty())
      notes_.push_back(absl::StrCat("moved along with it where a version asks for it: ", absl::StrJoin(moved_, ", ")));
  }

  const VersionsRequest request_;
  const std::string folder_, python_;
  std::vector<std::string> pip_;
  std::string pip_python_;
  std::set<std::string> moved_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<History>> OpenVersions(const VersionsRequest& request, const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder + "/packages", error);
  auto history = std::make_unique<VersionHistory>(request, folder);
  GPUMEM_RETURN_IF_ERROR(history->Open());
  return history;
}

}  // namespace gpumem::plan
