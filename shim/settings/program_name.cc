// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/program_name.h"

#include <cstring>

namespace gpumemshim::control {
namespace {

constexpr size_t kMaxName = 64;

const char* FileName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

bool IsPython(const char* path) { return std::strncmp(FileName(path), "python", 6) == 0; }

bool TakesValue(const char* option) {
  return std::strcmp(option, "-W") == 0 || std::strcmp(option, "-X") == 0 ||
         std::strcmp(option, "--check-hash-based-pycs") == 0;
}

// What the interpreter is asked to run. Short options may be joined ("-Im module", "-uc code").
struct Target {
  const char* name;
  bool is_path;
  const char* code = nullptr;  // of -c
};

Target PythonTarget(const char* const* arguments, size_t count) {
  for (size_t i = 1; i < count; ++i) {
    const char* argument = arguments[i];
    if (argument[0] != '-' || argument[1] == '\0') return {argument[0] == '-' ? "python" : argument, true};
    if (std::strcmp(argument, "--") == 0) return {i + 1 < count ? arguments[i + 1] : "python", true};
    if (TakesValue(argument)) {
      ++i;
      continue;
    }
    if (argument[1] == '-' || argument[1] == 'W' || argument[1] == 'X') continue;
    for (const char* letter = argument + 1; *letter != '\0'; ++letter) {
      if (*letter != 'c' && *letter != 'm') continue;
      const char* value = letter[1] != '\0' ? letter + 1 : (i + 1 < count ? arguments[i + 1] : "python");
      if (*letter == 'c') return {"python-c", false, value};
      return {value, false};
    }
  }
  return {"python", false};
}

size_t StemLength(const char* name) {
  const size_t length = std::strlen(name);
  const char* dot = std::strrchr(name, '.');
  const bool is_script =
      dot != nullptr && dot != name && (std::strcmp(dot, ".py") == 0 || std::strcmp(dot, ".pyc") == 0);
  return is_script ? static_cast<size_t>(dot - name) : length;
}

char Portable(char c) {
  const bool stays =
      (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || std::strchr("._+-", c) != nullptr;
  return stays && c != '\0' ? c : '_';
}

}  // namespace

void ProgramName(const char* executable, const char* const* arguments, size_t count, char* out, size_t capacity) {
  if (capacity == 0) return;
  Target target{executable, true};
  if (count > 0 && (IsPython(executable) || IsPython(arguments[0]))) {
    target = PythonTarget(arguments, count);
  } else if (executable[0] == '\0' && count > 0) {
    target.name = arguments[0];
  }
  const char* name = target.is_path ? FileName(target.name) : target.name;
  size_t length = target.is_path ? StemLength(name) : std::strlen(name);
  if (length == 0) {
    name = "program";
    length = std::strlen(name);
  }
  if (length > kMaxName) length = kMaxName;
  if (length > capacity - 1) length = capacity - 1;
  for (size_t i = 0; i < length; ++i) out[i] = Portable(name[i]);
  out[length] = '\0';
}

bool StartedByMultiprocessing(const char* const* arguments, size_t count) {
  constexpr char kImport[] = "from multiprocessing.";  // CPython's Lib/multiprocessing/spawn.py and forkserver.py
  if (count == 0 || !IsPython(arguments[0])) return false;
  const char* code = PythonTarget(arguments, count).code;
  return code != nullptr && std::strncmp(code, kImport, sizeof kImport - 1) == 0;
}

}  // namespace gpumemshim::control
