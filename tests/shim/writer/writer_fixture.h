// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A ring and a writer for each test, writing into a directory of its own.

#ifndef GPUMEM_TESTS_SHIM_WRITER_WRITER_FIXTURE_H_
#define GPUMEM_TESTS_SHIM_WRITER_WRITER_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "shim/ring/ring.h"
#include "shim/writer/writer.h"
#include "trace_decode.h"

namespace gpumemshim::writer {

class WriterTest : public testing::Test {
 protected:
  WriterTest() {
    char pattern[] = "/tmp/gpumemshim_writer_test.XXXXXX";
    directory_ = mkdtemp(pattern);
    path() = directory_ + "/run.gmtrace";
    EXPECT_NE(mkdtemp(rings_.data()), nullptr);
  }
  ~WriterTest() override {
    Stop(5000);
    ring::Stop(1000);
    ring::Unlink();
    std::filesystem::remove_all(directory_);
    std::filesystem::remove_all(rings_);
  }

  // Callbacks carry no context: there is one writer in a process.
  static std::string& path() {
    static std::string path;
    return path;
  }
  static bool OutputPath(char* out, size_t capacity) {
    return snprintf(out, capacity, "%s", path().c_str()) < static_cast<int>(capacity);
  }
  static const char* ApiName(uint16_t api) { return api == 1 ? "cudaMalloc" : api == 2 ? "cudaFree" : ""; }

  static Config MakeConfig() {
    Config config;
    config.callbacks.paths.wanted = &OutputPath;
    config.callbacks.facts.api_name = &ApiName;
    config.interval_ms = 5;
    return config;
  }

  // In a folder of its own: how far a ring grows follows the file system and who else has rings in it (ring_fixture.h).
  ring::Config RingConfig() const {
    ring::Config config;
    config.directory = rings_.c_str();
    return config;
  }

  void StartBoth(const Config& config = MakeConfig(), uint64_t ring_bytes = ring::kDefaultSizeBytes) {
    ring::Config ring_config = RingConfig();
    ring_config.size_bytes = ring_bytes;
    ASSERT_TRUE(ring::Start(ring_config));
    ASSERT_TRUE(Start(config));
  }

  std::string directory_, rings_ = "/tmp/gpumemshim_writer_rings.XXXXXX";
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_TESTS_SHIM_WRITER_WRITER_FIXTURE_H_
