// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// `gpumemshim export trace` and its flags, and what `gpumemshim doctor` says of rings that were left.

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "program.h"
#include "testing/ring_builder.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::RingBuilder;
using testing::RunGpumem;
using testing::TraceBuilder;

constexpr uint32_t kGone = 0x7ffffff0;

class RecoverTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = testing::MakeFolder(); }
  Outcome Run(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment = {}) {
    return RunGpumem(arguments, folder_, environment);
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  bool Exists(const std::string& name) const { return access(Path(name).c_str(), F_OK) == 0; }

  // A ring with two events, of a process that is gone.
  void PutRing(const std::string& name, uint32_t pid = kGone) {
    RingBuilder ring(pid);
    std::snprintf(ring.header().program, sizeof(ring.header().program), "train");
    ring.Chunk(1, 1).Stack(5, {0x10}).Alloc(0x7f0000000000, 2 << 20, 5).Alloc(0x7f0000200000, 2 << 20, 5);
    ring.Write(Path(name));
  }
  // Its trace, with one event more before them.
  std::string TraceOf(const std::string& ring, uint32_t pid = kGone) {
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    TraceBuilder trace;
    trace.header().set_pid(pid);
    trace.header().set_process_start_ticks(1234);
    trace.header().set_hostname(host);
    trace.header().mutable_ring()->set_path(Path(ring));
    trace.CudaAlloc(0x7f0001000000, 2 << 20).FlushBatch();
    return trace.Bytes();
  }
  void Put(const std::string& name, const std::string& bytes) { testing::WriteFile(Path(name), bytes); }
  std::string EventsOf(const std::string& trace) { return Run({"export", "events", "--json", trace}).out; }
  static size_t Count(const std::string& text, const std::string& piece) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find(piece, at)) != std::string::npos; at += piece.size()) ++count;
    return count;
  }

  std::string folder_;
};

TEST_F(RecoverTest, WritesANewFileAndLeavesTheOldOne) {
  PutRing("a.ring");
  const std::string bytes = TraceOf("a.ring");
  Put("run.gmtrace", bytes);
  const Outcome outcome = Run({"export", "trace", "run.gmtrace"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 events recovered"));
  EXPECT_TRUE(Exists("run.recovered.gmtrace"));
  EXPECT_TRUE(Exists("a.ring"));
  std::ifstream file(Path("run.gmtrace"), std::ios::binary);
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()), bytes);
  unlink(Path("a.ring").c_str());
  EXPECT_EQ(Count(EventsOf("run.recovered.gmtrace"), "\"kind\""), 3u);
  EXPECT_EQ(Run({"export", "trace", "run.gmtrace"}).exit_code, 3) << "the ring is gone";
}

