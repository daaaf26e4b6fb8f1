// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// `gpumemshim export trace --names`: the trace answers the same once the binaries are gone, and is never damaged. The
// traced module is a copy of this test, whose code is asked for its own names.

#include <gmock/gmock.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program.h"
#include "symbols/elf_identity.h"
#include "testing/ring_builder.h"
#include "testing/trace_builder.h"
#include "trace/packet_reader.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::RunGpumem;
using testing::TraceBuilder;

uint64_t g_pc = 0;

__attribute__((noinline)) void RecordReturnAddress() { g_pc = reinterpret_cast<uint64_t>(__builtin_return_address(0)); }

__attribute__((noinline)) void AskedForItsName() {
  RecordReturnAddress();
  asm volatile("");  // so that it is not a tail call
}

class SymbolizeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::MakeFolder();
    fs::copy_file("/proc/self/exe", Path("victim"));
    AskedForItsName();
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* data) {
          *static_cast<uint64_t*>(data) = info->dlpi_addr;
          return 1;  // the executable comes first
        },
        &bias_);
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  Outcome Run(const std::vector<std::string>& arguments) {
    return RunGpumem(arguments, folder_, {{"XDG_CACHE_HOME", Path("cache")}});
  }
  static std::string Bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  // An allocation at a native stack of the victim, and one in a module that is not there.
  TraceBuilder Trace() {
    TraceBuilder trace;
    trace.header().set_pid(0x7ffffff0);
    trace.header().set_hostname("another");
    trace::Module* const victim = trace.definitions().add_modules();
    victim->set_id(1);
    victim->set_path(Path("victim"));
    if (const auto identity = ReadElfIdentity(Path("victim"))) victim->set_build_id(identity->build_id);
    victim->set_load_bias(bias_);
    victim->set_start(g_pc & ~uint64_t{0xffff});
    victim->set_end((g_pc & ~uint64_t{0xffff}) + 0x20000);
    trace::Module* const gone = trace.definitions().add_modules();
    gone->set_id(2);
    gone->set_path("/nowhere/libgone.so");
    gone->set_start(0x1000);
    gone->set_end(0x2000);
    trace.CudaAlloc(0x7f0000000000, 2 << 20, trace.NativeStack({g_pc}));
    trace.CudaAlloc(0x7f0000200000, 1 << 20, trace.NativeStack({0x1234}));
    return trace;
  }
  std::string Put(const std::string& name, const std::string& bytes) {
    testing::WriteFile(Path(name), bytes);
    return name;
  }
  void ForgetEverything() {
    fs::remove(Path("victim"));
    fs::remove_all(Path("cache"));
  }
  std::string Stacks(const std::string& trace) {
    return Run({"peak", "--measure", "total", "--full-stacks", trace}).out;
  }

  std::string folder_;
  uint64_t bias_ = 0;
};

