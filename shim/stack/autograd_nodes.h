// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What ties a backward pass to its forward pass. PyTorch gives each autograd node a number, of its thread, when the
// forward pass makes it: the Python stack of that moment is kept under (thread, number). The engine evaluates a node
// later, on any thread: until it is done every stack captured inside ends at the engine and goes on in the node's
// forward stack.
//
//   forward, thread 1    Linear.forward ─► MmBackward0, number 17        RememberForward(1, 17, hash)
//   backward, thread 2   Engine::evaluate_function(node 17)              EnterNode ... LeaveNode
//                          └─ MmBackward0::apply ─► at::empty: stack = empty, apply, <mark>, Linear.forward, ...
//
// A node that adds up a parameter's gradient has no number. It is known by its address, which is that of no other such
// node unless RememberUse says so; its place is that of the parameter's last use in a forward pass.
//
// Thread-safety: any thread; lock-free. A node that was overwritten in the table (another 131,072 were made since) is
// one whose place is not known. Failure: the stack stays as it was.

#ifndef GPUMEM_SHIM_STACK_AUTOGRAD_NODES_H_
#define GPUMEM_SHIM_STACK_AUTOGRAD_NODES_H_

#include <cstdint>

namespace gpumemshim::stack {

struct ThreadState;

// A node that this thread evaluates.
struct NodeContext {
  uintptr_t frame;     // an address in the frame that entered it; 0 = entered while nothing was recorded
  uint64_t forward;    // hash of the forward stack; 0 = not known
  const void* python;  // innermost Python frame outside of it
  uint32_t type;       // number of its class
};
inline constexpr uint32_t kMaxNodes =
    16;  // one inside the other: re-computation, hooks; deeper ones are not told apart

extern constinit thread_local uint32_t t_nodes __attribute__((tls_model("initial-exec")));

// Whether nodes are to be seen at all; off until it is said.
void EnableNodes(bool enable);
bool NodesEnabled();

// Returns the count of nodes that LeaveNode is to be given. `frame` is an address in the caller's frame.
uint32_t EnterNode(const void* node, uintptr_t frame);
inline void LeaveNode(uint32_t before) { t_nodes = before; }
// An exception goes through.
inline void AbandonNode() {
  if (t_nodes > 0) --t_nodes;
}

// The innermost node, nullptr outside of all. One that was left by a longjmp is dropped.
const NodeContext* FindNode(const ThreadState* state, uintptr_t frame);
inline const NodeContext* CurrentNode(const ThreadState* state, uintptr_t frame) {
  return t_nodes == 0 ? nullptr : FindNode(state, frame);
}

void RememberForward(uint64_t thread, uint64_t number, uint64_t stack);
uint64_t ForwardOf(uint64_t thread, uint64_t number);
void RememberUse(const void* accumulator, uint64_t stack);
uint64_t UseOf(const void* accumulator);

// The same by what stands in the node. 0: not known.
uint64_t ForwardOfNode(const void* node);

// Tells the trace what a class is called.
bool SendNodeType(uint32_t type);

// The last part of a mangled class name: "N5torch8autograd9generated11MmBackward0E" -> "MmBackward0".
struct NamePart {
  const char* text;
  uint32_t size;
};
NamePart LastName(const char* mangled);

// Where the data of a tensor that autograd keeps lies, read from the tensor itself without calling PyTorch. Which words
// to read is learned from one tensor whose data is known.
//
// Thread-safety: any thread. Failure: 0, no address: nothing was learned, the tensor has no data, or not on a CUDA
// device.

// `tensor`: a TensorImpl on a CUDA device; `data`: where its storage's data begins.
void LearnTensorLayout(const void* tensor, const void* data);

// `tensor`: an at::Tensor, which is a pointer to a TensorImpl.
uint64_t DataOf(const void* tensor);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_AUTOGRAD_NODES_H_
