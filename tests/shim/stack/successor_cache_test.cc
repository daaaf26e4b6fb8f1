// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/successor_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "shim/stack/hash.h"

namespace gpumemshim::stack {
namespace {

using Table = SuccessorCache<1024, uint64_t>;

uint64_t Key(uint64_t number) { return Mix(kHashSeed, number) | 1; }

void Put(Table* table, uint64_t key, uint64_t payload) {
  auto* entry = table->Add(key);
  entry->payload = payload;
  entry->key = key;
}

const auto kAny = [](uint64_t) { return true; };

TEST(SuccessorCache, FindsInAnyOrder) {
  const auto table = std::make_unique<Table>();
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < 600; ++i) {
    EXPECT_EQ(table->Find(Key(i), kAny), nullptr);
    Put(table.get(), Key(i), i);
    numbers.push_back(i);
  }
  std::mt19937 random(7);
  for (int round = 0; round < 5; ++round) {
    for (const uint64_t number : numbers) {
      const auto* entry = table->Find(Key(number), kAny);
      ASSERT_NE(entry, nullptr) << number;
      EXPECT_EQ(entry->payload, number);
    }
    std::shuffle(numbers.begin(), numbers.end(), random);
  }
}

TEST(SuccessorCache, ExpectsWhatFollowedTheLastOneFound) {
  const auto table = std::make_unique<Table>();
  for (uint64_t i = 0; i < 10; ++i) Put(table.get(), Key(i), i);
  ASSERT_NE(table->Find(Key(4), kAny), nullptr);
  EXPECT_EQ(table->Expected()->key, Key(5));
  ASSERT_NE(table->Find(Key(5), kAny), nullptr);
  EXPECT_EQ(table->Expected()->key, Key(6));
  EXPECT_EQ(table->Find(Key(77), kAny), nullptr);
  EXPECT_EQ(table->Expected()->key, Key(6)) << "what is not there moves nothing";
  ASSERT_NE(table->Find(Key(5), kAny), nullptr);
  EXPECT_EQ(table->Expected()->key, Key(6)) << "nor does the same one again";
  ASSERT_NE(table->Find(Key(2), kAny), nullptr);
  ASSERT_NE(table->Find(Key(5), kAny), nullptr);
  ASSERT_NE(table->Find(Key(2), kAny), nullptr);
  EXPECT_EQ(table->Expected()->key, Key(5)) << "what followed it last";
}

TEST(SuccessorCache, TellsEntriesOfOneKeyApart) {
  const auto table = std::make_unique<Table>();
  for (uint64_t i = 0; i < 5; ++i) Put(table.get(), Key(1), i);
  for (uint64_t i = 0; i < 5; ++i) {
    const auto* entry = table->Find(Key(1), [i](uint64_t payload) { return payload == i; });
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->payload, i);
  }
  EXPECT_EQ(table->Find(Key(1), [](uint64_t payload) { return payload == 9; }), nullptr);
}

TEST(SuccessorCache, AnEntryThatIsBeingFilledIsNotFound) {
  const auto table = std::make_unique<Table>();
  table->Add(Key(1));
  EXPECT_EQ(table->Find(Key(1), kAny), nullptr);
}

// Against a map that forgets nothing: what is found is right, and most of the last thousand is found.
TEST(SuccessorCache, NeverLiesAndForgetsTheOldest) {
  const auto table = std::make_unique<Table>();
  std::unordered_map<uint64_t, uint64_t> all;
  std::mt19937_64 random(3);
  uint64_t last = 0, missed = 0, asked = 0;
  for (int i = 0; i < 200'000; ++i) {
    if (random() % 4 == 0) {
      ++last;
      Put(table.get(), Key(last), all[last] = random());
    }
    const uint64_t back = random() % 2000;
    if (back >= last) continue;
    const auto* entry = table->Find(Key(last - back), kAny);
    if (entry != nullptr) {
      ASSERT_EQ(entry->payload, all.at(last - back));
    }
    EXPECT_TRUE(back < 1024 || entry == nullptr);
    if (back < 1000) ++asked, missed += entry == nullptr ? 1u : 0u;
  }
  EXPECT_LT(missed, asked / 50);
}

TEST(SeenSet, RemembersWhatCameLast) {
  SeenSet<64> set{};
  EXPECT_FALSE(set.Contains(3));
  for (uint64_t i = 1; i <= 70; ++i) set.Insert(i * kHashSeed);
  for (uint64_t i = 7; i <= 70; ++i) EXPECT_TRUE(set.Contains(i * kHashSeed)) << i;
  for (uint64_t i = 1; i <= 6; ++i) EXPECT_FALSE(set.Contains(i * kHashSeed)) << "the first one in goes first";
  set.Clear();
  EXPECT_FALSE(set.Contains(70 * kHashSeed));
}

// What a training step's stacks are to a thread's set: all of them are found again at the next step.
TEST(SeenSet, AThirdOfItIsRememberedWhole) {
  static SeenSet<16384> set{};
  uint64_t hash = 1, lost = 0;
  const auto next = [&hash] { return hash = hash * 6364136223846793005u + 1442695040888963407u, hash >> 13; };
  for (int i = 0; i < 5000; ++i) set.Insert(next());
  hash = 1;
  for (int i = 0; i < 5000; ++i) lost += set.Contains(next()) ? 0u : 1u;
  EXPECT_LT(lost, 25u);
}

}  // namespace

}  // namespace gpumemshim::stack
