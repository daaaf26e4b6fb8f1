// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// The hooks of PyTorch's autograd (shim/hooks/autograd.cc, autograd_x86_64.S).

#include <stdexcept>

#include "tests/shim/hooks/fake_stack.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

#define GPUMEM_SAVED_VARIABLE "_ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb"
#define GPUMEM_GET_AND_INCREMENT "_ZN2at15sequence_number17get_and_incrementEv"
#define GPUMEM_CURRENT_THREAD_ID "_ZN2at14RecordFunction15currentThreadIdEv"
#define GPUMEM_GRAD_ACCUMULATOR "_ZN5torch8autograd4impl16grad_accumulatorERKN2at6TensorE"
#define GPUMEM_EVALUATE_FUNCTION                                                                                \
  "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferE" \
  "RKS2_INS0_10ReadyQueueEE"

extern "C" {
void SavedVariable(void*, const void*, bool, bool) asm(GPUMEM_SAVED_VARIABLE);
uint64_t GetAndIncrement() asm(GPUMEM_GET_AND_INCREMENT);
void** GradAccumulator(void**, const void*) asm(GPUMEM_GRAD_ACCUMULATOR);
void EvaluateFunction(void*, void*, const void*, void*, void*) asm(GPUMEM_EVALUATE_FUNCTION);
}

// What PyTorch's own functions were given, or return.
struct Torch {
  std::vector<const void*> given;
  bool flags[2] = {false, false};
  void* accumulator = nullptr;
  bool raises = false;
  uint32_t nodes_inside = 0;
} g_torch;

void RealSavedVariable(void* variable, const void* tensor, bool is_output, bool is_inplace) {
  g_torch.given = {variable, tensor};
  g_torch.flags[0] = is_output;
  g_torch.flags[1] = is_inplace;
}
uint64_t RealGetAndIncrement() { return 17; }
uint64_t RealCurrentThreadId() { return 4; }
void** RealGradAccumulator(void** node, const void* tensor) {
  g_torch.given = {tensor};
  *node = g_torch.accumulator;
  return nullptr;  // the hook returns the place itself, as the function does
}
void RealEvaluateFunction(void* a, void* b, const void* c, void* d, void* e) {
  g_torch.given = {a, b, c, d, e};
  g_torch.nodes_inside = stack::t_nodes;
  if (g_torch.raises) throw std::runtime_error("of a node");
}

const void* Pointer(uint64_t number) { return reinterpret_cast<const void*>(number); }

class Autograd : public HookTest {
 protected:
  Autograd() {
    g_torch = {};
    stack::g_fake = {};
    stack::t_nodes = 0;
    g_around.next_in_scope = {
        {GPUMEM_SAVED_VARIABLE, reinterpret_cast<void*>(&RealSavedVariable)},
        {GPUMEM_GET_AND_INCREMENT, reinterpret_cast<void*>(&RealGetAndIncrement)},
        {GPUMEM_CURRENT_THREAD_ID, reinterpret_cast<void*>(&RealCurrentThreadId)},
        {GPUMEM_GRAD_ACCUMULATOR, reinterpret_cast<void*>(&RealGradAccumulator)},
        {GPUMEM_EVALUATE_FUNCTION, reinterpret_cast<void*>(&RealEvaluateFunction)},
    };
  }
};

TEST_F(Autograd, ANodesForwardStackIsKeptUnderThreadAndNumber) {
  EXPECT_EQ(GetAndIncrement(), 17u);
  ASSERT_EQ(stack::g_fake.forwards.size(), 1u);
  EXPECT_EQ(stack::g_fake.forwards[0], (std::array<uint64_t, 3>{4, 17, 9}));
}

