// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/process_facts.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "shared/mask_secrets.h"
#include "shim/base/descriptors.h"
#include "shim/settings/output_path.h"
#include "shim/settings/settings.h"
#include "shim/settings/text.h"

namespace gpumemshim::control {
namespace {

static_assert(sizeof kRecordedVariables / sizeof *kRecordedVariables <= kMaxVariables);
static_assert(sizeof kSettingNames / sizeof *kSettingNames < kMaxVariables);  // one more: GPUMEMSHIM_COMMAND_LINE

void ReadExecutable(ProcessFacts* facts) {
  const ssize_t size = readlink("/proc/self/exe", facts->executable, sizeof facts->executable - 1);
  facts->executable[size < 0 ? 0 : size] = '\0';
}

// The raw arguments of a process, which live only as long as they are needed: secrets must not stay in our memory
// either.
class CommandLine {
 public:
  explicit CommandLine(const char* path) : CommandLine(descriptors::ReadText(path, raw_, sizeof raw_)) {}

  // Of this process. One that was forked to run what another command line says may name that.
  static CommandLine Own() {
    const char* reported = std::getenv("GPUMEMSHIM_COMMAND_LINE");
    const size_t size = reported == nullptr ? 0 : CommandLineOf(getpid(), reported, raw_, sizeof raw_);
    return CommandLine(size != 0 ? size : descriptors::ReadText("/proc/self/cmdline", raw_, sizeof raw_));
  }

  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine() { std::memset(raw_, 0, size_); }

  const char* const* arguments() const { return arguments_; }
  size_t count() const { return count_; }
  // It may be longer than what was read: the last argument ends anywhere.
  bool is_cut() const { return size_ + 2 >= sizeof raw_ && count_ < kMaxArguments; }

 private:
  explicit CommandLine(size_t size) : size_(size) {
    for (size_t at = 0; at < size_ && count_ < kMaxArguments; at += std::strlen(raw_ + at) + 1) {
      arguments_[count_++] = raw_ + at;
    }
  }

  static inline char raw_[sizeof ProcessFacts::argument_text];  // one command line at a time
  size_t size_ = 0;
  size_t count_ = 0;
  const char* arguments_[kMaxArguments];
};

// A process that multiprocessing started has the name of the program that it works for.
void NameAfterParent(ProcessFacts* facts) {
  bool from_parent = true;
  for (uint32_t i = 0; from_parent && i < facts->ancestor_count; ++i) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/cmdline", facts->ancestors[i].pid);
    const CommandLine line(path);
    if (line.count() == 0) return;
    from_parent = StartedByMultiprocessing(line.arguments(), line.count());
    if (!from_parent) ProgramName("", line.arguments(), line.count(), facts->program, sizeof facts->program);
  }
}

// Of an argument that was cut: the beginning of a credential looks like none, so its last word goes.
void DropLastWord(char* argument, size_t capacity) {
  size_t size = std::strlen(argument);
  while (size > 0 && std::strchr(" \t\n=:,;&'\"", argument[size - 1]) == nullptr) --size;
  Text(argument + size, capacity - size).Add("...");
}

void MaskArguments(const CommandLine& line, ProcessFacts* facts) {
  gpumem::format::SecretMasker masker;
  size_t used = 0;
  for (size_t i = 0; i < line.count() && used + 1 < sizeof facts->argument_text; ++i) {
    char* out = facts->argument_text + used;
    const size_t room = sizeof facts->argument_text - used;
    masker.Mask(line.arguments()[i], std::strlen(line.arguments()[i]), out, room);
    if (i + 1 == line.count() && line.is_cut()) DropLastWord(out, room);
    facts->arguments[facts->argument_count++] = out;
    used += std::strlen(out) + 1;
  }
}

// The name, and the arguments without secrets. Returns whether the name is better taken from the parent.
bool ReadArguments(ProcessFacts* facts) {
  const CommandLine line = CommandLine::Own();
  ProgramName(facts->executable, line.arguments(), line.count(), facts->program, sizeof facts->program);
  facts->argument_count = 0;
  if (!IsCommandLineOff(std::getenv("GPUMEMSHIM_COMMAND_LINE"))) MaskArguments(line, facts);
  return StartedByMultiprocessing(line.arguments(), line.count());
}

// Copies the variables of `names` that are set, without secrets; returns how many.
template <size_t kCount>
uint32_t CopyVariables(const char* const (&names)[kCount], ProcessFacts* facts, size_t* used, writer::KeyValue* out) {
  uint32_t count = 0;
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    char* copy = facts->variable_text + *used;
    const size_t room = sizeof facts->variable_text - *used;
    const size_t size = gpumem::format::MaskVariable(name, value, copy, room);
    if (size + 1 >= room) break;
    *used += size + 1;
    out[count++] = {name, copy};
  }
  return count;
}

void ReadVariables(ProcessFacts* facts) {
  size_t used = 0;
  facts->settings_count = CopyVariables(kSettingNames, facts, &used, facts->settings);
  if (IsCommandLineOff(std::getenv("GPUMEMSHIM_COMMAND_LINE"))) {
    facts->settings[facts->settings_count++] = {"GPUMEMSHIM_COMMAND_LINE", "off"};
  }
  facts->environment_count = CopyVariables(kRecordedVariables, facts, &used, facts->environment);
}

