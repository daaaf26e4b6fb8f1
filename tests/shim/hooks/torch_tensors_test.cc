// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Tensors that get other data (shim/hooks/torch_tensors.cc).

#include "tests/shim/hooks/fake_stack.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

#define GPUMEM_SET_DATA "_ZNK2at10TensorBase8set_dataERKS0_"

extern "C" {
void SetData(const void*, const void*) asm(GPUMEM_SET_DATA);
}

std::vector<const void*> g_passed;
uint64_t g_data_afterwards = 0;

void RealSetData(const void* tensor, const void* data) {
  g_passed = {tensor, data};
  stack::g_fake.data = g_data_afterwards;
}

class TorchTensors : public HookTest {
 protected:
  TorchTensors() {
    g_passed.clear();
    stack::g_fake = {};
    g_around.next_in_scope[GPUMEM_SET_DATA] = reinterpret_cast<void*>(&RealSetData);
  }
  // What is recorded where the data lies at `before`, then at `after`; 0: on no GPU.
  Lines Moved(uint64_t before, uint64_t after) {
    stack::g_fake.data = before;
    g_data_afterwards = after;
    SetData(&tensor_, &data_);
    EXPECT_EQ(g_passed, (std::vector<const void*>{&tensor_, &data_}));
    Lines lines = Recorded();
    for (std::string& line : lines) line = line.substr(0, line.find(" no stack"));
    return lines;
  }

  const uint64_t tensor_ = 0x5500, data_ = 0x6600;  // each a pointer to a TensorImpl
};

TEST_F(TorchTensors, WhereItLiesFromNowOn) {
  EXPECT_EQ(Moved(0x7000, 0x8000), Lines{"TensorData Device address=0x8000 handle=0x5500"});
  EXPECT_EQ(Moved(0x7000, 0), Lines{"TensorData Device handle=0x5500"}) << "to the host";
}

TEST_F(TorchTensors, NothingMovedOnAGpu) {
  EXPECT_EQ(Moved(0, 0), Lines{});
  EXPECT_EQ(Moved(0x7000, 0x7000), Lines{});
  session::g_off.store(true);
  EXPECT_EQ(Moved(0x7000, 0x8000), Lines{});
}

}  // namespace
}  // namespace gpumemshim::hooks
