// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/nvml.h"

#include <gtest/gtest.h>

#include "tests/shim/witness/sampler/fake_nvml.h"

namespace gpumemshim::sampler {
namespace {

constexpr uint8_t kNvmlUuid[16] = {0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
                                   0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 7};

class NvmlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Nvml::Load();
    g_fake_nvml.init_result = 0;
    g_fake_nvml.memory_result = 0;
    g_fake_nvml.total = 1000;
    g_fake_nvml.used = 300;
    g_fake_nvml.reserved = 10;
    g_fake_nvml.process_count = 0;
    g_fake_nvml.long_elements = false;
  }
  void SetProcess(uint32_t index, uint32_t pid, uint64_t bytes) {
    g_fake_nvml.pids[index] = pid;
    g_fake_nvml.bytes[index] = bytes;
    g_fake_nvml.process_count = index + 1;
  }

  Nvml nvml_;
  char error_[160] = "";
  nvmlDevice_t device_ = nullptr;
  ProcessUse processes_[Nvml::kMaxProcesses];
  uint32_t count_ = 0;
};

TEST_F(NvmlTest, FindsADeviceByItsIdentityAMigInstanceToo) {
  ASSERT_TRUE(nvml_.Open(error_, sizeof(error_))) << error_;
  EXPECT_STREQ(nvml_.version(), "NVML 1.2.3");
  EXPECT_TRUE(nvml_.FindDevice(kNvmlUuid, &device_));
  const uint8_t other[16] = {1};
  EXPECT_FALSE(nvml_.FindDevice(other, &device_));
}

TEST_F(NvmlTest, SaysWhyItDoesNotStart) {
  g_fake_nvml.init_result = NVML_ERROR_LIB_RM_VERSION_MISMATCH;
  EXPECT_FALSE(nvml_.Open(error_, sizeof(error_)));
  EXPECT_STREQ(error_, "NVML does not start: as the test said (18)");
}

TEST_F(NvmlTest, ReadsMemory) {
  ASSERT_TRUE(nvml_.Open(error_, sizeof(error_)));
  DeviceSample sample;
  sample.Reset(0);
  ASSERT_TRUE(nvml_.ReadMemory(device_, &sample));
  EXPECT_EQ(sample.total, 1000u);
  EXPECT_EQ(sample.used, 300u);
  EXPECT_EQ(sample.driver_reserved, 10u);
  EXPECT_EQ(sample.free, 690u);
  g_fake_nvml.memory_result = NVML_ERROR_NOT_SUPPORTED;
  EXPECT_FALSE(nvml_.ReadMemory(device_, &sample));
}

TEST_F(NvmlTest, ListsProcesses) {
  ASSERT_TRUE(nvml_.Open(error_, sizeof(error_)));
  SetProcess(0, 11, 100);
  SetProcess(1, 12, static_cast<uint64_t>(NVML_VALUE_NOT_AVAILABLE));
  ASSERT_TRUE(nvml_.ListProcesses(device_, processes_, &count_));
  ASSERT_EQ(count_, 2u);
  EXPECT_EQ(processes_[0].pid, 11u);
  EXPECT_EQ(processes_[0].bytes, 100u);
  EXPECT_EQ(processes_[1].pid, 12u);
  EXPECT_EQ(processes_[1].bytes, kUnknown);
}

TEST_F(NvmlTest, OneProcessListedTwiceIsOne) {
  ASSERT_TRUE(nvml_.Open(error_, sizeof(error_)));
  SetProcess(0, 11, static_cast<uint64_t>(NVML_VALUE_NOT_AVAILABLE));
  SetProcess(1, 11, 100);
  ASSERT_TRUE(nvml_.ListProcesses(device_, processes_, &count_));
  ASSERT_EQ(count_, 1u);
  EXPECT_EQ(processes_[0].bytes, 100u);
}

TEST_F(NvmlTest, ReadsElementsThatAreLongerThanTheHeaderSays) {
  ASSERT_TRUE(nvml_.Open(error_, sizeof(error_)));
  g_fake_nvml.long_elements = true;
  for (uint32_t i = 0; i < 4; i++) SetProcess(i, 100 + i, 1000 + i);
  ASSERT_TRUE(nvml_.ListProcesses(device_, processes_, &count_));
  ASSERT_EQ(count_, 4u);
  for (uint32_t i = 0; i < 4; i++) {
    EXPECT_EQ(processes_[i].pid, 100 + i);
    EXPECT_EQ(processes_[i].bytes, 1000 + i);
  }
}

}  // namespace
}  // namespace gpumemshim::sampler
