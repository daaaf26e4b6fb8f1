// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/architectures.h"

#include <gmock/gmock.h>

namespace simcuda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// {ptx, binary}
std::pair<int, int> Chosen(const std::vector<int>& architectures, int capability) {
  const CodeVersion code = Choose(architectures, capability);
  return {code.ptx, code.binary};
}

TEST(ArchitecturesTest, AreReadFromTheNamesOfThrustAndCub) {
  EXPECT_THAT(ArchitecturesIn("_ZN6thrust49THRUST_300001_SM_750_800_860_900_1000_1200_NS8cuda_cub4core6detail13kIvEE"),
              ElementsAre(75, 80, 86, 90, 100, 120));
  EXPECT_THAT(ArchitecturesIn("_ZN3cub17CUB_200200_520_NS11EmptyKernelIvEEvv"), ElementsAre(52));
  EXPECT_THAT(ArchitecturesIn("_ZN3cub17CUB_101702_900_800_NS11EmptyKernelIvEEvv"), ElementsAre(80, 90));
}

TEST(ArchitecturesTest, OtherNamesTellNone) {
  for (const char* name : {"", "_Z6kernelPf", "_ZN14at_cuda_detail3cub6detail11EmptyKernelIvEEvv", "CUB_",
                           "CUB_300001_SM_NS", "THRUST_300001_SM_750_800", "THRUST_300001_SM_75_NS",
                           "CUB_1_99999999999999999999_NS", "CUB_1_750x_NS", "CUB_1__NS"})
    EXPECT_THAT(ArchitecturesIn(name), IsEmpty()) << name;
  EXPECT_THAT(ArchitecturesIn("CUB_nothing THRUST_0 CUB_300001_SM_800_NS"), ElementsAre(80));
}

TEST(ArchitecturesTest, CodeRunsOnItsMajorNumberFromItsMinorOneOn) {
  const std::vector<int> wheel = {75, 80, 86, 90, 100, 120};
  EXPECT_EQ(Chosen(wheel, 75), std::pair(75, 75));
  EXPECT_EQ(Chosen(wheel, 80), std::pair(80, 80));
  EXPECT_EQ(Chosen(wheel, 87), std::pair(86, 86));
  EXPECT_EQ(Chosen(wheel, 89), std::pair(86, 86));
  EXPECT_EQ(Chosen(wheel, 103), std::pair(100, 100));
  EXPECT_EQ(Chosen(wheel, 121), std::pair(120, 120));
  EXPECT_EQ(Chosen(wheel, 70), std::pair(0, 0));
  EXPECT_EQ(Chosen(wheel, 110), std::pair(0, 0));
  EXPECT_EQ(Chosen({86}, 80), std::pair(0, 0));
}

TEST(ArchitecturesTest, ThePtxOfTheLastIsCompiledForNewerDevices) {
  EXPECT_EQ(Chosen({75, 80}, 90), std::pair(80, 90));
  EXPECT_EQ(Chosen({}, 89), std::pair(89, 89));
}

}  // namespace
}  // namespace simcuda
