// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/version_text.h"

#include <gtest/gtest.h>

namespace gpumemshim::control {
namespace {

TEST(VersionText, Cuda) {
  char out[32];
  FormatCudaVersion(13000, out, sizeof out);
  EXPECT_STREQ(out, "13.0");
  FormatCudaVersion(12040, out, sizeof out);
  EXPECT_STREQ(out, "12.4");
}

TEST(VersionText, Torch) {
  char out[32];
  EXPECT_TRUE(
      ParseTorchVersion("from typing import Optional\n__version__ = '2.11.0+cu130'\ndebug = False\n", out, sizeof out));
  EXPECT_STREQ(out, "2.11.0+cu130");
  EXPECT_TRUE(ParseTorchVersion("__version__ = \"2.4\"", out, sizeof out));
  EXPECT_STREQ(out, "2.4");
  EXPECT_FALSE(ParseTorchVersion("__version__ = 2", out, sizeof out));
  EXPECT_FALSE(ParseTorchVersion("__version__ = '2", out, sizeof out));
  EXPECT_FALSE(ParseTorchVersion("", out, sizeof out));
}

}  // namespace
}  // namespace gpumemshim::control
