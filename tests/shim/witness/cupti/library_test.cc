// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/cupti/library.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpumemshim::cupti {
namespace {

std::vector<std::string> PlacesBeside(const char* cudart) {
  std::vector<std::string> places;
  char place[256];
  for (int i = 0; PlaceBeside(cudart, MajorOf(cudart), i, place, sizeof place); i++) places.emplace_back(place);
  return places;
}

TEST(LibraryTest, TakesTheMajorVersionFromTheNameOfTheRuntime) {
  EXPECT_EQ(MajorOf("/opt/cuda/lib64/libcudart.so.13"), 13);
  EXPECT_EQ(MajorOf("libcudart.so.12.8.90"), 12);
  EXPECT_EQ(MajorOf("libcudart.so.11.0"), 11);
  EXPECT_EQ(MajorOf("/opt/cuda/lib64/libcudart.so"), 0);
  EXPECT_EQ(MajorOf("libcudart.so.x"), 0);
}

TEST(LibraryTest, LooksBesideTheRuntimeInToolkitAndWheels) {
  EXPECT_EQ(PlacesBeside("/v/nvidia/cuda_runtime/lib/libcudart.so.12"),
            (std::vector<std::string>{"/v/nvidia/cuda_runtime/lib/libcupti.so.12",
                                      "/v/nvidia/cuda_runtime/lib/../extras/CUPTI/lib64/libcupti.so.12",
                                      "/v/nvidia/cuda_runtime/lib/../../cuda_cupti/lib/libcupti.so.12"}));
  EXPECT_EQ(PlacesBeside("/c/lib64/libcudart.so.11.0").front(), "/c/lib64/libcupti.so.11.8");
  EXPECT_TRUE(PlacesBeside("/c/lib64/libcudart.so.10.2").empty());  // its records are not known
  EXPECT_TRUE(PlacesBeside("libcudart.so.12").empty());
}

TEST(LibraryTest, LeavesOutAPlaceThatDoesNotFit) {
  char place[16];
  EXPECT_FALSE(PlaceBeside("/a/long/folder/libcudart.so.12", 12, 0, place, sizeof place));
}

}  // namespace
}  // namespace gpumemshim::cupti
