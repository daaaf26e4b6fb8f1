// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Command: one subcommand of gpumemshim. One file a subcommand; commands.h lists them. A command declares how it is
// called, where help lists it and what it says about itself; the dispatcher parses, prints help and turns errors into
// exit codes.
//
//   class PeakCommand : public Command { ... };
//   std::unique_ptr<Command> MakePeakCommand() { return std::make_unique<PeakCommand>(); }

#ifndef GPUMEM_ANALYZER_CLI_COMMAND_H_
#define GPUMEM_ANALYZER_CLI_COMMAND_H_

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/console.h"
#include "base/status_macros.h"
#include "cli/flags.h"

namespace gpumem {

// docs/exit-codes.md
enum ExitCode : int {
  kExitFine = 0,
  kExitCheckFailed = 1,
  kExitUsage = 2,
  kExitCannotRead = 3,
  kExitDamaged = 4,   // answered from what could be read
  kExitNotKnown = 7,  // a check that this file cannot answer; 5 and 6 are gpumemshim plan's
};

// In help's order: that in which people come to need them. Those of kReport are sections of `gpumemshim report`, too.
enum class CommandGroup : uint8_t { kRecord, kLook, kCompare, kPredict, kLive, kFiles, kReport };

struct CommandPlace {
  CommandGroup group;
  int order;  // in the group

  auto operator<=>(const CommandPlace&) const = default;
};

class Command {
 public:
  virtual ~Command() = default;

  virtual absl::string_view name() const = 0;
  virtual CommandPlace place() const = 0;
  virtual absl::string_view summary() const = 0;    // one line for the list of commands
  virtual absl::string_view arguments() const = 0;  // behind "gpumemshim NAME" in the usage line
  virtual absl::string_view help() const = 0;       // paragraphs and examples

  // Whether commands of CommandGroup::kReport may be named first among its arguments, which is then their command line.
  virtual bool has_sections() const { return false; }
  // Whether everything from the first argument that is not a flag on belongs to another program's command line.
  virtual bool takes_command_line() const { return false; }
  // Whether one may follow behind "--", which Run then finds among its arguments; flags may stand anywhere before it.
  virtual bool takes_marked_command_line() const { return false; }
  // Whether arguments name traces, so that --example NAME may stand for one.
  virtual bool takes_traces() const { return true; }
  // Most arguments that are not flags, where takes_command_line() is false.
  virtual size_t most_arguments() const { return 1; }

  virtual void AddFlags(Flags* flags) = 0;

  // `arguments`: what is left after the flags. Returns the exit code. An error is printed by the dispatcher, and
  // becomes kExitUsage (InvalidArgument) or kExitCannotRead (all others); Cancelled is not printed.
  virtual absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) = 0;
};

using CommandList = std::vector<std::unique_ptr<Command>>;

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_COMMAND_H_
