// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/torch_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "import/pickle_reader.h"
#include "pickle_builder.h"
#include "replay/analyze.h"
#include "symbols/symbolizer.h"
#include "testing/sizes.h"
#include "trace/import_info.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

using pickled::Block;
using pickled::Dict;
using pickled::Entry;
using pickled::Frame;
using pickled::Int;
using pickled::List;
using pickled::Segment;
using pickled::Snapshot;
using pickled::Text;
using pickled::Value;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kMiB;

constexpr uint64_t kBase = 0x7f0000000000;

// A snapshot, imported, and what the analyzer says of the trace.
class Imported {
 public:
  explicit Imported(const std::string& pickle) {
    ByteSource source = ByteSource::Of(pickle);
    const absl::StatusOr<PickleTree> tree = ReadPickle(&source, {});
    EXPECT_TRUE(tree.ok()) << tree.status();
    if (!tree.ok()) return;
    std::string bytes;
    ImportMemory memory;
    const auto result =
        ImportTorchSnapshot(*tree, pickle.size(), "some/run.pickle", &memory, [&](absl::string_view part) {
          bytes.append(part.data(), part.size());
          return absl::OkStatus();
        });
    status = result.status();
    if (!result.ok()) return;
    notes = result->notes;
    descriptor_ = memfd_create("imported", MFD_CLOEXEC);
    EXPECT_EQ(write(descriptor_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    path = absl::StrCat("/proc/self/fd/", descriptor_);
    absl::StatusOr<Analysis> analyzed = Analyze(path, {}, &stacks);
    EXPECT_TRUE(analyzed.ok()) << analyzed.status();
    if (analyzed.ok()) analysis = *std::move(analyzed);
    EXPECT_EQ(analysis.damage, "");
  }
  ~Imported() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  const DeviceAnalysis& device() const { return analysis.devices.at(0); }
  std::vector<EventRow> Rows() const {
    std::vector<EventRow> rows;
    auto reader = TraceReader::Open(path);
    while (reader->Next() != ItemType::kEndOfStream) {
      for (size_t i = 0; reader->type() == ItemType::kEvents && i < reader->batch().count(); ++i)
        rows.push_back(reader->batch().Row(i));
    }
    return rows;
  }

  absl::Status status;
  std::vector<std::string> notes;
  std::string path;
  Analysis analysis;
  StackTable stacks;

 private:
  int descriptor_ = -1;
};

TEST(TorchImportTest, HistoryFromNothing) {
  const Imported run(
      Snapshot({Segment(kBase, 20 * kMiB, "large", {Block(kBase, 20 * kMiB, 0, "inactive")})},
               {Entry("segment_alloc", kBase, 20 * kMiB, 1000),
                Entry("alloc", kBase, 3 * kMiB + 1, 1001,
                      {Frame("/src/empty.cpp", "at::empty(long)", 40), Frame("a.py", "f", 7)}),
                Entry("alloc", kBase + 3 * kMiB + 512, 2 * kMiB, 1002),
                Entry("free_requested", kBase, 3 * kMiB + 1, 1003), Entry("free_completed", kBase, 3 * kMiB + 1, 1003),
                Entry("free_requested", kBase + 3 * kMiB + 512, 2 * kMiB, 1004),
                Entry("free_completed", kBase + 3 * kMiB + 512, 2 * kMiB, 1004)}));
  ASSERT_TRUE(run.status.ok()) << run.status;
  EXPECT_THAT(run.notes, IsEmpty());
  EXPECT_EQ(run.device().peak_allocated.bytes, 5 * kMiB + 512);
  EXPECT_EQ(run.device().peak_reserved.bytes, 20 * kMiB);
  EXPECT_EQ(run.device().end.allocated, 0u);
  EXPECT_EQ(run.device().end.reserved, 20 * kMiB);
  EXPECT_EQ(run.analysis.process.program, "run");
  EXPECT_EQ(ImportInfoOf(run.analysis.process.settings).format, "PyTorch snapshot");
  const std::vector<EventRow> rows = run.Rows();
  ASSERT_EQ(rows.size(), 5u);  // a completion right behind its request says nothing more
  EXPECT_EQ(rows[1].requested_size, 3 * kMiB + 1);
  EXPECT_EQ(rows[1].time_ns, 1001000u);
  Symbolizer symbolizer(&run.stacks);
  const std::vector<ResolvedFrame> frames = symbolizer.Resolve(rows[1].stack);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].function, "at::empty(long)");
  EXPECT_EQ(frames[0].file, "/src/empty.cpp");
  EXPECT_EQ(frames[0].line, 40u);
  EXPECT_FALSE(frames[0].python);
  EXPECT_EQ(frames[1].function, "f");
  EXPECT_EQ(frames[1].file, "a.py");
  EXPECT_EQ(frames[1].line, 7u);
  EXPECT_TRUE(frames[1].python);
  EXPECT_THAT(symbolizer.notes(), IsEmpty());
}

