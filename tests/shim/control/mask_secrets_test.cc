// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/mask_secrets.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpumemshim::control {
namespace {

std::vector<std::string> MaskAll(const std::vector<std::string>& arguments) {
  std::vector<std::string> masked;
  bool follows = false;
  for (const std::string& argument : arguments) {
    char out[256];
    follows = MaskArgument(argument.c_str(), follows, out, sizeof out);
    masked.emplace_back(out);
  }
  return masked;
}

using Strings = std::vector<std::string>;

TEST(MaskSecrets, ValueBehindASecretOption) {
  EXPECT_EQ(MaskAll({"train.py", "--token", "abc", "--lr", "1"}), (Strings{"train.py", "--token", "***", "--lr", "1"}));
  EXPECT_EQ(MaskAll({"--wandb-api-key", "abc"}), (Strings{"--wandb-api-key", "***"}));
  EXPECT_EQ(MaskAll({"--db_password", "x", "y"}), (Strings{"--db_password", "***", "y"}));
}

TEST(MaskSecrets, OptionBehindASecretOptionIsNoValue) {
  EXPECT_EQ(MaskAll({"--use-auth", "--lr", "1"}), (Strings{"--use-auth", "--lr", "1"}));
}

TEST(MaskSecrets, AssignedValue) {
  EXPECT_EQ(MaskAll({"--token=abc", "HF_TOKEN=abc", "KEY=abc", "WANDB_API_KEY=a=b"}),
            (Strings{"--token=***", "HF_TOKEN=***", "KEY=***", "WANDB_API_KEY=***"}));
}

TEST(MaskSecrets, ValuesThatLookLikeCredentials) {
  EXPECT_EQ(MaskAll({"hf_abcdefghijklmnopqrstuvwxyz", "--x=ghp_abcdefghijklmnopqrstuvwxyz"}),
            (Strings{"***", "--x=***"}));
}

TEST(MaskSecrets, PasswordInUrl) {
  EXPECT_EQ(MaskAll({"https://me:pw@host/path", "s3://bucket/a@b"}),
            (Strings{"https://***@host/path", "s3://bucket/a@b"}));
}

TEST(MaskSecrets, LeavesOrdinaryArgumentsAlone) {
  const Strings plain{"--max-tokens", "128", "--tokenizer=gpt2", "--num_tokens", "5", "--keyboard=us",
                      "hf_dataset",   "lr=1"};
  EXPECT_EQ(MaskAll(plain), plain);
}

TEST(MaskSecrets, CutsToCapacity) {
  char out[8];
  MaskArgument("0123456789", false, out, sizeof out);
  EXPECT_STREQ(out, "0123456");
}

}  // namespace
}  // namespace gpumemshim::control
