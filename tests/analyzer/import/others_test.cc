// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RMM's logs and torch.profiler's traces, from a file to the answer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "import/import.h"
#include "replay/analyze.h"

namespace gpumem {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class File {
 public:
  explicit File(const std::string& bytes) : descriptor_(memfd_create("file", MFD_CLOEXEC)) {
    EXPECT_EQ(write(descriptor_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  ~File() { close(descriptor_); }
  std::string path() const { return absl::StrCat("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

absl::StatusOr<Analysis> Import(const std::string& bytes, ImportResult* result = nullptr) {
  const File from(bytes);
  std::string trace;
  const auto imported = ImportFile(from.path(), [&trace](absl::string_view part) {
    trace.append(part.data(), part.size());
    return absl::OkStatus();
  });
  if (!imported.ok()) return imported.status();
  if (result != nullptr) *result = *imported;
  const File to(trace);
  StackTable stacks;
  return Analyze(to.path(), {}, &stacks);
}

std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

constexpr char kRmm[] =
    "Thread,Time,Action,Pointer,Size,Stream\n"
    "12,23:59:59.999999,allocate,0x7f0000000000,1024,0x0\n"
    "12,00:00:00:000001,allocate,0x7f0000100000,4096,0x0\n"
    "13,00:00:00:000002,free,0x7f0000000000,1024,0x0\n"
    "13,00:00:00:000003,allocate failure,(nil),99999999999,0x1\n";

TEST(RmmLogTest, BecomesCudaMemory) {
  const auto analysis = Import(kRmm);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ASSERT_EQ(analysis->devices.size(), 1u);
  EXPECT_EQ(analysis->devices[0].peak_total.bytes, 5120u);
  EXPECT_EQ(analysis->devices[0].end.total, 4096u);
  EXPECT_EQ(analysis->end_ns - analysis->origin_ns, 4000u);  // over midnight
  ASSERT_EQ(analysis->ooms.size(), 1u);
  EXPECT_EQ(analysis->ooms[0].requested, 99999999999u);
}

TEST(RmmLogTest, CountsLinesThatAreNone) {
  ImportResult result;
  ASSERT_TRUE(Import(absl::StrCat(kRmm, "12,nonsense\n12,0:0:0.0,fly,0x1,1,0x0\n"), &result).ok());
  EXPECT_THAT(result.notes, Contains(HasSubstr("2 lines that could not be read")));
  EXPECT_TRUE(absl::IsDataLoss(Import("Thread,Time,Action,Pointer,Size,Stream\nx\n").status()));
  EXPECT_TRUE(absl::IsDataLoss(Import("Thread,Time,Action,Pointer,Size,Stream\n" + std::string(9000, 'x')).status()));
}

std::string Memory(uint64_t address, int64_t bytes, double time, uint64_t total, int type = 1) {
  return absl::StrCat(R"({"ph":"i","name":"[memory]","ts":)", time, R"(,"tid":5,"args":{"Addr":)", address,
                      R"(,"Bytes":)", bytes, R"(,"Device Id":0,"Device Type":)", type, R"(,"Total Allocated":)", total,
                      R"(,"Total Reserved":2097152}})");
}

std::string Profile(const std::string& events) {
  return absl::StrCat(R"({"schemaVersion":1,"baseTimeNanoseconds":1700000000000000000,"deviceProperties":[{"id":0}],)",
                      R"("traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::add","args":{"Bytes":[[1]]}},)", events,
                      "]}");
}

TEST(ProfilerTraceTest, PeakIsTheTotal) {
  // 1,000 bytes from before, of which 300 are freed; the file's order is not that of time.
  const std::string events = absl::StrCat(Memory(9000, -300, 3, 1200), ",", Memory(5000, 500, 2, 1500), ",",
                                          Memory(7000, 64, 2.5, 64, /*type=*/0), ",", Memory(5000, -500, 4, 700));
  for (const std::string& bytes : {Profile(events), Gzip(Profile(events))}) {
    ImportResult result;
    const auto analysis = Import(bytes, &result);
    ASSERT_TRUE(analysis.ok()) << analysis.status();
    EXPECT_EQ(analysis->devices[0].peak_allocated.bytes, 1500u);
    EXPECT_EQ(analysis->devices[0].end.allocated, 700u);
    EXPECT_EQ(result.format, "torch.profiler trace");
    EXPECT_THAT(result.notes, Contains(HasSubstr("1000 B were allocated before the profile")));
    EXPECT_THAT(result.notes, Contains(HasSubstr("1 event of memory that is on no GPU was left out")));
  }
}

TEST(ProfilerTraceTest, RefusesWhatIsNone) {
  EXPECT_THAT(std::string(Import("{\"a\": 1}").status().message()), HasSubstr("no memory event"));
  const std::string whole = Profile(Memory(5000, 500, 2, 500));
  EXPECT_TRUE(Import(whole).ok());
  EXPECT_THAT(std::string(Import(whole.substr(0, whole.size() - 5)).status().message()),
              HasSubstr("cut short, at byte"));
  EXPECT_TRUE(absl::IsDataLoss(Import("[" + std::string(100000, '[')).status()));
}

TEST(GzipTest, DamageIsSaid) {
  std::string packed = Gzip(kRmm);
  EXPECT_THAT(std::string(Import(packed.substr(0, packed.size() / 2)).status().message()), HasSubstr("gzip"));
  packed[packed.size() / 2] ^= 0x55;
  EXPECT_FALSE(Import(packed).ok());
}

TEST(GzipTest, BombsAreRefused) {
  const std::string head = "Thread,Time,Action,Pointer,Size,Stream\n";
  EXPECT_THAT(std::string(Import(Gzip(head + std::string(200 << 20, '\n'))).status().message()),
              HasSubstr("times as long"));
}

TEST(ImportTest, OtherFilesAreNamed) {
  EXPECT_THAT(std::string(Import("hello").status().message()), HasSubstr("nothing that can be imported"));
  const File empty("");
  EXPECT_EQ(FormatOf(empty.path()), ImportFormat::kNone);
}

}  // namespace
}  // namespace gpumem
