// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/module_objects.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

namespace gpumemshim::stack {
namespace {

struct alignas(16) Object {
  char bytes[32];
};

TEST(ModuleObjects, EachHasItsOwnNumber) {
  std::vector<Object> objects(1000);
  std::set<uint32_t> numbers;
  for (const Object& object : objects) numbers.insert(ObjectNumber(&object));
  EXPECT_EQ(numbers.size(), objects.size());
  EXPECT_FALSE(numbers.contains(0));
  for (const Object& object : objects) EXPECT_TRUE(numbers.contains(ObjectNumber(&object)));
  EXPECT_EQ(ObjectNumber(nullptr), 0u);
  EXPECT_EQ(ObjectNumber(&objects[0].bytes[1]), 0u) << "no object lies there";
}

TEST(ModuleObjects, AnotherObjectAtTheSameAddressHasAnother) {
  const Object object{};
  const uint32_t first = ObjectNumber(&object);
  const uint64_t epoch = ObjectEpoch();
  ForgetObject(&object);
  EXPECT_NE(ObjectEpoch(), epoch) << "stacks that named it must be told anew";
  EXPECT_NE(ObjectNumber(&object), first);
}

TEST(ModuleObjects, AWholeModelIsOneEpoch) {
  std::vector<Object> objects(100);
  for (const Object& object : objects) ObjectNumber(&object);
  const uint64_t epoch = ObjectEpoch();
  ForgetObject(&objects[0]);
  const uint64_t next = ObjectEpoch();
  EXPECT_NE(next, epoch);
  for (size_t i = 1; i < objects.size(); ++i) ForgetObject(&objects[i]);
  EXPECT_EQ(ObjectEpoch(), next);
  const Object never{};
  ForgetObject(&never);
  EXPECT_EQ(ObjectEpoch(), next);
}

int g_asked;

TEST(ModuleObjects, NamesAreAskedForUntilTheyAreKnown) {
  const Object object{};
  const uint32_t before = CountUnnamed();
  const uint32_t number = ObjectNumber(&object);
  EXPECT_EQ(CountUnnamed(), before + 1);
  AskForName(number);  // nobody listens
  SetUnnamedListener([] { ++g_asked; });
  AskForName(number);
  EXPECT_EQ(g_asked, 1);
  SetNamed(number);
  AskForName(number);
  EXPECT_EQ(g_asked, 1);
  EXPECT_EQ(CountUnnamed(), before);
  SetUnnamedListener(nullptr);
}

TEST(ModuleObjects, ThreadsAgree) {
  std::vector<Object> objects(5000);
  std::vector<std::vector<uint32_t>> numbers(4);
  std::vector<std::thread> threads;
  for (std::vector<uint32_t>& mine : numbers) {
    threads.emplace_back([&mine, &objects] {
      for (const Object& object : objects) mine.push_back(ObjectNumber(&object));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<uint32_t>& mine : numbers) EXPECT_EQ(mine, numbers[0]);
}

TEST(ModuleObjects, KnowsTheCallOfModules) {
  alignas(16) char code[256] = {};
  code[16] = 10;  // units
  PythonLayout layout = kPython311;
  const std::string file = "/venv/lib/torch/nn/modules/module.py";
  const auto note = [&](const std::string& name, const std::string& where) {
    NoteModuleCall(layout, code, name.data(), name.size(), where.data(), where.size());
    return GetModuleCall();
  };
  EXPECT_EQ(note("Module._call_impl", file).code, 0u);
  EXPECT_EQ(note("Module._wrapped_call_impl", "/my/module.py").code, 0u);
  const ModuleCall call = note("Module._wrapped_call_impl", file);
  const auto first = reinterpret_cast<uint64_t>(code) + layout.code_bytecode;
  EXPECT_EQ(call.code, reinterpret_cast<uint64_t>(code));
  EXPECT_EQ(call.start, first - 2) << "where a frame stands that has not begun";
  EXPECT_EQ(call.start + call.size, first + 20);
}

}  // namespace
}  // namespace gpumemshim::stack
