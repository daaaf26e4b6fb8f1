// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/stopped_thread.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "attach/process_map.h"

namespace gpumem {
namespace {

TEST(Payload, HasItsTextsBehindItsCode) {
  const absl::StatusOr<Payload> payload = MakePayload({0x1000, 0x2000}, {1, 2, 3, 4, 5}, "/lib/x.so", "A=1\n");
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_EQ(payload->address, 0x1000u);
  EXPECT_GT(payload->entry, payload->address);
  const std::string end("/lib/x.so\0A=1\n\0", 15);
  EXPECT_EQ(payload->bytes.substr(payload->bytes.size() - end.size()), end);
  EXPECT_LT(payload->bytes.size(), 600u);
}

TEST(Payload, DoesNotGoIntoTooLittleRoom) {
  EXPECT_EQ(MakePayload({0x1000, 0x1100}, {}, "/lib/x.so", "").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(MakePayload({0x1000, 0x2000}, {}, std::string(5000, 'x'), "").ok());
}

TEST(ProcessMap, KnowsThisProcess) {
  const absl::StatusOr<ProcessMap> map = ReadProcessMap(getpid());
  ASSERT_TRUE(map.ok());
  const MappedObject* const libc = map->Find("libc.so.6");
  ASSERT_NE(libc, nullptr);
  const absl::StatusOr<ObjectFunctions> functions = ReadFunctions(getpid(), *libc);
  ASSERT_TRUE(functions.ok());
  EXPECT_EQ(functions->AddressOf("getpid"), reinterpret_cast<uint64_t>(&getpid));
  EXPECT_EQ(functions->AddressOf("no_such_function"), 0u);
  const auto local = reinterpret_cast<uint64_t>(&map);
  EXPECT_TRUE(std::any_of(map->writable.begin(), map->writable.end(),
                          [local](const AddressRange& range) { return range.Holds(local); }));
}

TEST(ProcessMap, WhatIsNotThereIsSaid) { EXPECT_FALSE(ReadProcessMap(1 << 23).ok()); }

}  // namespace
}  // namespace gpumem
