// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/module_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "victim_library.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::VictimLibrary;

class ModuleFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { unsetenv("DEBUGINFOD_URLS"); }

  FoundModule Find(const ModuleInfo& module, const SymbolSearch& search = {}) {
    return ModuleFiles(search).Find(module);
  }
  std::string Stripped(const std::string& name) { return victim_.Shape("--strip-all", name); }
  std::string Debug(const std::string& name) { return victim_.Shape("--only-keep-debug", name); }
  // Another file of another build.
  std::string Other(const std::string& name) {
    fs::create_directories(fs::path(victim_.Path(name)).parent_path());
    fs::copy_file("/proc/self/exe", victim_.Path(name));
    return victim_.Path(name);
  }

  VictimLibrary victim_;
};

TEST_F(ModuleFilesTest, TakesTheTracedFile) {
  const std::string path = Stripped("lib.so");
  const FoundModule found = Find(victim_.Module(path));
  EXPECT_EQ(found.binary, path);
  EXPECT_EQ(found.trouble, FileTrouble::kNone);
  EXPECT_FALSE(found.has_debug_info);
}

TEST_F(ModuleFilesTest, NeverTakesAnotherBuild) {
  const std::string path = Other("lib.so");
  const FoundModule found = Find(victim_.Module(path));
  EXPECT_FALSE(found.readable());
  EXPECT_EQ(found.trouble, FileTrouble::kOtherBuild);
  EXPECT_THAT(found.detail, HasSubstr(BuildIdText(victim_.build_id())));

  SymbolSearch search;
  search.symbols = {path};
  EXPECT_FALSE(Find(victim_.Module(path), search).readable()) << "not even where the user names it";
}

TEST_F(ModuleFilesTest, SaysWhatItTookUnverified) {
  const std::string path = Stripped("lib.so");
  ModuleInfo module = victim_.Module(path);
  module.build_id.clear();
  const FoundModule found = Find(module);
  EXPECT_EQ(found.binary, path);
  EXPECT_EQ(found.trouble, FileTrouble::kNotVerified);
}

TEST_F(ModuleFilesTest, SaysWhatIsNotThere) {
  EXPECT_EQ(Find(victim_.Module(victim_.Path("gone.so"))).trouble, FileTrouble::kMissing);
  EXPECT_EQ(Find(victim_.Module("linux-vdso.so.1")).trouble, FileTrouble::kNoFile);
  EXPECT_EQ(Find(victim_.Module("")).trouble, FileTrouble::kNoFile);
  EXPECT_EQ(Find(victim_.Module("/dev/null")).trouble, FileTrouble::kUnreadable);
  std::ofstream(victim_.Path("text.so")) << "#!/bin/sh\n";
  EXPECT_EQ(Find(victim_.Module(victim_.Path("text.so"))).trouble, FileTrouble::kUnreadable);
  ASSERT_EQ(mkfifo(victim_.Path("fifo.so").c_str(), 0600), 0);
  EXPECT_EQ(Find(victim_.Module(victim_.Path("fifo.so"))).trouble, FileTrouble::kUnreadable) << "and does not hang";
}

TEST_F(ModuleFilesTest, TakesTheFileOfADeletedOneByItsBuildIdOnly) {
  const std::string path = Stripped("lib.so");
  ModuleInfo module = victim_.Module(path + " (deleted)");
  EXPECT_EQ(Find(module).binary, path);
  module.build_id.clear();
  EXPECT_FALSE(Find(module).readable());
  module.path = victim_.Path("gone.so (deleted)");
  EXPECT_THAT(Find(module).detail, HasSubstr("deleted"));
}

TEST_F(ModuleFilesTest, FindsRelativePathsWhereTheProgramRan) {
  const std::string path = Stripped("plugins/lib.so");
  SymbolSearch search;
  search.working_directory = victim_.folder();
  EXPECT_EQ(Find(victim_.Module("./plugins/lib.so"), search).binary, victim_.folder() + "/./plugins/lib.so");
}

TEST_F(ModuleFilesTest, FindsLinkedDebugFiles) {
  const std::string debug = Debug("lib.debug");
  const std::string linked = victim_.Shape("--strip-all --add-gnu-debuglink=lib.debug", "lib.so");
  EXPECT_EQ(Find(victim_.Module(linked)).debug, debug);
  fs::create_directory(victim_.Path(".debug"));
  fs::rename(debug, victim_.Path(".debug/lib.debug"));
  EXPECT_EQ(Find(victim_.Module(linked)).debug, victim_.Path(".debug/lib.debug"));
}