TEST_F(Autograd, AParametersUse) {
  g_torch.accumulator = const_cast<void*>(Pointer(0x33));
  void* node = nullptr;
  EXPECT_EQ(GradAccumulator(&node, Pointer(0x44)), &node);
  EXPECT_EQ(node, Pointer(0x33));
  EXPECT_EQ(g_torch.given, std::vector<const void*>{Pointer(0x44)});
  ASSERT_EQ(stack::g_fake.uses.size(), 1u);
  EXPECT_EQ(stack::g_fake.uses[0], (std::pair<const void*, uint64_t>{Pointer(0x33), 9}));
  g_torch.accumulator = nullptr;  // a tensor that needs no gradient
  GradAccumulator(&node, Pointer(0x44));
  EXPECT_EQ(stack::g_fake.uses.size(), 1u);
}

TEST_F(Autograd, ASavedTensorsDataIsAnEvent) {
  GetAndIncrement();
  SavedVariable(const_cast<void*>(Pointer(0x11)), Pointer(0x22), true, false);
  EXPECT_EQ(g_torch.given, (std::vector<const void*>{Pointer(0x11), Pointer(0x22)}));
  EXPECT_TRUE(g_torch.flags[0]);
  EXPECT_FALSE(g_torch.flags[1]);
  EXPECT_EQ(Recorded(), Lines{"Saved Device address=0x7000 handle=0x12 no stack"}) << "of the node that was made last";
  stack::g_fake.data = 0;
  SavedVariable(nullptr, Pointer(0x22), false, false);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(Autograd, NothingIsKeptWithoutPython) {
  stack::g_fake.python = 0;
  g_torch.accumulator = const_cast<void*>(Pointer(0x33));
  void* node = nullptr;
  GetAndIncrement();
  GradAccumulator(&node, Pointer(0x44));
  EXPECT_TRUE(stack::g_fake.forwards.empty());
  EXPECT_TRUE(stack::g_fake.uses.empty());
}

// Off, without a ring, or without nodes: PyTorch gets its answers and nobody is asked.
TEST_F(Autograd, NothingIsKeptWhereItIsNotWanted) {
  const auto use_all = [] {
    g_torch.accumulator = const_cast<void*>(Pointer(0x33));
    void* node = nullptr;
    EXPECT_EQ(GetAndIncrement(), 17u);
    EXPECT_EQ(*GradAccumulator(&node, Pointer(0x44)), Pointer(0x33));
    SavedVariable(nullptr, Pointer(0x22), false, false);
    EXPECT_EQ(g_torch.given, (std::vector<const void*>{nullptr, Pointer(0x22)}));
  };
  session::g_off.store(true);
  use_all();
  session::g_off.store(false);
  stack::g_fake.nodes_enabled = false;
  use_all();
  stack::g_fake.nodes_enabled = true;
  ring::Pause();
  use_all();
  ASSERT_TRUE(ring::Resume());
  EXPECT_TRUE(stack::g_fake.forwards.empty());
  EXPECT_TRUE(stack::g_fake.uses.empty());
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(Autograd, ANodeIsEnteredAndLeft) {
  const auto number = [](uint64_t value) { return const_cast<void*>(Pointer(value)); };
  EvaluateFunction(number(1), number(2), number(3), number(4), number(5));
  EXPECT_EQ(g_torch.given, (std::vector<const void*>{Pointer(1), Pointer(2), Pointer(3), Pointer(4), Pointer(5)}));
  EXPECT_EQ(stack::g_fake.entered, std::vector<const void*>{Pointer(3)});
  EXPECT_EQ(g_torch.nodes_inside, 1u);
  EXPECT_EQ(stack::t_nodes, 0u);
}

TEST_F(Autograd, AnExceptionLeavesTheNodeToo) {
  g_torch.raises = true;
  stack::t_nodes = 2;
  EXPECT_THROW(EvaluateFunction(nullptr, nullptr, Pointer(3), nullptr, nullptr), std::runtime_error);
  EXPECT_EQ(g_torch.nodes_inside, 3u);
  EXPECT_EQ(stack::t_nodes, 2u);
}

}  // namespace
}  // namespace gpumemshim::hooks
