// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Exports of a trace that lacks a packet: a block's free fell into the gap, and its memory is used anew behind it.

#include <gmock/gmock.h>
#include <zlib.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "export/exporter.h"
#include "export/hta.h"
#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using testing::kMiB;
using ::testing::Not;
using testing::TraceBuilder;

constexpr uint64_t kGapAt = 0x7f0000000000;

std::unique_ptr<LoadedTrace> WithGap() {
  TraceBuilder trace;
  trace.CudaAlloc(kGapAt, 20 * kMiB).TorchAlloc(kGapAt, 4 * kMiB).TorchAlloc(kGapAt + 8 * kMiB, kMiB).FlushBatch();
  trace.SkipSequence();
  trace.TorchAlloc(kGapAt, kMiB).TorchFree(kGapAt + 16 * kMiB, kMiB).End();
  LoadRequest request;
  request.place = trace.WriteTemporary();
  auto loaded = LoadTrace(request);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return *std::move(loaded);
}

TEST(ExportGapTest, ABlockEndsWhereItsMemoryIsUsedAnew) {
  const auto loaded = WithGap();
  std::string csv;
  {
    const auto exporter = MakeRmmExporter(loaded.get(), [&](absl::string_view text) { absl::StrAppend(&csv, text); });
    ASSERT_TRUE(RunExport({}, loaded.get(), exporter.get(), [] { return true; }).ok());
  }
  EXPECT_THAT(csv, HasSubstr("free,0x7f0000000000,4194304,"));
  EXPECT_LT(csv.find("free,0x7f0000000000,4194304,"), csv.find("allocate,0x7f0000000000,1048576,"));
  EXPECT_THAT(csv, Not(HasSubstr("0x7f0001000000")));  // it was never seen allocated
}

TEST(ExportGapTest, ATimelineAddsUpToWhatIsAllocated) {
  const auto loaded = WithGap();
  std::string file, text(size_t{1} << 16, '\0');
  const TextSink sink = [&](absl::string_view part) { absl::StrAppend(&file, part); };
  ASSERT_TRUE(ExportHta({}, loaded.get(), sink, [] { return true; }).ok());
  z_stream zlib{};
  ASSERT_EQ(inflateInit2(&zlib, MAX_WBITS + 16), Z_OK);
  zlib.next_in = reinterpret_cast<Bytef*>(file.data());
  zlib.avail_in = static_cast<uInt>(file.size());
  zlib.next_out = reinterpret_cast<Bytef*>(text.data());
  zlib.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&zlib, Z_FINISH), Z_STREAM_END);
  text.resize(zlib.total_out);
  inflateEnd(&zlib);
  EXPECT_THAT(text, HasSubstr(", 4, -4194304, "));  // DESTROY
  EXPECT_LT(text.find(", 4, -4194304, "), text.rfind(", 2, 1048576, "));
}

}  // namespace
}  // namespace gpumem
