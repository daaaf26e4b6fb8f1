// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include <vector>

#include "tests/simcuda/driver/machine_fixture.h"

namespace simcuda {
namespace {

using ContentsTest = MachineFixture;

uint64_t Host(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

TEST_F(ContentsTest, ShortCopiesKeepTheirContents) {
  const uint64_t a = Allocate(4096), b = Allocate(4096);
  const int value = 42;
  int read = 0;
  machine.Copy(a + 100, Host(&value), sizeof value);
  machine.Copy(b, a + 100, sizeof value);
  machine.Copy(Host(&read), b, sizeof read);
  EXPECT_EQ(read, 42);
}

TEST_F(ContentsTest, LongCopiesReadAsZeros) {
  const uint64_t a = Allocate(8 * kMiB);
  std::vector<char> source(4 * kMiB, 'x'), target(4 * kMiB, 'y');
  machine.Copy(a, Host(source.data()), 8);  // dirty before
  machine.Copy(a, Host(source.data()), source.size());
  machine.Copy(Host(target.data()), a, target.size());
  EXPECT_EQ(target, std::vector<char>(4 * kMiB, 0));
}

TEST_F(ContentsTest, FreshMemoryReadsAsZerosWhereverItWasWritten) {
  for (const uint64_t size : {uint64_t{512}, uint64_t{100000}, 4 * kMiB}) {
    const uint64_t address = Allocate(size);
    machine.Fill(address + 17, 0xff, 1, 400);
    ASSERT_EQ(linear.Free({}, address), CUDA_SUCCESS);
    ASSERT_EQ(Allocate(size), address);
    std::vector<char> read(500, 'y');
    machine.Copy(Host(read.data()), address, read.size());
    EXPECT_EQ(read, std::vector<char>(500, 0)) << size;
  }
}

TEST_F(ContentsTest, ZeroTouchesNothingOutsideItsRange) {
  const uint64_t address = Allocate(5 * kPage);
  machine.Fill(address, 0x11, 1, 5 * kPage);
  machine.Zero(address + 100, 3 * kPage);
  std::vector<unsigned char> read(5 * kPage);
  machine.Copy(Host(read.data()), address, read.size());
  for (size_t i = 0; i < read.size(); ++i) {
    ASSERT_EQ(read[i], i >= 100 && i < 100 + 3 * kPage ? 0x00 : 0x11) << i;
  }
}

TEST_F(ContentsTest, FillWritesWords) {
  const uint64_t address = Allocate(64);
  machine.Fill(address, 0x01020304, 4, 3);
  uint32_t read[4] = {9, 9, 9, 9};
  machine.Copy(Host(read), address, sizeof read);
  EXPECT_EQ(read[2], 0x01020304u);
  EXPECT_EQ(read[3], 0u);
}

TEST_F(ContentsTest, WhatCameFromTheHostIsKnownAndWhatComesFromItToo) {
  const uint64_t a = Allocate(4096), b = Allocate(4096), fresh = Allocate(4096);
  const int value = 42;
  EXPECT_FALSE(machine.IsKnown(a, 4));
  machine.Copy(a + 100, Host(&value), sizeof value);
  EXPECT_TRUE(machine.IsKnown(a + 100, 4));
  EXPECT_FALSE(machine.IsKnown(a + 96, 8));  // in part
  machine.Copy(b, a + 100, 4);
  EXPECT_TRUE(machine.IsKnown(b, 4));
  machine.Copy(b, fresh, 4);  // of memory that something else was to fill
  EXPECT_FALSE(machine.IsKnown(b, 4));
  machine.Fill(b, 7, 4, 3);
  EXPECT_TRUE(machine.IsKnown(b, 12));
  machine.Zero(b, 4);  // a block that is handed out again
  EXPECT_FALSE(machine.IsKnown(b, 4));
  EXPECT_TRUE(machine.IsKnown(b + 4, 8));
}

TEST_F(ContentsTest, LongFillsOfZeroAreKnownAndLongCopiesAreNot) {
  const uint64_t address = Allocate(8 * kMiB);
  machine.Fill(address, 0, 1, 8 * kMiB);
  EXPECT_TRUE(machine.IsKnown(address, 8 * kMiB));
  const std::vector<char> source(4 * kMiB, 'x');
  machine.Copy(address, Host(source.data()), source.size());
  EXPECT_FALSE(machine.IsKnown(address, 1));
  EXPECT_TRUE(machine.IsKnown(address + 4 * kMiB, 4 * kMiB));
}

TEST_F(ContentsTest, WhoComputesSaysHowTrueItIs) {
  const uint64_t address = Allocate(4096);
  Truth truth = Truth::kKnown;
  const char* seen = machine.Bytes(address, 4, &truth);
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(truth, Truth::kUnknown);
  char* const bytes = machine.Learn(address, 4, Truth::kKnown);
  ASSERT_EQ(bytes, seen);
  bytes[0] = 9;
  int read = 0;
  machine.Copy(Host(&read), address, sizeof read);
  EXPECT_EQ(read, 9);
  EXPECT_TRUE(machine.IsKnown(address, 4));
  machine.Learn(address, 4, Truth::kUnknown);  // computed from what is not known: it keeps its bytes
  EXPECT_FALSE(machine.IsKnown(address, 4));
  machine.Learn(address, 4, Truth::kKnown);
  machine.Doubt(address, 4);
  EXPECT_FALSE(machine.IsKnown(address, 4));
  machine.Zero(address, 4);
  read = 1;
  machine.Copy(Host(&read), address, sizeof read);
  EXPECT_EQ(read, 0);  // pages that were learned are given back like any
  EXPECT_EQ(machine.Learn(Host(&read), 4, Truth::kKnown), nullptr);
}

TEST_F(ContentsTest, WhatIsDrawnStaysDrawnWhereItIsCopied) {
  const uint64_t a = Allocate(4096), b = Allocate(4096);
  machine.Learn(a, 8, Truth::kDrawn);
  machine.Learn(a + 4, 4, Truth::kKnown);
  Truth truth = Truth::kUnknown;
  machine.Bytes(a, 8, &truth);
  EXPECT_EQ(truth, Truth::kDrawn);  // as the least true byte
  EXPECT_FALSE(machine.IsKnown(a, 8));
  EXPECT_TRUE(machine.IsKnown(a + 4, 4));
  machine.Copy(b, a, 8);
  machine.Bytes(b, 8, &truth);
  EXPECT_EQ(truth, Truth::kDrawn);
  unsigned char truths[4] = {};
  machine.TruthOfEach(a, 4, 4, truths);
  EXPECT_EQ(std::vector<int>(truths, truths + 4), (std::vector<int>{1, 2, 0, 0}));
  machine.Doubt(a, 4);
  machine.TruthOfEach(a, 4, 4, truths);
  EXPECT_EQ(truths[0], 0);
  EXPECT_EQ(truths[1], 2);
}

TEST_F(ContentsTest, HostCannotTouchDeviceMemoryButManaged) {
  const uint64_t device = Allocate(4096);
  const uint64_t managed = Allocate(4096, 0, AllocationKind::kManaged);
  *reinterpret_cast<int*>(managed) = 5;
  int read = 0;
  machine.Copy(Host(&read), managed, sizeof read);
  EXPECT_EQ(read, 5);
  EXPECT_DEATH(*reinterpret_cast<volatile int*>(device) = 1, "");
}

}  // namespace
}  // namespace simcuda
