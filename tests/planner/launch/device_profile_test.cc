// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/device_profile.h"

#include <gmock/gmock.h>

#include <cctype>
#include <map>
#include <set>

namespace gpumem::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string NameOf(const char* wanted) {
  const absl::StatusOr<DeviceProfile> device = FindDevice(wanted);
  return device.ok() ? device->name : "none";
}

TEST(DeviceProfileTest, EveryDeviceIsCompleteAndHasASource) {
  ASSERT_GE(AllDevices().size(), 15u);
  for (const DeviceProfile& device : AllDevices()) {
    SCOPED_TRACE(device.name);
    EXPECT_THAT(device.name, Not(IsEmpty()));
    EXPECT_THAT(device.full_name, Not(IsEmpty()));
    EXPECT_GE(device.memory_mib, 8u << 10);
    EXPECT_LT(device.memory_mib, 512u << 10);
    EXPECT_EQ(device.memory_bytes(), device.memory_mib << 20);
    EXPECT_GE(device.capability, 70);
    EXPECT_LE(device.capability, 130);
    EXPECT_GE(device.multiprocessors, 16);
    EXPECT_GT(device.shared_memory, 48u << 10);
    EXPECT_GE(device.l2_cache, 4u << 20);
    EXPECT_GE(device.memory_bus, 192);
    EXPECT_GE(device.memory_clock_mhz, 800);
    EXPECT_GE(device.clock_mhz, 1400);
    EXPECT_GT(device.source.size(), 15u);
  }
}

// What one name stands for must not hang on the order of the file.
TEST(DeviceProfileTest, NoNameStandsForTwoDevices) {
  std::map<std::string, std::string> owners;
  for (const DeviceProfile& device : AllDevices()) {
    std::vector<std::string> names = device.aliases;
    names.insert(names.end(), {device.name, device.full_name});
    for (const std::string& name : names) {
      std::string plain;
      for (const char c : name) {
        if (std::isalnum(static_cast<unsigned char>(c))) plain += static_cast<char>(std::tolower(c));
      }
      EXPECT_EQ(owners.try_emplace(plain, device.name).first->second, device.name) << name;
      EXPECT_EQ(NameOf(name.c_str()), device.name);
    }
  }
}

TEST(DeviceProfileTest, CaseBlanksHyphensAndUnderscoresDoNotCount) {
  for (const char* name : {"RTX4090", "rtx4090", "rtx-4090", "RTX 4090", "rtx_4090", "4090", "NVIDIA GeForce RTX 4090"})
    EXPECT_EQ(NameOf(name), "RTX4090") << name;
  EXPECT_EQ(NameOf("a100"), "A100-80");
  EXPECT_EQ(NameOf("a100-40gb"), "A100-40");
  EXPECT_EQ(NameOf("h200"), "H200");
  EXPECT_EQ(NameOf("rtx40900"), "none");
  EXPECT_EQ(NameOf("rtx409"), "none");
}

TEST(DeviceProfileTest, AnUnknownNameIsAnsweredWithThoseThatThereAre) {
  for (const char* name : {"h300", "", "--"}) {
    const absl::Status status = FindDevice(name).status();
    EXPECT_TRUE(absl::IsNotFound(status));
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(std::string("\"") + name + "\""), HasSubstr("T4, V100"), HasSubstr("H100"),
                      HasSubstr("B200"), HasSubstr("--memory 40GiB --capability 8.6")));
  }
}

TEST(DeviceProfileTest, ACapabilityIsTwoNumbers) {
  const std::map<std::string, int> good = {{"7.5", 75}, {"8.0", 80}, {"8.6", 86}, {"9.0", 90}, {"10.3", 103}};
  for (const auto& [text, capability] : good) {
    EXPECT_EQ(ParseCapability(text).value_or(-1), capability);
    EXPECT_EQ(CapabilityText(capability), text);
  }
  for (const char* text :
       {"", "8", "86", "8.", ".6", "8.6.1", "8.10", "8.-1", "-8.6", "4.9", "100.0", "sm_86", "8,6", "99999999999.0"}) {
    const absl::Status status = ParseCapability(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--capability 8.6")) << text;
  }
}

}  // namespace
}  // namespace gpumem::plan
