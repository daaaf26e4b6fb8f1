// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The fork server's socket is open in the programs that it runs, so anything may come out of it.

#include "planner/launch/fork_server.h"

#include <gtest/gtest.h>

#include "testing/mutated_json.h"

namespace gpumem::plan {
namespace {

using Kind = ServerMessage::Kind;

TEST(ServerMessageTest, EveryKind) {
  EXPECT_EQ(ParseServerMessage(R"({"ready": 1.5})")->kind, Kind::kReady);
  EXPECT_EQ(ParseServerMessage(R"({"ready": 1.5})")->seconds, 1.5);
  EXPECT_EQ(ParseServerMessage(R"({"unfit": "jax", "why": "threads"})")->module, "jax");
  EXPECT_EQ(ParseServerMessage(R"({"id": 4, "pid": 4242})")->pid, 4242);
  const absl::StatusOr<ServerMessage> ended = ParseServerMessage(R"({"id": 4, "status": 256, "rss_kib": 77})");
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->kind, Kind::kEnded);
  EXPECT_EQ(ended->status, 256);
  EXPECT_EQ(ended->rss_kib, 77u);
}

// A late run's group is killed: -1 and -0 would be those of others.
TEST(ServerMessageTest, NoProcessButARunIsNamed) {
  for (const char* const text :
       {R"({"id": 1, "pid": 1})", R"({"id": 1, "pid": 0})", R"({"id": 1, "pid": -1})",
        R"({"id": 1, "pid": 4294967297})", R"({"id": 1, "pid": 1e300})", R"({"id": 1, "pid": [7]})"})
    EXPECT_FALSE(ParseServerMessage(text).ok()) << text;
}

TEST(ServerMessageTest, WhatIsNoMessageIsNone) {
  for (const char* const text : {"", "{}", "[]", "7", R"({"id": 3})", R"({"ready": "soon"})", R"({"status": 1.5})"})
    EXPECT_FALSE(ParseServerMessage(text).ok()) << text;
  for (const char* const message : {R"({"ready": 1.5})", R"({"unfit": "jax", "why": "threads"})",
                                    R"({"id": 4, "pid": 4242})", R"({"id": 4, "status": 256, "rss_kib": 77})"}) {
    testing::EachMutation(message, [](const std::string& text) {
      const absl::StatusOr<ServerMessage> read = ParseServerMessage(text);
      EXPECT_TRUE(!read.ok() || read->kind != Kind::kGone) << text;
    });
  }
}

}  // namespace
}  // namespace gpumem::plan