// From the parent up to the first process of the namespace. One that began after its child took the number of the real
// parent, which is gone.
void ReadAncestors(ProcessFacts* facts) {
  char path[64], line[1024];
  uint32_t pid = static_cast<uint32_t>(getppid());
  uint64_t child_ticks = facts->start_ticks;
  facts->ancestor_count = 0;
  while (pid != 0 && facts->ancestor_count < kMaxAncestors) {
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    descriptors::ReadText(path, line, sizeof line);
    const writer::Ancestor ancestor = ParseStat(line, &pid);
    if (ancestor.pid == 0 || ancestor.start_ticks > child_ticks) return;
    facts->ancestors[facts->ancestor_count++] = ancestor;
    child_ticks = ancestor.start_ticks;
  }
}

void ReadNamespace(ProcessFacts* facts) {
  char link[64];
  const ssize_t size = readlink("/proc/self/ns/pid", link, sizeof link - 1);  // pid:[4026531836]
  link[size < 0 ? 0 : size] = '\0';
  const char* number = std::strchr(link, '[');
  facts->pid_namespace = number == nullptr ? 0 : std::strtoull(number + 1, nullptr, 10);
  char boot[64];
  descriptors::ReadText("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
  facts->has_boot_id = ParseUuid(boot, facts->boot_id);
}

// A number in a /proc/PID/stat line; 0 where there is none.
uint64_t FieldOf(const char* stat_line, int number) {
  const char* at = std::strrchr(stat_line, ')');  // the end of the second field
  for (int field = 2; at != nullptr && field < number; ++field) {
    at = std::strchr(at + 1, ' ');
  }
  return at == nullptr ? 0 : std::strtoull(at + 1, nullptr, 10);
}

// "none" is what torchrun passes where nobody gave it an id.
void ReadJob(ProcessFacts* facts) {
  facts->job[0] = '\0';
  for (const char* name : kJobVariables) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0' || std::strcmp(value, "none") == 0) continue;
    gpumem::format::MaskVariable(name, value, facts->job, sizeof facts->job);
    return;
  }
}

int64_t FirstRank(const char* a, const char* b, const char* c) {
  for (const char* name : {a, b, c}) {
    const int64_t rank = ParseRank(std::getenv(name));
    if (rank >= 0) return rank;
  }
  return -1;
}

}  // namespace

uint64_t ParseStartTicks(const char* stat_line) { return FieldOf(stat_line, 22); }

bool ParseForked(const char* stat_line) {
  constexpr uint64_t kForkedWithoutExec = 0x40;
  return (FieldOf(stat_line, 9) & kForkedWithoutExec) != 0;
}

writer::Ancestor ParseStat(const char* stat_line, uint32_t* parent_pid) {
  writer::Ancestor process{};
  const char* name = std::strchr(stat_line, '(');
  const char* end = std::strrchr(stat_line, ')');
  *parent_pid = 0;
  if (name == nullptr || end == nullptr || end < name || std::strlen(end) < 5) return process;
  process.pid = static_cast<uint32_t>(std::strtoul(stat_line, nullptr, 10));
  process.start_ticks = ParseStartTicks(stat_line);
  const size_t size = static_cast<size_t>(end - name - 1);
  std::memcpy(process.name, name + 1, size < sizeof process.name ? size : sizeof process.name - 1);
  *parent_pid = static_cast<uint32_t>(std::strtoul(end + 4, nullptr, 10));  // ") S 4242"
  return process;
}

bool ParseUuid(const char* text, uint8_t* out) {
  size_t digits = 0;
  for (; *text != '\0' && *text != '\n' && digits < 32; ++text) {
    if (*text == '-') continue;
    const char* hex = "0123456789abcdef";
    const char* digit = std::strchr(hex, *text);
    if (digit == nullptr) return false;
    const auto value = static_cast<uint8_t>(digit - hex);
    out[digits / 2] = static_cast<uint8_t>(digits % 2 == 0 ? value << 4 : out[digits / 2] | value);
    ++digits;
  }
  return digits == 32;
}

bool IsCommandLineOff(const char* text) {
  return text != nullptr && std::strchr(text, ':') == nullptr && !ParseSwitch(text, true);
}

size_t CommandLineOf(int32_t pid, const char* text, char* out, size_t capacity) {
  char* end = nullptr;
  if (std::strtoll(text, &end, 10) != pid || *end != ':' || capacity < 2) return 0;
  size_t size = 0;
  for (const char* at = end + 1; *at != '\0' && size < capacity - 2; ++at) out[size++] = *at == '\x1f' ? '\0' : *at;
  if (size == 0 || out[size - 1] != '\0') out[size++] = '\0';
  out[size] = '\0';
  return size;
}

int64_t ParseRank(const char* text) {
  if (text == nullptr || *text == '\0') return -1;
  int64_t rank = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9' || rank > 100'000'000) return -1;
    rank = rank * 10 + (*text - '0');
  }
  return rank;
}

void ReadProcessFacts(ProcessFacts* facts) {
  facts->pid = getpid();
  char stat_line[1024];
  descriptors::ReadText("/proc/self/stat", stat_line, sizeof stat_line);
  facts->start_ticks = ParseStartTicks(stat_line);
  facts->forked = ParseForked(stat_line);
  ReadAncestors(facts);
  ReadNamespace(facts);
  if (gethostname(facts->hostname, sizeof facts->hostname) != 0) facts->hostname[0] = '\0';
  facts->hostname[sizeof facts->hostname - 1] = '\0';
  if (getcwd(facts->working_directory, sizeof facts->working_directory) == nullptr) {
    facts->working_directory[0] = '\0';
  }
  ReadExecutable(facts);
  if (ReadArguments(facts)) NameAfterParent(facts);
  ReadVariables(facts);
  ReadJob(facts);
  facts->rank = FirstRank("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK");
  facts->world_size = FirstRank("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE");
  facts->local_rank = FirstRank("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK");
}

}  // namespace gpumemshim::control