TEST(TorchImportTest, WhatWasThereBeforeFollowsFromTheEnd) {
  const Imported run(Snapshot(
      {Segment(kBase, 20 * kMiB, "large",
               {Block(kBase, 4 * kMiB, 4 * kMiB, "active_allocated", {Frame("model.py", "load", 3)}),
                Block(kBase + 4 * kMiB, 16 * kMiB, 0, "inactive")})},
      {Entry("free_requested", kBase + 4 * kMiB, 2 * kMiB, 10), Entry("free_completed", kBase + 4 * kMiB, 2 * kMiB, 10),
       Entry("segment_free", kBase + 100 * kMiB, 2 * kMiB, 11)}));
  ASSERT_TRUE(run.status.ok()) << run.status;
  EXPECT_EQ(run.device().peak_allocated.bytes, 6 * kMiB);
  EXPECT_EQ(run.device().peak_reserved.bytes, 22 * kMiB);
  EXPECT_EQ(run.device().end.allocated, 4 * kMiB);
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("The history begins with 2 blocks, 6 MiB, in 2 segments of 22 MiB")));
}

TEST(TorchImportTest, StateWithoutHistory) {
  const Imported run(Snapshot({Segment(kBase, 2 * kMiB, "small",
                                       {Block(kBase, 512, 4, "active_allocated", {Frame("a.py", "f", 1)}),
                                        Block(kBase + 512, 2 * kMiB - 512, 0, "inactive")})},
                              {}));
  ASSERT_TRUE(run.status.ok()) << run.status;
  EXPECT_EQ(run.device().peak_allocated.bytes, 512u);
  EXPECT_EQ(run.device().end.reserved, 2 * kMiB);
  EXPECT_THAT(run.notes, Contains(HasSubstr("no history: it shows one moment")));
}

// PyTorch 1.13: a list of segments, blocks without addresses, stacks in "history".
TEST(TorchImportTest, ListOfSegments) {
  const auto old_block = [](uint64_t size, const char* state, uint64_t real) {
    return Dict(
        {{"size", Int(size)},
         {"state", Text(state)},
         {"history",
          List({Dict({{"addr", Int(0)}, {"real_size", Int(real)}, {"frames", List({Frame("a.py", "f", 1)})}})})}});
  };
  const Imported run(pickled::PickleOf(
      List({Dict({{"device", Int(0)},
                  {"address", Int(kBase)},
                  {"total_size", Int(2 * kMiB)},
                  {"segment_type", Text("small")},
                  {"blocks", List({old_block(1024, "active_allocated", 1000), old_block(512, "inactive", 0),
                                   old_block(2048, "active_allocated", 2000)})}})})));
  ASSERT_TRUE(run.status.ok()) << run.status;
  EXPECT_EQ(run.device().end.allocated, 3072u);
  ASSERT_EQ(run.device().at_peak_allocated.stacks.size(), 1u);
  EXPECT_EQ(run.device().at_peak_allocated.stacks[0].count, 2u);
}

TEST(TorchImportTest, ExpandableSegmentsGrowAndShrink) {
  const Imported run(Snapshot(
      {Segment(
          kBase, 20 * kMiB, "large",
          {Block(kBase, 10 * kMiB, 10 * kMiB, "active_allocated"), Block(kBase + 10 * kMiB, 10 * kMiB, 0, "inactive")},
          /*is_expandable=*/true)},
      {Entry("segment_map", kBase, 60 * kMiB, 1), Entry("alloc", kBase, 10 * kMiB, 2),
       Entry("alloc", kBase + 10 * kMiB, 45 * kMiB, 3), Entry("free_requested", kBase + 10 * kMiB, 45 * kMiB, 4),
       Entry("free_completed", kBase + 10 * kMiB, 45 * kMiB, 4),
       Entry("segment_unmap", kBase + 20 * kMiB, 40 * kMiB, 5)}));
  ASSERT_TRUE(run.status.ok()) << run.status;
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("no stacks")));
  EXPECT_EQ(run.device().peak_reserved.bytes, 60 * kMiB);
  EXPECT_EQ(run.device().peak_allocated.bytes, 55 * kMiB);
  EXPECT_EQ(run.device().end.reserved, 20 * kMiB);
  EXPECT_EQ(run.device().end.allocated, 10 * kMiB);
}

