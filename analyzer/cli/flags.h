// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Flags: what a command declares its flags with. CLI11, which parses them, stands behind it: its header costs a
// compiler three seconds a file, so that flags.cc and parsed_command.cc alone include it.
//
//   flags->Add("--json", &json_, "for machines");                                     a switch
//   flags->Add("--top,--limit", &top_, "longest list; 0 = all (20)").Value("K");      one with a value
//   sort_option_ = flags->Add("--sort", &sort_, "...").Value("WHAT").OneOf({"self", "total"});
//   if (sort_option_.given()) ...                                                     in Run
//
// What cannot be read as the variable's type is a usage error. The variables must live until Run has returned.

#ifndef GPUMEM_ANALYZER_CLI_FLAGS_H_
#define GPUMEM_ANALYZER_CLI_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gpumem {

// A flag that was declared. A copy is the same flag.
class Flag {
 public:
  Flag() = default;  // none
  explicit Flag(CLI::Option* option) : option_(option) {}

  // What help calls the value.
  Flag Value(const char* name) const;
  // Other values are usage errors.
  Flag OneOf(const std::vector<std::string>& values) const;
  Flag Between(uint64_t least, uint64_t most) const;
  Flag Percentage() const;
  Flag AtLeastZero() const;
  // One value each time, and may be given more than once. Without it a list takes all values up to the next flag.
  Flag Repeats() const;
  Flag Excludes(Flag other) const;
  // Whether the command line has it. False of none.
  bool given() const;

 private:
  CLI::Option* option_ = nullptr;
};

// Flags that stand under a heading of their own in help, since they hold for one use of a command.
class FlagGroup {
 public:
  FlagGroup() = default;  // none
  FlagGroup(const CLI::App* app, std::string title) : app_(app), title_(std::move(title)) {}

  // The first of them that the command line has, "--leaks"; "" = none.
  std::string first_given() const;

 private:
  const CLI::App* app_ = nullptr;
  std::string title_;
};

class Flags {
 public:
  static constexpr char kPlainGroup[] = "Flags";  // of those that are in no group

  explicit Flags(CLI::App* app) : app_(app) {}

  // Flags that are added from here on are of this group.
  FlagGroup Begin(const char* title);

  // `names`: "-o,--output". A bool is a switch, all others take a value, lists one or more.
  Flag Add(const char* names, bool* value, const std::string& help);
  Flag Add(const char* names, std::string* value, const std::string& help);
  Flag Add(const char* names, double* value, const std::string& help);
  Flag Add(const char* names, int* value, const std::string& help);
  Flag Add(const char* names, std::optional<int>* value, const std::string& help);
  Flag Add(const char* names, int64_t* value, const std::string& help);
  Flag Add(const char* names, uint32_t* value, const std::string& help);
  Flag Add(const char* names, uint64_t* value, const std::string& help);
  Flag Add(const char* names, std::vector<std::string>* value, const std::string& help);
  Flag Add(const char* names, std::vector<int64_t>* value, const std::string& help);

 private:
  CLI::App* const app_;
  std::string group_ = kPlainGroup;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_FLAGS_H_