TEST_F(RecoverTest, ANameThatIsTakenIsNotReplaced) {
  PutRing("a.ring");
  Put("run.gmtrace", TraceOf("a.ring"));
  Put("out.gmtrace", "mine");
  const Outcome outcome = Run({"export", "trace", "run.gmtrace", "-o", "out.gmtrace"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("-o"));
}

TEST_F(RecoverTest, InPlaceAppendsOnceAndDeleteRemovesTheRing) {
  PutRing("a.ring");
  Put("run.gmtrace", TraceOf("a.ring") + "\x0a");  // and the beginning of a packet
  EXPECT_EQ(Run({"export", "trace", "--in-place", "run.gmtrace"}).exit_code, 0);
  EXPECT_EQ(Count(EventsOf("run.gmtrace"), "\"kind\""), 3u);
  const Outcome again = Run({"export", "trace", "--in-place", "--delete", "run.gmtrace"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.out, HasSubstr("recovered already"));
  EXPECT_EQ(Count(EventsOf("run.gmtrace"), "\"kind\""), 3u);
  Put("other.gmtrace", TraceOf("a.ring"));
  EXPECT_EQ(Run({"export", "trace", "--delete", "other.gmtrace"}).exit_code, 0);
  EXPECT_FALSE(Exists("a.ring"));
}

TEST_F(RecoverTest, ARingAloneBecomesATraceThatNamesItsProgram) {
  PutRing("gpumemshim.1.2.ring");
  EXPECT_EQ(Run({"export", "trace", "gpumemshim.1.2.ring", "-o", "out.gmtrace"}).exit_code, 0);
  const Outcome outcome = Run({"info", "out.gmtrace"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("train"));
  EXPECT_EQ(Run({"export", "trace", "--in-place", "gpumemshim.1.2.ring"}).exit_code, 3)
      << "there is no trace to append to";
}

TEST_F(RecoverTest, EachProcessOfAConcatenatedTrace) {
  PutRing("a.ring");
  PutRing("b.ring", kGone + 1);
  Put("both.gmtrace", TraceOf("a.ring") + TraceOf("b.ring", kGone + 1));
  const Outcome in_place = Run({"export", "trace", "--in-place", "both.gmtrace"});
  EXPECT_EQ(in_place.exit_code, 3);
  EXPECT_THAT(in_place.err, HasSubstr("--in-place"));
  const Outcome outcome = Run({"export", "trace", "--delete", "both.gmtrace"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("4 events recovered"));
  EXPECT_FALSE(Exists("a.ring"));
  EXPECT_FALSE(Exists("b.ring"));
  EXPECT_EQ(Count(EventsOf("both.recovered.gmtrace"), "\"kind\""), 6u);
}

TEST_F(RecoverTest, WrongUseAndWhatIsNoTrace) {
  EXPECT_EQ(Run({"export", "trace", "-o", "x.gmtrace", "--in-place", "run.gmtrace"}).exit_code, 2);
  EXPECT_EQ(Run({"export", "trace", "-o", "x.gmtrace", "a", "b"}).exit_code, 2);
  EXPECT_EQ(Run({"export", "trace", "nothing.gmtrace"}).exit_code, 3);
  Put("damaged.ring", std::string("GPUMRING") + std::string(4096, '\xff'));
  const Outcome outcome = Run({"export", "trace", "damaged.ring"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("damaged.ring"));
}

TEST_F(RecoverTest, ACompleteTraceIsLeftAsItIs) {
  TraceBuilder trace;
  trace.CudaAlloc(1, 1).End();
  Put("run.gmtrace", trace.Bytes());
  const Outcome outcome = Run({"export", "trace", "run.gmtrace"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("complete"));
  EXPECT_FALSE(Exists("run.recovered.gmtrace"));
}

TEST_F(RecoverTest, DoctorListsTheRingsThatWereLeft) {
  const std::map<std::string, std::string> here = {{"GPUMEMSHIM_RING_DIRECTORY", folder_}};
  EXPECT_THAT(Run({"doctor"}, here).out, ::testing::Not(HasSubstr("ring left")));
  PutRing("gpumemshim.1.2.ring");
  Put("gpumemshim.3.4.ring", "nonsense");
  const Outcome outcome = Run({"doctor", "--json"}, here);
  EXPECT_THAT(outcome.out, HasSubstr("gpumemshim.1.2.ring"));
  EXPECT_THAT(outcome.out, HasSubstr("train (pid 2147483632)"));
  EXPECT_THAT(outcome.out, HasSubstr("gpumemshim doctor --clean"));
  EXPECT_THAT(outcome.out, HasSubstr("gpumemshim.3.4.ring"));
}

TEST_F(RecoverTest, AFoldersReportNamesRingsWithoutATrace) {
  for (const char* name : {"a.gmtrace", "b.gmtrace"}) Put(name, TraceOf("gone.ring"));
  EXPECT_THAT(Run({"report", folder_}).err, ::testing::Not(HasSubstr("before a trace was begun")));
  RingBuilder ring(kGone);
  ring.Chunk(1, 1).Alloc(0x7f0000000000, 2 << 20);
  ring.BelongTo(Path("c.gmtrace"), 0x1f);
  ring.header().moved = 1;
  ring.Write(Path("c.gmtrace.1f.ring"));
  const Outcome outcome = Run({"report", folder_});
  EXPECT_THAT(outcome.err, HasSubstr("1 process was killed before a trace was begun"));
  EXPECT_THAT(outcome.out, HasSubstr("killed, end unknown"));
  EXPECT_THAT(Run({"export", "trace", "c.gmtrace.1f.ring", "-o", "c.gmtrace"}).out, HasSubstr("1 event"));
}

TEST_F(RecoverTest, ATraceNamesItsRingByTheProgramsOldName) {
  RingBuilder ring(kGone);
  ring.Chunk(1, 1).Alloc(0x7f0000000000, 2 << 20).Alloc(0x7f0000200000, 2 << 20);
  Put("run.gmtrace", TraceOf(absl::StrCat("gpumem.", kGone, ".1234.1f.ring")));
  ring.BelongTo(Path("run.gmtrace"), 0x1f);
  ring.header().moved = 1;
  ring.Write(Path("run.gmtrace.ring"));
  EXPECT_EQ(Count(EventsOf("run.gmtrace"), "\"alloc\""), 3u);
}

TEST_F(RecoverTest, DoctorPutsThemBesideTheirTraces) {
  const std::map<std::string, std::string> here = {{"GPUMEMSHIM_RING_DIRECTORY", folder_}};
  RingBuilder ring(kGone);
  ring.Chunk(1, 1).Alloc(0x7f0000000000, 2 << 20).Alloc(0x7f0000200000, 2 << 20);
  const std::string name = absl::StrCat("gpumemshim.", kGone, ".1234.1f.ring");
  Put("run.gmtrace", TraceOf(name));
  ring.BelongTo(Path("run.gmtrace"), 0x1f).Write(Path(name));
  PutRing("gpumemshim.1.2.ring");
  const Outcome listed = Run({"doctor", "--json"}, here);
  EXPECT_THAT(listed.out, HasSubstr("by 2 processes that are gone"));
  EXPECT_TRUE(Exists(name));
  const Outcome outcome = Run({"doctor", "--clean", "--json"}, here);
  EXPECT_THAT(outcome.out, HasSubstr("ring removed"));
  EXPECT_THAT(outcome.out, HasSubstr("run.gmtrace.ring"));
  EXPECT_THAT(outcome.out, HasSubstr("gpumemshim export trace --delete"));  // the other one, which names no trace
  EXPECT_FALSE(Exists(name));
  EXPECT_TRUE(Exists("gpumemshim.1.2.ring"));
  EXPECT_EQ(Count(EventsOf("run.gmtrace"), "\"alloc\""), 3u);
}

}  // namespace
}  // namespace gpumem
