// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The test names its own code: it records where it is, as the capture library does, and asks for names.

#include "symbols/symbolizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "testing/trace_builder.h"
#include "victim_library.h"

namespace gpumem {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TraceBuilder;

uint64_t g_pc = 0;
uint32_t g_call_line = 0;

__attribute__((noinline)) void RecordReturnAddress() { g_pc = reinterpret_cast<uint64_t>(__builtin_return_address(0)); }

inline __attribute__((always_inline)) void InlinedIntoItsCaller() {
  g_call_line = __LINE__ + 1;
  RecordReturnAddress();
  asm volatile("");  // so that it is not a tail call
}

__attribute__((noinline)) void CallerOfAll() {
  InlinedIntoItsCaller();
  asm volatile("");
}

// Defines the module that holds this test's code.
void AddThisModule(trace::Definitions* definitions, const std::string& build_id = "") {
  struct Found {
    uint64_t bias = 0, start = UINT64_MAX, end = 0;
  } found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        Found* const out = static_cast<Found*>(data);
        out->bias = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
          out->start = std::min<uint64_t>(out->start, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
          out->end =
              std::max<uint64_t>(out->end, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
        }
        return 1;  // the executable comes first
      },
      &found);
  trace::Module* const module = definitions->add_modules();
  module->set_id(1);
  module->set_path("/proc/self/exe");
  module->set_build_id(build_id);
  module->set_load_bias(found.bias);
  module->set_start(found.start);
  module->set_end(found.end);
}

StackTable TableOf(const TraceBuilder& trace_with_definitions) {
  StackTable table;
  EXPECT_TRUE(table.Add(const_cast<TraceBuilder&>(trace_with_definitions).definitions().SerializeAsString()).ok());
  return table;
}

TEST(SymbolizerTest, AForwardMarkIsAFrameOfItsOwn) {
  TraceBuilder trace;
  const uint32_t node = trace.String("MmBackward0");
  trace::Frame* const mark = trace.definitions().add_frames();
  mark->set_id(1);
  mark->set_forward(true);
  mark->set_node(node);
  trace::Frame* const unnamed = trace.definitions().add_frames();
  unnamed->set_id(2);
  unnamed->set_forward(true);
  const StackTable table = TableOf(trace);
  Symbolizer symbolizer(&table);
  EXPECT_EQ(symbolizer.ResolveFrame(1).at(0).function, "<backward of MmBackward0>");
  EXPECT_TRUE(symbolizer.ResolveFrame(1).at(0).forward);
  EXPECT_EQ(symbolizer.ResolveFrame(2).at(0).function, "<backward of a node>");
}

constexpr char kGenerated[] = "/tmp/torchinductor_me/ab/cab.py";

// From line 340 on: model.py:5 in Block.forward of module 7, called by model.py:24 in a function's part.
void AddCompiledFile(TraceBuilder* trace, const std::string& root = "Net.torch_dynamo_resume_in_forward_at_24") {
  trace::CompiledFile* const file = trace->definitions().add_compiled_files();
  file->set_file(kGenerated);
  for (const std::string& text : {std::string("model.py"), std::string("Block.forward"), root}) file->add_text(text);
  file->add_line(340);
  file->add_depth(2);
  file->add_nn_module(7);
  for (const uint32_t line : {5, 24}) file->add_source_line(line);
  for (const uint32_t function : {2, 3}) file->add_source_function(function);
  for (int i = 0; i < 2; ++i) file->add_source_file(1);
}

TEST(SymbolizerTest, ALineOfCompiledCodeComesBehindTheLinesThatItComputes) {
  TraceBuilder trace;
  const uint64_t stack = trace.PythonStack({{"Runner.call", kGenerated, 350},
                                            {"torch_dynamo_resume_in_forward_at_24", "model.py", 22},
                                            {"<module>", "train.py", 3}});
  AddCompiledFile(&trace);
  const StackTable table = TableOf(trace);
  Symbolizer symbolizer(&table);
  const std::vector<ResolvedFrame> frames = symbolizer.Resolve(stack);
  ASSERT_EQ(frames.size(), 5u);
  EXPECT_EQ(frames[0].function, "Block.forward");
  EXPECT_EQ(frames[0].file, "model.py");
  EXPECT_EQ(frames[0].line, 5u);
  EXPECT_EQ(frames[0].compiled_in, 7u);
  EXPECT_TRUE(frames[0].python && frames[0].inlined);
  EXPECT_EQ(frames[1].function, "Net.forward");
  EXPECT_EQ(frames[2].function, "Runner.call");
  EXPECT_FALSE(frames[2].inlined);
  EXPECT_EQ(frames[3].function, "forward") << "of a function's part behind a graph break";
}