TEST_F(ModuleFilesTest, ChecksLinkedDebugFilesWithoutBuildIdByTheirSum) {
  const std::string no_id = "--remove-section=.note.gnu.build-id ";
  const std::string debug = victim_.Shape(no_id + "--only-keep-debug", "lib.debug");
  ModuleInfo module = victim_.Module(victim_.Shape(no_id + "--strip-all --add-gnu-debuglink=lib.debug", "lib.so"));
  module.build_id.clear();
  EXPECT_EQ(Find(module).debug, debug);
  std::ofstream(debug, std::ios::app) << "changed";
  EXPECT_EQ(Find(module).debug, "");
}

TEST_F(ModuleFilesTest, DoesNotTakeDebugFilesOfAnotherBuild) {
  Debug("right.debug");
  const std::string linked = victim_.Shape("--strip-all --add-gnu-debuglink=right.debug", "lib.so");
  fs::remove(victim_.Path("right.debug"));
  Other("right.debug");
  EXPECT_EQ(Find(victim_.Module(linked)).debug, "");
}

TEST_F(ModuleFilesTest, FindsNamedFilesAndFoldersByBuildId) {
  SymbolSearch search;
  search.symbols = {Stripped("elsewhere/renamed")};
  EXPECT_EQ(Find(victim_.Module("/nowhere/lib.so"), search).binary, search.symbols[0]);

  search.symbols = {victim_.folder()};
  const std::string debug = Debug("elsewhere/deeper/also renamed");
  const FoundModule found = Find(victim_.Module("/nowhere/lib.so"), search);
  EXPECT_EQ(found.debug, debug);
  EXPECT_TRUE(found.has_debug_info);

  search.symbols = {debug};
  EXPECT_EQ(Find(victim_.Module("/nowhere/lib.so"), search).debug, debug) << "a debug file alone will do";
}

TEST_F(ModuleFilesTest, SaysWhatIsWrongWithNamedFiles) {
  std::ofstream(victim_.Path("text")) << "hello";
  SymbolSearch search;
  search.symbols = {victim_.Path("text")};
  ModuleFiles files(search);
  files.Find(victim_.Module("/nowhere/lib.so"));
  EXPECT_THAT(files.notes(), ElementsAre(HasSubstr("is no ELF file")));
}

TEST_F(ModuleFilesTest, LooksBelowTheSysroot) {
  const std::string path = Stripped("root/usr/lib/lib.so");
  const std::string hex = BuildIdText(victim_.build_id());
  const std::string debug = Debug("root/usr/lib/debug/.build-id/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".debug");
  SymbolSearch search;
  search.sysroot = victim_.Path("root");
  const FoundModule found = Find(victim_.Module("/usr/lib/lib.so"), search);
  EXPECT_EQ(found.binary, path);
  EXPECT_EQ(found.debug, debug);

  // Links are those of the other machine.
  fs::create_directory_symlink("/usr/lib", victim_.Path("root/lib"));
  EXPECT_EQ(Find(victim_.Module("/lib/lib.so"), search).binary, path);
  EXPECT_EQ(InsideRoot(search.sysroot, "/../../../../../../usr/lib/lib.so"), path);
}

TEST_F(ModuleFilesTest, BesidesASysrootBelievesThisMachineByBuildIdOnly) {
  fs::create_directory(victim_.Path("root"));
  SymbolSearch search;
  search.sysroot = victim_.Path("root");
  ModuleInfo module = victim_.Module(Stripped("lib.so"));
  EXPECT_EQ(Find(module, search).binary, module.path);
  module.build_id.clear();
  EXPECT_FALSE(Find(module, search).readable());
}

// Nothing of a file that somebody else's trace names is believed but by its build id.
TEST_F(ModuleFilesTest, OfAForeignTraceWantsTheBuildId) {
  SymbolSearch search;
  search.needs_build_ids = true;
  ModuleInfo module = victim_.Module(Stripped("lib.so"));
  EXPECT_EQ(Find(module, search).binary, module.path);
  module.build_id.clear();
  EXPECT_EQ(Find(module).binary, module.path);
  const FoundModule found = Find(module, search);
  EXPECT_FALSE(found.readable());
  EXPECT_THAT(found.detail, HasSubstr("no build id"));
}

}  // namespace
}  // namespace gpumem
