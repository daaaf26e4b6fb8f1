// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/request_file.h"

#include <gmock/gmock.h>

#include "requests.h"

namespace gpumem::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReadRequests;

TEST(RequestFileTest, ARecordHasTwentyFourBytes) {
  const std::string path = ::testing::TempDir() + "/requests";
  absl::StatusOr<RequestFile> file = RequestFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  file->Write({RequestKind::kAlloc, 1, 2, 3, uint64_t{1} << 40, (uint64_t{1} << 33) + 5});
  file->Write({RequestKind::kEmptyCache});
  ASSERT_TRUE(file->Close().ok());
  EXPECT_THAT(ReadRequests(path),
              ElementsAre("alloc 1099511627776 device=1 size=8589934597 stream=2 pool=3", "empty_cache 0"));
}

TEST(RequestFileTest, ManyRecordsStayInOrder) {
  const std::string path = ::testing::TempDir() + "/many_requests";
  absl::StatusOr<RequestFile> file = RequestFile::Create(path);
  ASSERT_TRUE(file.ok());
  for (uint64_t i = 0; i < 100'000; ++i) file->Write({RequestKind::kFree, 0, 0, 0, i, 0});
  ASSERT_TRUE(file->Close().ok());
  const std::vector<std::string> lines = ReadRequests(path);
  ASSERT_EQ(lines.size(), 100'000u);
  EXPECT_EQ(lines.back(), "free 99999");
}

TEST(RequestFileTest, SaysWhatCannotBeWritten) {
  EXPECT_THAT(RequestFile::Create("/nowhere/requests").status().message(), HasSubstr("/nowhere/requests"));
  EXPECT_FALSE(RequestFile::Create("/dev/full").ok());  // no device takes the place of a file of ours
}

}  // namespace
}  // namespace gpumem::plan
