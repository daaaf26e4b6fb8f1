// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "program.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "testing/left_behind.h"

namespace gpumem::testing {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

void Limit(const Limits& limits) {
  if (kSanitized) return;
  const rlimit cpu{limits.cpu_seconds, limits.cpu_seconds}, memory{limits.memory_bytes, limits.memory_bytes};
  if (limits.cpu_seconds != 0 && setrlimit(RLIMIT_CPU, &cpu) != 0) _exit(96);
  if (limits.memory_bytes != 0 && setrlimit(RLIMIT_AS, &memory) != 0) _exit(96);
}

[[noreturn]] void Become(const std::vector<std::string>& arguments, const std::string& folder,
                         const std::map<std::string, std::string>& environment, const std::string& streams) {
  if (chdir(folder.c_str()) != 0) _exit(99);
  if (freopen((streams + "/out").c_str(), "w", stdout) == nullptr ||
      freopen((streams + "/err").c_str(), "w", stderr) == nullptr)
    _exit(98);
  const std::string path = getenv("PATH");
  clearenv();
  setenv("PATH", path.c_str(), 1);
  setenv("LANG", "C.UTF-8", 1);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv = {const_cast<char*>("gpumemshim")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(GPUMEM_PROGRAM, argv.data());
  _exit(97);
}

}  // namespace

std::string MakeFolder() {
  std::string name = ::testing::TempDir() + "/gpumemshim_commands_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) return "";
  RemoveAtEnd(name);
  return std::filesystem::canonical(name).string();
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
}

Outcome RunGpumem(const std::vector<std::string>& arguments, const std::string& folder,
                  const std::map<std::string, std::string>& environment, const Limits& limits) {
  const std::string streams = MakeFolder();
  const pid_t child = fork();
  if (child == 0) Limit(limits);
  if (child == 0) Become(arguments, folder, environment, streams);
  int status = 0;
  waitpid(child, &status, 0);
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = ReadFile(streams + "/out");
  outcome.err = ReadFile(streams + "/err");
  std::filesystem::remove_all(streams);
  return outcome;
}

}  // namespace gpumem::testing