TEST(SymbolizerTest, CompiledCodeThatOtherFunctionsShareHasNoLinesOfTheProgram) {
  TraceBuilder trace;
  const uint64_t own = trace.PythonStack(
      {{"Runner.call", kGenerated, 350}, {"Net.forward", "model.py", 22}, {"<module>", "train.py", 3}});
  const uint64_t other = trace.PythonStack(
      {{"Runner.call", kGenerated, 350}, {"Twin.forward", "model.py", 90}, {"<module>", "train.py", 4}});
  AddCompiledFile(&trace, "Net.forward");
  const StackTable table = TableOf(trace);
  Symbolizer symbolizer(&table);
  EXPECT_EQ(symbolizer.Resolve(own).size(), 3u);
  EXPECT_EQ(symbolizer.Resolve(other).size(), 3u);
}

TEST(SymbolizerTest, AStackThatDoesNotReachTheProgramContradictsNothing) {
  TraceBuilder trace;
  const uint64_t own = trace.PythonStack(
      {{"Runner.call", kGenerated, 350}, {"Net.forward", "model.py", 22}, {"<module>", "train.py", 3}});
  trace.PythonStack({{"Runner.call", kGenerated, 350}, {"apply", "/v/site-packages/torch/autograd/function.py", 9}});
  AddCompiledFile(&trace, "Net.forward");
  const StackTable table = TableOf(trace);
  EXPECT_EQ(Symbolizer(&table).Resolve(own).size(), 5u);
}

TEST(SymbolizerTest, NamesNativeFramesWithInlines) {
  CallerOfAll();
  TraceBuilder trace;
  const uint64_t stack = trace.NativeStack({g_pc});
  AddThisModule(&trace.definitions());
  const StackTable table = TableOf(trace);
  Symbolizer symbolizer(&table);
  const std::vector<ResolvedFrame> frames = symbolizer.Resolve(stack);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_THAT(frames[0].short_function, HasSubstr("InlinedIntoItsCaller"));
  EXPECT_TRUE(frames[0].inlined);
  EXPECT_EQ(frames[0].line, g_call_line);
  EXPECT_THAT(frames[0].file, HasSubstr("symbolizer_test.cc"));
  EXPECT_THAT(frames[1].short_function, HasSubstr("CallerOfAll"));
  EXPECT_FALSE(frames[1].inlined);
  EXPECT_GT(frames[1].line, g_call_line);
}

TEST(SymbolizerTest, FallsBackToSymbolTables) {
  CallerOfAll();
  TraceBuilder trace;
  const uint64_t stack = trace.NativeStack({g_pc});
  AddThisModule(&trace.definitions());
  const StackTable table = TableOf(trace);
  SymbolizerOptions options;
  options.dwarf = false;
  Symbolizer symbolizer(&table, options);
  const std::vector<ResolvedFrame> frames = symbolizer.Resolve(stack);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_THAT(frames[0].function, HasSubstr("CallerOfAll()"));
  EXPECT_EQ(frames[0].line, 0u);
}

TEST(SymbolizerTest, DoesNotBelieveAnotherBuild) {
  CallerOfAll();
  TraceBuilder trace;
  const uint64_t stack = trace.NativeStack({g_pc});
  AddThisModule(&trace.definitions(), "another build id");
  const StackTable table = TableOf(trace);
  Symbolizer symbolizer(&table);
  const std::vector<ResolvedFrame> frames = symbolizer.Resolve(stack);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_THAT(frames[0].function, HasSubstr("exe+0x"));
  EXPECT_THAT(symbolizer.notes(), ElementsAre(AllOf(HasSubstr("another build"), HasSubstr("--symbols PATH"))));
}

TEST(SymbolizerTest, SaysWhichFilesAreMissing) {
  CallerOfAll();
  TraceBuilder trace;
  const uint64_t stack = trace.NativeStack({g_pc});
  AddThisModule(&trace.definitions());
  trace.definitions().mutable_modules(0)->set_path("/nowhere/libfoo.so");
  const StackTable table = TableOf(trace);
  Symbolizer symbolizer(&table);
  symbolizer.Prepare();
  EXPECT_THAT(
      symbolizer.notes(),
      ElementsAre(AllOf(HasSubstr("libfoo.so"), HasSubstr("gpumemshim export trace --names"), HasSubstr("--sysroot"))));
  EXPECT_THAT(symbolizer.Resolve(stack)[0].function, HasSubstr("libfoo.so+0x"));
}

