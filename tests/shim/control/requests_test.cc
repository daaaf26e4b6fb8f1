// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/server/requests.h"

#include <gtest/gtest.h>

#include <string>

namespace gpumemshim::control {
namespace {

Request Parse(const std::string& line) {
  static std::string kept;
  kept = line;
  return ParseRequest(kept.data(), kept.size());
}

TEST(Requests, Commands) {
  EXPECT_EQ(Parse("gpumemshim/1 status").command, Command::kStatus);
  EXPECT_EQ(Parse("gpumemshim/1 start").command, Command::kStart);
  EXPECT_EQ(Parse("gpumemshim/1 stop\r").command, Command::kStop);
  EXPECT_EQ(Parse("gpumemshim/1 flush ").command, Command::kFlush);
  EXPECT_EQ(Parse("gpumemshim/1 dump").command, Command::kDump);
  EXPECT_EQ(Parse("gpumemshim/1 tensors").command, Command::kTensors);
  EXPECT_EQ(Parse("gpumemshim/1 gradients").command, Command::kGradients);
  EXPECT_EQ(Parse("gpumemshim/1 gc").command, Command::kGc);
  EXPECT_EQ(Parse("gpumemshim/1 backtrace").command, Command::kBacktrace);
  EXPECT_EQ(Parse("gpumemshim/1 owners").command, Command::kOwners);
  EXPECT_EQ(Parse("gpumemshim/1 eval 1 + 1").command, Command::kEval);
  EXPECT_EQ(Parse("gpumemshim/1 settings").command, Command::kSettings);
  EXPECT_EQ(Parse("gpumemshim/1 set GPUMEMSHIM_LOG=debug").command, Command::kSet);
}

TEST(Requests, MarkKeepsItsText) {
  EXPECT_EQ(Parse("gpumemshim/1 snapshot x").command, Command::kSnapshot);
  const Request request = Parse("gpumemshim/1 mark  epoch 3 ");
  EXPECT_EQ(request.command, Command::kMark);
  EXPECT_EQ(std::string(request.argument, request.argument_size), " epoch 3 ");
}

TEST(Requests, WhatIsNoRequest) {
  for (const char* line :
       {"", "status", "gpumemshim/2 status", "GET / HTTP/1.1", "gpumemshim/1", "gpumemshim/1 ", "gpumemshim/1 statu",
        "gpumemshim/1 status now", "gpumemshim/1 mark", "gpumemshim/1 snapshot", "gpumemshim/1 eval",
        "gpumemshim/1 gc now", "gpumemshim/1 mark ", "gpumemshim/1  status"}) {
    const Request request = Parse(line);
    EXPECT_EQ(request.command, Command::kNone) << line;
    EXPECT_NE(request.error, nullptr) << line;
  }
  EXPECT_EQ(Parse(std::string("gpumemshim/1 st\0tus", 15)).command, Command::kNone);
  EXPECT_EQ(Parse(std::string(2048, '\xff')).command, Command::kNone);
}

}  // namespace
}  // namespace gpumemshim::control
