// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ModuleFiles: the file of a traced module and its separate debug file, wherever they are. A file whose build id is
// another one than the trace's is never used. Not thread-safe. In order:
//
//   1. the files and folders that the user named (--symbols), by build id, whatever their names
//   2. the module's path below --sysroot; without it, on this machine
//   3. debug files: /usr/lib/debug/.build-id/ab/cdef.debug, and what .gnu_debuglink names, beside the file, in .debug/
//      and below /usr/lib/debug; with --sysroot below that first
//   4. a debuginfod server, where the user set DEBUGINFOD_URLS
//
//   ModuleFiles files(search);
//   const FoundModule found = files.Find(module);
//   if (!found.problem.empty()) ...

#ifndef GPUMEM_ANALYZER_SYMBOLS_MODULE_FILES_H_
#define GPUMEM_ANALYZER_SYMBOLS_MODULE_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "symbols/elf_identity.h"
#include "trace/stack_table.h"

namespace gpumem {

// Files from a debuginfod server, by libdebuginfod, which is opened at run time: without it, and without
// DEBUGINFOD_URLS in the environment, nothing is asked. It keeps what it fetched in a cache of its own. Not
// thread-safe.
//
//   const std::string path = FetchDebugFile(build_id, DebugFileKind::kDebugInfo);   // "" = not to be had
enum class DebugFileKind { kExecutable, kDebugInfo };

// Path of a file on this machine. `build_id` in raw bytes.
std::string FetchDebugFile(const std::string& build_id, DebugFileKind kind);

// Whether a server would be asked; and if not although one is named, why.
bool DebuginfodIsOn();
std::string DebuginfodProblem();

struct SymbolSearch {
  std::vector<std::string> symbols;  // files and folders; a folder is searched with all below it
  std::string sysroot;               // folder that stands for the traced machine's root; "" = this machine's files
  std::string working_directory;     // of the traced program: relative paths of modules begin there
  bool needs_build_ids = false;      // the trace is somebody else's: without a build id none of this machine's files
  bool debuginfod = true;            // false: not even where DEBUGINFOD_URLS is set
};

// Why a module has no file, or only a doubtful one.
enum class FileTrouble {
  kNone,
  kNoFile,       // a path that names none: the vdso, code without a name
  kMissing,      // nothing at the path
  kUnreadable,   // no ELF file, no permission
  kOtherBuild,   // its build id is another one
  kNotVerified,  // used, though the module has no build id to compare
};

struct FoundModule {
  std::string binary;  // "" = none
  std::string debug;   // a file with DWARF beside it; "" where the binary has its own, or there is none
  bool has_debug_info = false;
  FileTrouble trouble = FileTrouble::kNone;
  std::string detail;  // one clause: what was found instead

  bool readable() const { return !binary.empty() || !debug.empty(); }
};

class ModuleFiles {
 public:
  explicit ModuleFiles(SymbolSearch search);

  FoundModule Find(const ModuleInfo& module);

  // What was wrong with the user's own places, one sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Named {
    std::string binary, debug;
  };
  void ReadNamed();
  void AddNamed(const std::string& path, bool must_be_elf);
  void FindBinary(const ModuleInfo& module, FoundModule* found) const;
  bool TryBinary(const std::string& path, const ModuleInfo& module, bool trusted, FoundModule* found) const;
  std::string FindDebugFile(const std::string& build_id, const std::string& binary, const std::string& path) const;
  std::vector<std::string> LinkedFiles(const ElfIdentity& binary, const std::string& path) const;
  void AskServer(const ModuleInfo& module, FoundModule* found);

  SymbolSearch search_;
  bool has_named_ = false;
  absl::flat_hash_map<std::string, Named> named_;                // by build id
  absl::flat_hash_map<std::string, std::string> named_by_file_;  // files without build id, by their names
  std::vector<std::string> notes_;
};

// `path` seen from `root` as its own root: links in it cannot lead out. A path that opens that file, or "".
std::string InsideRoot(const std::string& root, const std::string& path);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_MODULE_FILES_H_
