// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// A trace of four events, and gpumemshim run in a folder that may hold it.

#ifndef GPUMEM_TESTS_ANALYZER_CLI_SMALL_TRACE_H_
#define GPUMEM_TESTS_ANALYZER_CLI_SMALL_TRACE_H_

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "program.h"
#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem::testing {

inline std::string SmallTrace(bool with_end) {
  TraceBuilder trace;
  trace.Device(0, "Test GPU", 1ull << 30);
  const uint64_t stack = trace.PythonStack({{"step", "/job/train.py", 12}, {"<module>", "/job/train.py", 40}});
  trace.CudaAlloc(kSegment, 2 << 20, stack)
      .TorchAlloc(kSegment, 512, stack)
      .TorchAlloc(kSegment + 512, 1024, stack)
      .TorchFree(kSegment, 512);
  if (with_end) trace.End();
  return trace.Bytes();
}

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = MakeFolder(); }
  Outcome Run(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment = {}) {
    return RunGpumem(arguments, folder_, environment);
  }
  void Put(const std::string& name, const std::string& bytes) { WriteFile(folder_ + "/" + name, bytes); }
  std::string folder_;
};

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_CLI_SMALL_TRACE_H_