TEST_F(SymbolizeTest, AnswersTheSameWithoutTheBinaries) {
  Put("run.gmtrace", Trace().End().Bytes());
  const std::string before = Bytes(Path("run.gmtrace"));
  const std::string stacks = Stacks("run.gmtrace");
  ASSERT_THAT(stacks, HasSubstr("AskedForIt"));
  const Outcome outcome = Run({"export", "trace", "--names", "run.gmtrace"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("run.symbolized.gmtrace: names for 1 of 2 native addresses"));
  EXPECT_THAT(outcome.out, HasSubstr("is not on this machine"));
  EXPECT_EQ(Bytes(Path("run.gmtrace")), before) << "the trace itself is not touched";
  ForgetEverything();
  EXPECT_THAT(Stacks("run.gmtrace"), Not(HasSubstr("AskedForIt")));
  const std::string now = Stacks("run.symbolized.gmtrace");
  EXPECT_EQ(now.substr(now.find("      bytes")), stacks.substr(stacks.find("      bytes")));
  EXPECT_THAT(now, HasSubstr("AskedForIt"));
  const Outcome again = Run({"export", "trace", "--names", "run.symbolized.gmtrace", "-o", "again.gmtrace"});
  EXPECT_EQ(Bytes(Path("again.gmtrace")), Bytes(Path("run.symbolized.gmtrace"))) << again.err;
}

TEST_F(SymbolizeTest, KeepsTheTraceWhole) {
  Put("run.gmtrace", Trace().End().Bytes());
  ASSERT_EQ(Run({"export", "trace", "--names", "--in-place", "run.gmtrace"}).exit_code, 0);
  auto reader = PacketReader::Open(Path("run.gmtrace"));
  ASSERT_TRUE(reader.ok());
  RawPacket packet;
  uint64_t next = 0;
  PacketType last = PacketType::kNone;
  PacketReader::Outcome outcome;
  while ((outcome = reader->Next(&packet)) == PacketReader::Outcome::kPacket) {
    if (packet.compressed) continue;
    EXPECT_EQ(packet.sequence, next++) << "packets are numbered without a gap";
    last = packet.type;
  }
  EXPECT_EQ(outcome, PacketReader::Outcome::kEnd) << reader->damage();
  EXPECT_EQ(last, PacketType::kEnd) << "the end stays the end";
  EXPECT_EQ(Run({"report", "run.gmtrace"}).exit_code, 0);
}

TEST_F(SymbolizeTest, JoinsWithOtherTraces) {
  Put("a.gmtrace", Trace().End().Bytes());
  Put("b.gmtrace", Trace().End().Bytes());
  ASSERT_EQ(Run({"export", "trace", "--names", "--in-place", "a.gmtrace", "b.gmtrace"}).exit_code, 0);
  Put("both.gmtrace", Bytes(Path("a.gmtrace")) + Bytes(Path("b.gmtrace")));
  ForgetEverything();
  auto reader = TraceReader::Open(Path("both.gmtrace"));
  ASSERT_TRUE(reader.ok());
  int ends = 0;
  while (reader->Next() != ItemType::kEndOfStream) {
    if (reader->type() != ItemType::kEnd) continue;
    ++ends;
    EXPECT_NE(reader->stacks().symbols(1), nullptr) << "each process has its own";
  }
  EXPECT_EQ(ends, 2);
  EXPECT_EQ(reader->damage(), "");
  EXPECT_EQ(reader->missing_packets(), 0u);
  // A joined trace is symbolized process by process.
  Put("joined.gmtrace", Trace().End().Bytes() + Trace().End().Bytes());
  EXPECT_EQ(Run({"export", "trace", "--names", "joined.gmtrace"}).exit_code, 0);
  EXPECT_EQ(Run({"export", "events", "joined.symbolized.gmtrace"}).out,
            Run({"export", "events", "joined.gmtrace"}).out);
}

TEST_F(SymbolizeTest, ReplacesOnlyWhatIsWhole) {
  std::string bytes = Trace().End().Bytes();
  bytes[bytes.size() / 2] ^= 1;
  Put("damaged.gmtrace", bytes);
  const Outcome in_place = Run({"export", "trace", "--names", "--in-place", "damaged.gmtrace"});
  EXPECT_EQ(in_place.exit_code, 3);
  EXPECT_THAT(in_place.err, HasSubstr("-o"));
  EXPECT_EQ(Bytes(Path("damaged.gmtrace")), bytes);
  EXPECT_EQ(Run({"export", "trace", "--names", "-o", "readable.gmtrace", "damaged.gmtrace"}).exit_code, 4);

  Put("there.gmtrace", "kept");
  Put("run.gmtrace", Trace().End().Bytes());
  EXPECT_EQ(Run({"export", "trace", "--names", "-o", "there.gmtrace", "run.gmtrace"}).exit_code, 3);
  EXPECT_EQ(Bytes(Path("there.gmtrace")), "kept");
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_EQ(entry.path().string().find(".tmp."), std::string::npos) << "nothing half-written is left";
}

TEST_F(SymbolizeTest, KeepsModeAndLink) {
  Put("run.gmtrace", Trace().End().Bytes());
  chmod(Path("run.gmtrace").c_str(), 0640);
  fs::create_symlink("run.gmtrace", Path("link.gmtrace"));
  ASSERT_EQ(Run({"export", "trace", "--names", "--in-place", "link.gmtrace"}).exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(Path("link.gmtrace")));
  struct stat info {};
  ASSERT_EQ(stat(Path("run.gmtrace").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(SymbolizeTest, LeavesARunningProgramsTraceAlone) {
  TraceBuilder trace = Trace();
  std::ifstream stat("/proc/self/stat");
  const std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  trace.header().set_pid(static_cast<uint32_t>(getpid()));
  trace.header().set_process_start_ticks(std::stoull(field));
  trace.header().set_hostname(host);
  const std::string bytes = trace.Bytes();
  Put("run.gmtrace", bytes);
  const Outcome outcome = Run({"export", "trace", "--names", "--in-place", "run.gmtrace"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("still runs"));
  EXPECT_EQ(Bytes(Path("run.gmtrace")), bytes);
  EXPECT_THAT(Run({"export", "trace", "--names", "run.gmtrace"}).out, HasSubstr("still runs"));
}

TEST_F(SymbolizeTest, TakesTheRingOfAKilledProcessAlong) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  testing::RingBuilder ring(0x7ffffff0);
  ring.Chunk(1, 1).Stack(5, {g_pc}).Alloc(0x7f0001000000, 4 << 20, 5);
  ring.Write(Path("a.ring"));
  TraceBuilder trace = Trace();
  trace.header().set_hostname(host);
  trace.header().set_process_start_ticks(1234);
  trace.header().mutable_ring()->set_path(Path("a.ring"));
  Put("run.gmtrace", trace.Bytes());
  const Outcome outcome = Run({"export", "trace", "--names", "--json", "run.gmtrace"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto answer = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(answer["files"][0]["recovered_events"], 1);
  unlink(Path("a.ring").c_str());
  ForgetEverything();
  EXPECT_THAT(Run({"export", "events", "run.symbolized.gmtrace"}).out, HasSubstr("0x7f0001000000"));
  EXPECT_THAT(Stacks("run.symbolized.gmtrace"), HasSubstr("AskedForIt"));
}

TEST_F(SymbolizeTest, SaysInJsonWhatItFound) {
  Put("run.gmtrace", Trace().End().Bytes());
  const auto answer = nlohmann::json::parse(Run({"export", "trace", "--names", "--json", "run.gmtrace"}).out);
  EXPECT_EQ(answer["schema_version"], kJsonSchemaVersion);
  const auto& file = answer["files"][0];
  EXPECT_EQ(file["file"], "run.symbolized.gmtrace");
  EXPECT_EQ(file["modules"][0]["module"], "/nowhere/libgone.so");
  EXPECT_EQ(file["modules"][0]["named"], 0);
  EXPECT_EQ(file["modules"][1]["addresses"], 1);
  EXPECT_EQ(file["modules"][1]["named"], 1);
  EXPECT_EQ(file["modules"][1]["file"], Path("victim"));
}

TEST_F(SymbolizeTest, FlagsReachAllCommands) {
  TraceBuilder trace = Trace();
  trace.definitions().mutable_modules(0)->set_path("/nowhere/victim");
  Put("run.gmtrace", trace.End().Bytes());
  fs::create_directories(Path("root/nowhere"));
  fs::copy_file(Path("victim"), Path("root/nowhere/victim"));
  for (const char* command : {"report", "peak", "leaks"}) {
    EXPECT_THAT(Run({command, "--sysroot", "root", "run.gmtrace", "--full-stacks"}).out, HasSubstr("AskedForIt"));
    fs::remove_all(Path("cache"));
    EXPECT_THAT(Run({command, "--full-stacks", "--symbols", "victim", "run.gmtrace"}).out, HasSubstr("AskedForIt"));
    fs::remove_all(Path("cache"));
    EXPECT_THAT(Run({command, "run.gmtrace"}).err, HasSubstr("gpumemshim export trace --names"));
    EXPECT_THAT(Run({command, "--json", "run.gmtrace"}).out, HasSubstr("gpumemshim export trace --names"));
  }
  EXPECT_EQ(Run({"peak", "--symbols", "no/such/file", "run.gmtrace"}).exit_code, 2);
  EXPECT_EQ(Run({"peak", "--sysroot", "no/such/folder", "run.gmtrace"}).exit_code, 2);
  EXPECT_EQ(Run({"export", "trace", "--names", "--in-place", "-o", "x", "run.gmtrace"}).exit_code, 2);
}

}  // namespace
}  // namespace gpumem
