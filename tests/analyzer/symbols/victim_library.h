// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The victim library, loaded once, and copies of it in the shapes that libraries have on disk: stripped, with a
// separate debug file, with a packed symbol table. Made by objcopy (binutils, which building needs too).
//
//   VictimLibrary victim;
//   victim.Shape("--strip-debug", "lib.so");
//   ModuleInfo module = victim.Module(victim.folder() + "/lib.so");

#ifndef GPUMEM_TESTS_ANALYZER_SYMBOLS_VICTIM_LIBRARY_H_
#define GPUMEM_TESTS_ANALYZER_SYMBOLS_VICTIM_LIBRARY_H_

#include <string>
#include <vector>

#include "trace/stack_table.h"
#include "victim.h"

namespace gpumem::testing {

class VictimLibrary {
 public:
  VictimLibrary();
  ~VictimLibrary();

  const std::string& folder() const { return folder_; }  // a new one, removed at the end
  const std::string& original() const { return original_; }
  const std::string& build_id() const { return build_id_; }
  uint64_t load_bias() const { return load_bias_; }
  const std::vector<VictimFrame>& frames() const { return frames_; }
  // Return addresses as linked, ascending.
  std::vector<uint64_t> Addresses() const;
  // The frame of such an address.
  const VictimFrame& FrameAt(uint64_t address) const;

  // A copy by objcopy with these options, below folder(). Its path.
  std::string Shape(const std::string& options, const std::string& name) const;
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  // As the capture library would describe it, at this path.
  ModuleInfo Module(const std::string& path) const;

 private:
  std::string folder_, original_, build_id_;
  uint64_t load_bias_ = 0;
  std::vector<VictimFrame> frames_;
};

// Runs a command of the shell; a test failure where it fails.
void RunCommand(const std::string& command);

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_SYMBOLS_VICTIM_LIBRARY_H_