TEST(SymbolizerTest, SaysWhatCouldNotBeVerified) {
  CallerOfAll();
  TraceBuilder trace;
  trace.NativeStack({g_pc});
  AddThisModule(&trace.definitions());
  const StackTable table = TableOf(trace);
  Symbolizer symbolizer(&table);
  symbolizer.Prepare();
  EXPECT_THAT(symbolizer.notes(), ElementsAre(HasSubstr("no build id")));
  ASSERT_EQ(symbolizer.modules().size(), 1u);
  EXPECT_EQ(symbolizer.modules()[0].named, 1u);
  EXPECT_EQ(symbolizer.modules()[0].with_lines, 1u);
}

TEST(SymbolizerTest, TheTracesOwnNamesComeFirst) {
  CallerOfAll();
  TraceBuilder trace;
  const uint64_t stack = trace.NativeStack({g_pc});
  AddThisModule(&trace.definitions());
  ModuleSymbols names;
  names.Add(g_pc - trace.definitions().modules(0).load_bias(),
            {{"Inner()", "inner.h", 3}, {"Outer(int)", "outer.cc", 4}});
  trace.definitions().add_symbols()->ParseFromString(names.Serialize(1));
  const StackTable table = TableOf(trace);
  Symbolizer symbolizer(&table);
  const std::vector<ResolvedFrame> frames = symbolizer.Resolve(stack);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].function, "Inner()");
  EXPECT_TRUE(frames[0].inlined);
  EXPECT_EQ(frames[1].short_function, "Outer");
  EXPECT_EQ(frames[1].line, 4u);
  EXPECT_FALSE(frames[1].inlined);
  EXPECT_TRUE(symbolizer.notes().empty()) << "no file was needed";
  EXPECT_EQ(symbolizer.modules()[0].source, SymbolSource::kTrace);
}

// Stripped, found by its build id; then gone, and the cache still knows.
TEST(SymbolizerTest, RemembersWhatWasLookedUp) {
  const testing::VictimLibrary victim;
  TraceBuilder trace;
  std::vector<uint64_t> stacks;
  for (const VictimFrame& frame : victim.frames()) stacks.push_back(trace.NativeStack({frame.pc}));
  const ModuleInfo info = victim.Module(victim.Shape("--strip-debug", "lib.so"));
  trace::Module* const module = trace.definitions().add_modules();
  module->set_id(1);
  module->set_path(info.path);
  module->set_build_id(info.build_id);
  module->set_load_bias(info.load_bias);
  module->set_start(info.start);
  module->set_end(info.end);
  const StackTable table = TableOf(trace);
  SymbolizerOptions options;
  options.cache_folder = victim.Path("cache");
  const auto names_by = [&](SymbolSource source) {
    Symbolizer symbolizer(&table, options);
    symbolizer.Prepare();
    EXPECT_EQ(symbolizer.modules()[0].source, source);
    EXPECT_TRUE(symbolizer.notes().empty());
    std::vector<std::string> names;
    for (const uint64_t stack : stacks) names.push_back(symbolizer.Resolve(stack)[0].short_function);
    return names;
  };
  const std::vector<std::string> first = names_by(SymbolSource::kFile);
  EXPECT_THAT(first, Contains("victim::Model::Forward"));
  EXPECT_EQ(names_by(SymbolSource::kCache), first);
  std::filesystem::remove(info.path);
  EXPECT_EQ(names_by(SymbolSource::kCache), first);

  // Debug information that comes to hand later is not hidden by what is known already.
  std::filesystem::copy_file(victim.original(), info.path);
  EXPECT_NE(names_by(SymbolSource::kFile), first) << "inlined functions are seen now";
}

TEST(SymbolizerTest, NamesPythonFrames) {
  TraceBuilder trace;
  const uint64_t stack = trace.PythonStack({{"Block.forward", "model.py", 12}, {"<module>", "train.py", 40}});
  const StackTable table = TableOf(trace);
  Symbolizer symbolizer(&table);
  const std::vector<ResolvedFrame> frames = symbolizer.Resolve(stack);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].function, "Block.forward");
  EXPECT_EQ(frames[0].file, "model.py");
  EXPECT_EQ(frames[0].line, 12u);
  EXPECT_TRUE(frames[0].python);
  EXPECT_EQ(frames[1].line, 40u);
}

TEST(SymbolizerTest, LeavesTheUnknownUnknown) {
  TraceBuilder trace;
  const uint64_t stack = trace.NativeStack({0x1234});
  const StackTable table = TableOf(trace);
  Symbolizer symbolizer(&table);
  EXPECT_EQ(symbolizer.Resolve(stack)[0].function, "[no file] 0x1234");
  EXPECT_TRUE(symbolizer.Resolve(99).empty());
}

}  // namespace
}  // namespace gpumem
