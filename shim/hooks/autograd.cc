// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PyTorch's autograd: where the forward pass makes a node, and where the engine evaluates it (docs/attribution.md). All
// of these functions are called through the PLT inside of PyTorch's libraries. Nothing here takes the GIL.
//
// RecordFunction::currentThreadId is the one function of PyTorch called: a read of a thread-local number, which the
// node's constructor asks for right after us.

#include <atomic>
#include <cstdint>

#include "shim/base/calls/real.h"
#include "shim/hooks/record.h"
#include "shim/hooks/torch_function.h"
#include "shim/ring/ring.h"
#include "shim/stack/autograd_nodes.h"
#include "shim/stack/capture.h"

namespace gpumemshim::hooks {
namespace {

constexpr char kLibrary[] = "libtorch_cpu.so";
constexpr char kGetAndIncrement[] = "_ZN2at15sequence_number17get_and_incrementEv";
constexpr char kCurrentThreadId[] = "_ZN2at14RecordFunction15currentThreadIdEv";
constexpr char kEvaluateFunction[] =
    "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_"
    "INS0_10ReadyQueueEE";
constexpr char kGradAccumulator[] = "_ZN5torch8autograd4impl16grad_accumulatorERKN2at6TensorE";
constexpr char kSavedVariable[] = "_ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb";

constinit TorchFunction g_saved_variable{kLibrary, kSavedVariable};
constinit TorchFunction g_get_and_increment{kLibrary, kGetAndIncrement};
constinit TorchFunction g_current_thread_id{kLibrary, kCurrentThreadId};
constinit TorchFunction g_grad_accumulator{kLibrary, kGradAccumulator};
constinit TorchFunction g_evaluate_function{kLibrary, kEvaluateFunction};

// The number of the node that this thread made last, and 1: what autograd keeps now is that node's. Its lower half:
// thread-local storage is scarce.
constinit thread_local uint32_t t_last_node = 0;

bool IsWanted() { return !session::IsOff() && ring::Active() && stack::NodesEnabled(); }

void RememberForward(uint64_t number) {
  if (!IsWanted()) return;
  auto* current_thread = reinterpret_cast<uint64_t (*)()>(g_current_thread_id.Find());
  if (current_thread == nullptr) return;
  const uint64_t stack = stack::CapturePython();
  if (stack != 0) stack::RememberForward(current_thread(), number, stack);
}

void RememberUse(const void* accumulator) {
  if (!IsWanted()) return;
  const uint64_t stack = stack::CapturePython();
  if (stack != 0) stack::RememberUse(accumulator, stack);
}

void RecordSaved(const void* tensor) {
  if (!IsWanted()) return;
  Event event{};
  event.kind = EventKind::kSaved;
  event.device = kNoDevice;
  event.address = stack::DataOf(tensor);
  event.handle = t_last_node;
  if (event.address != 0) ring::Record(event);
}

}  // namespace

extern "C" {

// torch::autograd::SavedVariable::SavedVariable(const at::Tensor&, bool, bool): autograd keeps the tensor.
__attribute__((visibility("default"))) void GpumemSavedVariable(void*, const void*, bool, bool) asm(
    "_ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb");

void GpumemSavedVariable(void* variable, const void* tensor, bool is_output, bool is_inplace_on_view) {
  auto* real = reinterpret_cast<void (*)(void*, const void*, bool, bool)>(g_saved_variable.Find());
  real(variable, tensor, is_output, is_inplace_on_view);
  RecordSaved(tensor);
}

__attribute__((visibility("default"))) uint64_t GpumemGetAndIncrement() asm(
    "_ZN2at15sequence_number17get_and_incrementEv");

uint64_t GpumemGetAndIncrement() {
  const uint64_t number = reinterpret_cast<uint64_t (*)()>(g_get_and_increment.Find())();
  t_last_node = static_cast<uint32_t>(number + 1);
  RememberForward(number);
  return number;
}

// A shared_ptr, or intrusive_ptr, of Node: torch::autograd::impl::grad_accumulator(const at::Tensor&): the forward pass
// uses a parameter. The node that will add up its gradient is made for the first use, and has no number.
__attribute__((visibility("default"))) void** GpumemGradAccumulator(void** node, const void* tensor) asm(
    "_ZN5torch8autograd4impl16grad_accumulatorERKN2at6TensorE");

void** GpumemGradAccumulator(void** node, const void* tensor) {
  reinterpret_cast<void** (*)(void**, const void*)>(g_grad_accumulator.Find())(node, tensor);
  if (*node != nullptr) RememberUse(*node);
  return node;
}

// See autograd_x86_64.S. `before` lies in the frame of the function there.
__attribute__((visibility("hidden"))) void* GpumemEnterNode(const void* node, uint64_t* before) {
  *before = stack::EnterNode(node, reinterpret_cast<uintptr_t>(before));
  return g_evaluate_function.Find();
}

__attribute__((visibility("hidden"))) void GpumemLeaveNode(const uint64_t* before) {
  stack::LeaveNode(static_cast<uint32_t>(*before));
}

// The Itanium ABI's personality routine. In the second phase the frames go one by one, ours among them.
__attribute__((visibility("hidden"))) int GpumemNodePersonality(int, int actions, uint64_t, void*, void*) {
  constexpr int kCleanupPhase = 2;
  constexpr int kContinueUnwind = 8;
  if ((actions & kCleanupPhase) != 0) stack::AbandonNode();
  return kContinueUnwind;
}

}  // extern "C"

}  // namespace gpumemshim::hooks
