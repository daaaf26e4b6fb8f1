// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/output_path.h"

#include <sys/stat.h>

#include <cstring>

#include "shim/base/kernel.h"
#include "shim/settings/text.h"

namespace gpumemshim::control {
namespace {

constexpr size_t kLongestJob = 8;    // the beginning of a UUID, or a number
constexpr size_t kLongestHost = 16;  // the end: pods and cloud machines differ there

// Letters, digits, "-" and "_"; any other character becomes "-".
void AddPart(const char* value, size_t size, Text* text) {
  for (size_t i = 0; i < size; ++i) {
    const char c = value[i];
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    text->Add(plain ? c : '-');
  }
}

void AddJob(const ProcessFacts& facts, Text* text) { AddPart(facts.job, strnlen(facts.job, kLongestJob), text); }

// Without the domain.
void AddHost(const ProcessFacts& facts, Text* text) {
  const size_t size = std::strcspn(facts.hostname, ".");
  const size_t skipped = size > kLongestHost ? size - kLongestHost : 0;
  AddPart(facts.hostname + skipped, size - skipped, text);
}

// Ranks of a job write into one folder from many hosts, so theirs say which one and of which job.
void AddDefaultName(const ProcessFacts& facts, Text* text) {
  text->Add("gpumemshim.").Add(facts.program).Add('.');
  if (facts.rank >= 0) {
    AddJob(facts, text);
    if (facts.job[0] != '\0') text->Add('.');
    AddHost(facts, text);
    if (facts.hostname[0] != '\0') text->Add('.');
  }
  text->Add(static_cast<uint64_t>(facts.pid));
  if (facts.rank >= 0) text->Add(".r").Add(static_cast<uint64_t>(facts.rank));
  text->Add(".gmtrace");
}

// What `letter` stands for behind a percent sign; an unknown one stays as it is.
void AddField(char letter, const ProcessFacts& facts, Text* text) {
  switch (letter) {
    case 'p':
      text->Add(static_cast<uint64_t>(facts.pid));
      break;
    case 'h':
      text->Add(facts.hostname);
      break;
    case 'j':
      AddJob(facts, text);
      if (facts.job[0] == '\0') text->Add('0');
      break;
    case 'r':
      text->Add(facts.rank < 0 ? uint64_t{0} : static_cast<uint64_t>(facts.rank));
      break;
    case 'n':
      text->Add(facts.program);
      break;
    case '%':
      text->Add('%');
      break;
    default:
      text->Add('%').Add(letter);
      break;
  }
}

bool IsDirectory(const char* path) {
  struct stat status;
  return kernel::Stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

bool OutputPath(const char* pattern, const ProcessFacts& facts, char* out, size_t capacity) {
  Text text(out, capacity);
  if (pattern[0] != '/' && facts.working_directory[0] != '\0') text.Add(facts.working_directory).Add('/');
  for (const char* at = pattern; *at != '\0'; ++at) {
    if (*at == '%' && at[1] != '\0') {
      AddField(*++at, facts, &text);
    } else {
      text.Add(*at);
    }
  }
  if (text.size() == 0 || out[text.size() - 1] == '/') {
    AddDefaultName(facts, &text);
  } else if (IsDirectory(out)) {
    text.Add('/');
    AddDefaultName(facts, &text);
  }
  return !text.overflowed();
}

bool FallbackPath(uint32_t attempt, const char* temporary, const ProcessFacts& facts, char* out, size_t capacity) {
  const char* const places[] = {temporary[0] == '/' ? temporary : "/tmp", "/tmp"};
  if (attempt >= sizeof places / sizeof places[0]) return false;
  Text text(out, capacity);
  text.Add(places[attempt]).Add('/');
  AddDefaultName(facts, &text);
  return !text.overflowed();
}

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
