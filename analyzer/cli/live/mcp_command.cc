// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// gpumemshim mcp: becomes a Python that runs gpumemshim.mcp. The server is written once, on the protocol's own SDK,
// which follows the protocol's versions; this only finds a Python that has it, and says what is missing where there is
// none.

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "attach/preload.h"
#include "base/json_writer.h"
#include "base/process.h"
#include "cli/command.h"
#include "cli/commands.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

// Both run as `python -c CODE PACKAGE ...`. The working directory is not a place to import from: it is where the traces
// of somebody else may be. PACKAGE is the folder of the gpumemshim that belongs to this program, "" = the Python's own.
constexpr char kPaths[] =
    "import sys; sys.path[:] = sys.argv[1:2] * bool(sys.argv[1]) + [p for p in sys.path if p not in ('', '.')]; ";
constexpr char kAsk[] =
    "import importlib.util as u; "
    "print('gpumemshim', '%d.%d' % sys.version_info[:2], bool(u.find_spec('gpumemshim')), bool(u.find_spec('mcp')))";
constexpr char kServe[] = "del sys.argv[1]; from gpumemshim.mcp import main; sys.exit(main())";

fs::path OwnPath() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

// Of an installed tree or of a clone; "" where there is neither.
std::string PackageFolder() {
  const fs::path beside = OwnPath().parent_path();
  for (const char* place : {"../share/gpumemshim/python", "../../../python"}) {
    const fs::path folder = (beside / place).lexically_normal();
    std::error_code error;
    if (fs::is_regular_file(folder / "gpumemshim/mcp.py", error)) return folder.string();
  }
  return "";
}

std::vector<std::string> Candidates(const std::string& named) {
  if (!named.empty()) return {named};
  std::vector<std::string> all;
  const auto add = [&all](const char* variable, const char* rest) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') all.push_back(absl::StrCat(value, rest));
  };
  add("GPUMEMSHIM_INTERPRETER", "");
  add("VIRTUAL_ENV", "/bin/python");
  add("CONDA_PREFIX", "/bin/python");
  // The environment that a wheel went into: PREFIX/lib/python3.X/site-packages/gpumemshim/bin/gpumemshim.
  all.push_back((OwnPath().parent_path() / "../../../../../bin/python").lexically_normal().string());
  all.emplace_back("python3");
  return all;
}

// "" where it can serve, else what it lacks.
std::string Lack(const std::string& python, const std::string& package) {
  if (FindProgram(python).empty()) return "is not there";
  ChildOutput child;
  const absl::StatusOr<ChildOutput::Result> said =
      child.Run({FindProgram(python), "-c", absl::StrCat(kPaths, kAsk), package}, size_t{1} << 20);
  if (!said.ok()) return std::string(said.status().message());
  for (const absl::string_view line : absl::StrSplit(said->output, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() != 4 || words[0] != "gpumemshim") continue;
    std::vector<std::string> lacks;
    if (words[2] != "True") lacks.emplace_back("gpumemshim");
    if (words[3] != "True") lacks.emplace_back("mcp");
    if (lacks.empty()) return "";
    return absl::StrCat("(Python ", words[1], ") has no package ", absl::StrJoin(lacks, " and no package "));
  }
  return absl::StrCat("does not work as Python, exit code ", said->exit_code);
}

absl::StatusOr<std::string> FindPython(const std::string& named, const std::string& package) {
  std::vector<std::string> lacks;
  for (const std::string& python : Candidates(named)) {
    const std::string lack = Lack(python, package);
    if (lack.empty()) return FindProgram(python);
    if (lack != "is not there" || !named.empty()) lacks.push_back(absl::StrCat(python, " ", lack));
  }
  const std::string found = lacks.empty() ? "there is no Python here (no python3 on PATH)" : absl::StrJoin(lacks, "; ");
  return absl::NotFoundError(absl::StrCat(found, ". Install the protocol's package, `pip install mcp`",
                                          package.empty() ? " and gpumemshim's own, which is in its wheel," : "",
                                          " into a Python of 3.10 or newer, and name it: --python ~/.venv/bin/python"));
}

class McpCommand final : public Command {
 public:
  absl::string_view name() const override { return "mcp"; }
  CommandPlace place() const override { return {CommandGroup::kLive, 4}; }
  absl::string_view summary() const override { return "answer an assistant's questions about traces (MCP)"; }
  bool takes_traces() const override { return false; }
  absl::string_view arguments() const override { return "[FLAGS] [DIR]"; }
  absl::string_view help() const override {
    return R"(Serves the Model Context Protocol on standard input and output: an assistant may ask report, at, leaks, steps,
modules, oom, explain, forecast, diff and sql about the traces in DIR and below it (the working directory).
It only reads, only there, and opens no port. A client starts it; --config prints what to put into the client's
settings. It runs in Python, with the package `mcp` (pip install mcp): --python, or $GPUMEMSHIM_INTERPRETER, the active
environment, the Python beside gpumemshim, python3.

  gpumemshim mcp --config runs/
  gpumemshim mcp --python ~/.venv/bin/python runs/
)";
  }

  void AddFlags(Flags* flags) override {
    flags->Add("--config", &config_, "print the client's JSON settings for this folder, and end");
    flags->Add("--python", &python_, "a Python that has the package mcp").Value("PYTHON");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    const std::string named = arguments.empty() ? "." : arguments[0];
    std::error_code error;
    const fs::path folder = fs::canonical(named, error);
    if (error || !fs::is_directory(folder, error))
      return absl::NotFoundError(absl::StrCat(named, " is not a folder. Name the one that the traces are in."));
    const std::string package = PackageFolder();
    GPUMEM_ASSIGN_OR_RETURN(const std::string python, FindPython(python_, package));
    if (!config_) return Become(python, package, folder.string());
    console->Print(Config(fs::absolute(python, error).string(), folder.string()));
    return kExitFine;
  }

 private:
  // With this Python, since a client starts programs with an environment of its own.
  static std::string Config(const std::string& python, const std::string& folder) {
    std::string text;
    JsonWriter json(&text);
    json.BeginObject();
    json.Key("mcpServers");
    json.BeginObject();
    json.Key("gpumemshim");
    json.BeginObject();
    json.Field("command", OwnPath().string());
    json.Key("args");
    json.BeginArray(JsonLayout::kOneLine);
    for (const std::string& word : {std::string("mcp"), std::string("--python"), python, folder}) json.Value(word);
    json.EndArray();
    json.EndObject();
    json.EndObject();
    json.EndObject();
    return text + "\n";
  }

  static absl::StatusOr<int> Become(const std::string& python, const std::string& package, const std::string& folder) {
    setenv("GPUMEMSHIM_PROGRAM", OwnPath().c_str(), 1);  // it asks this program
    const std::string code = absl::StrCat(kPaths, kServe);
    execl(python.c_str(), python.c_str(), "-c", code.c_str(), package.c_str(), folder.c_str(), nullptr);
    return absl::UnavailableError(absl::StrCat(python, " cannot be started: ", std::strerror(errno)));
  }

  bool config_ = false;
  std::string python_;
};

}  // namespace

std::unique_ptr<Command> MakeMcpCommand() { return std::make_unique<McpCommand>(); }

}  // namespace gpumem