TEST(TorchImportTest, OutOfMemory) {
  const Imported run(Snapshot({Segment(kBase, 2 * kMiB, "small", {Block(kBase, 2 * kMiB, 0, "inactive")})},
                              {Entry("oom", 3 * kMiB, 500 * kMiB, 77, {Frame("a.py", "grow", 9)})}));
  ASSERT_TRUE(run.status.ok()) << run.status;
  ASSERT_EQ(run.analysis.ooms.size(), 1u);
  EXPECT_EQ(run.analysis.ooms[0].requested, 500 * kMiB);
  EXPECT_TRUE(run.analysis.ooms[0].device_stated);
  EXPECT_EQ(run.analysis.ooms[0].device_free, 3 * kMiB);
}

// record_stream: allocated memory falls at the request, the block can be used again later.
TEST(TorchImportTest, FreeCompletedLater) {
  const Imported run(
      Snapshot({Segment(kBase, 2 * kMiB, "small", {Block(kBase, 2 * kMiB, 0, "inactive")})},
               {Entry("alloc", kBase, 512, 1), Entry("free_requested", kBase, 512, 2),
                Entry("alloc", kBase + 512, 512, 3), Entry("free_completed", kBase, 512, 4),
                Entry("free_requested", kBase + 512, 512, 5), Entry("free_completed", kBase + 512, 512, 5)}));
  ASSERT_TRUE(run.status.ok()) << run.status;
  std::vector<int> kinds;
  for (const EventRow& row : run.Rows()) kinds.push_back(row.kind);
  EXPECT_THAT(kinds, ElementsAre(trace::ALLOC, trace::FREE, trace::ALLOC, kTorchFreeCompleted, trace::FREE));
  EXPECT_EQ(run.device().peak_allocated.bytes, 512u);
}

TEST(TorchImportTest, ContradictionsAreSaid) {
  const Imported run(Snapshot({Segment(kBase, 2 * kMiB, "small", {Block(kBase, 2 * kMiB, 0, "inactive")})},
                              {Entry("alloc", kBase, 512, 1)}));
  ASSERT_TRUE(run.status.ok()) << run.status;
  EXPECT_THAT(run.notes, Contains(HasSubstr("1 entry of the history contradicts")));
}

TEST(TorchImportTest, ListsThatAreReferredToTooOftenAreRefused) {
  std::string file = std::string("\x80\x02}(X\x0d\0\0\0device_traces](](", 26);
  for (int i = 0; i < 2000; ++i) file += Entry("alloc", kBase, 512, 1).bytes;
  file += std::string("eq\x01", 3);
  for (int i = 0; i < 900; ++i) file += std::string("h\x01", 2);
  const Imported run(file + "eu.");
  EXPECT_TRUE(absl::IsDataLoss(run.status)) << run.status;
}

TEST(TorchImportTest, OtherPicklesAreNamed) {
  const Value one = Dict({{"segments", List({})}, {"device_traces", List({})}});
  for (const Value& several : {List({one, one}), Dict({{"rank0", one}, {"rank1", one}})}) {
    const Imported ranks(pickled::PickleOf(several));
    EXPECT_THAT(std::string(ranks.status.message()), HasSubstr("with 2 snapshots in a list or dict"));
  }
  const Imported run(pickled::PickleOf(Dict({{"weights", List({})}})));
  EXPECT_THAT(std::string(run.status.message()), HasSubstr("no memory snapshot"));
}

TEST(TorchImportTest, AnnotationsAreRangesAndSteps) {
  const auto annotation = [](const char* stage, const char* name, uint64_t time) {
    return Dict({{"stage", Text(stage)}, {"name", Text(name)}, {"device", Int(0)}, {"time_us", Int(time)}});
  };
  const Imported run(pickled::PickleOf(
      Dict({{"segments", List({})},
            {"device_traces",
             List({List({Entry("segment_alloc", kBase, 2 * kMiB, 10), Entry("segment_free", kBase, 2 * kMiB, 20)})})},
            {"external_annotations",
             List({annotation("START", "ProfilerStep#3", 11), annotation("END", "ProfilerStep#3", 19)})}})));
  ASSERT_TRUE(run.status.ok()) << run.status;
  std::vector<int> kinds;
  for (const EventRow& row : run.Rows()) kinds.push_back(row.kind);
  EXPECT_THAT(kinds, ElementsAre(trace::ALLOC, trace::STEP, trace::RANGE_START, trace::RANGE_END, trace::FREE));
}

}  // namespace
}  // namespace gpumem
