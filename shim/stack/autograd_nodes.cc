// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/autograd_nodes.h"

#include <atomic>
#include <cstring>

#include "shim/ring/ring.h"
#include "shim/stack/hash.h"
#include "shim/stack/memory_read.h"
#include "shim/stack/python_walk.h"
#include "shim/stack/thread_state.h"

namespace gpumemshim::stack {

constinit thread_local uint32_t t_nodes = 0;

namespace {

// torch::autograd::Node: its vtable, how it is counted, sequence_nr_, topological_nr_, has_parent_ and thread_id_. It
// is counted by the weak pointer of enable_shared_from_this, two words, from PyTorch 2.0 on; by one word of
// c10::intrusive_ptr_target in 2.14. Which it is shows where a number and thread are found in the table; of yet another
// layout none would be.
struct NodeLayout {
  size_t number, thread;
};
constexpr NodeLayout kLayouts[] = {{24, 48}, {16, 40}};
constexpr uint64_t kNoNumber = UINT64_MAX;  // AccumulateGrad's
constinit std::atomic<const NodeLayout*> g_layout{nullptr};

uint64_t ForwardBy(const NodeLayout& layout, const void* node) {
  const auto number = Load<uint64_t>(node, layout.number);
  if (number == kNoNumber) return UseOf(node);
  return ForwardOf(Load<uint64_t>(node, layout.thread), number);
}

std::atomic<bool> g_enabled{false};

constexpr uint32_t kForwardSlots = 1u << 17;
constexpr uint32_t kUseSets = 1u << 13;  // of accumulators, eight ways each
constexpr uint32_t kUseWays = 8;
constexpr uint32_t kTypeSlots = 1u << 10;
constexpr uint32_t kMaxTypeProbes = 64;

// `check` is the key exclusive-or the stack, so that a reader tells halves of two writers apart without an order of the
// two stores. 0, 0: empty.
struct ForwardSlot {
  std::atomic<uint64_t> stack;
  std::atomic<uint64_t> check;

  void Set(uint64_t key, uint64_t of) {
    stack.store(of, std::memory_order_relaxed);
    check.store(of ^ key, std::memory_order_relaxed);
  }
  void Copy(const ForwardSlot& other) {
    stack.store(other.stack.load(std::memory_order_relaxed), std::memory_order_relaxed);
    check.store(other.check.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  // False where it is another key's, or empty. Of key 0: whether it is empty.
  bool Get(uint64_t key, uint64_t* of) const {
    *of = stack.load(std::memory_order_relaxed);
    return (check.load(std::memory_order_relaxed) ^ *of) == key;
  }
};
ForwardSlot g_forward[kForwardSlots];
ForwardSlot g_uses[kUseSets][kUseWays];

// Vtables of the nodes met; a class's number is its slot's, from 1.
std::atomic<const void*> g_types[kTypeSlots];

uint64_t ForwardKey(uint64_t thread, uint64_t number) { return Mix(thread, number) | 1; }
// Nodes of one thread are neighbours: the forward pass fills the table in order, and the backward pass reads it back.
ForwardSlot& SlotOf(uint64_t thread, uint64_t number) {
  return g_forward[(number + Mix(kHashSeed, thread)) % kForwardSlots];
}

// Spread once more: addresses of one heap are evenly apart, which after Mix alone fills some sets well beyond the rest.
uint64_t UseKey(const void* accumulator) {
  return Finish(Mix(kNoNumber, reinterpret_cast<uintptr_t>(accumulator))) | 1;
}
ForwardSlot* WaysOf(uint64_t key) { return g_uses[(key >> 1) % kUseSets]; }

uint32_t TypeOf(const void* vtable) {
  const uint64_t start = reinterpret_cast<uint64_t>(vtable) >> 4;
  for (uint32_t probe = 0; probe < kMaxTypeProbes; ++probe) {
    const auto index = static_cast<uint32_t>((start + probe) % kTypeSlots);
    const void* seen = g_types[index].load(std::memory_order_relaxed);
    if (seen == nullptr && g_types[index].compare_exchange_strong(seen, vtable, std::memory_order_relaxed))
      seen = vtable;
    if (seen == vtable) return index + 1;
  }
  return 0;
}

const void* InnermostFrame() {
  const Interpreter* python = FindInterpreter();
  return python == nullptr ? nullptr : InnermostPythonFrame(*python);
}

}  // namespace

void EnableNodes(bool enable) { g_enabled.store(enable, std::memory_order_relaxed); }
bool NodesEnabled() { return g_enabled.load(std::memory_order_relaxed); }

void RememberForward(uint64_t thread, uint64_t number, uint64_t stack) {
  SlotOf(thread, number).Set(ForwardKey(thread, number), stack);
}

uint64_t ForwardOf(uint64_t thread, uint64_t number) {
  uint64_t stack = 0;
  return SlotOf(thread, number).Get(ForwardKey(thread, number), &stack) ? stack : 0;
}

uint64_t ForwardOfNode(const void* node) {
  const NodeLayout* known = g_layout.load(std::memory_order_relaxed);
  if (known != nullptr) return ForwardBy(*known, node);
  for (const NodeLayout& layout : kLayouts) {
    const uint64_t stack = ForwardBy(layout, node);
    if (stack == 0) continue;
    g_layout.store(&layout, std::memory_order_relaxed);
    return stack;
  }
  return 0;
}

// Nodes are freed and their addresses used again, so a set fills with those of long ago: the one that came first makes
// room. Two threads that do so at once may lose one.
void RememberUse(const void* accumulator, uint64_t stack) {
  const uint64_t key = UseKey(accumulator);
  ForwardSlot* const ways = WaysOf(key);
  for (uint32_t way = 0; way < kUseWays; ++way) {
    uint64_t before = 0;
    if (ways[way].Get(key, &before)) return ways[way].Set(key, stack);
  }
  for (uint32_t way = kUseWays - 1; way > 0; --way) ways[way].Copy(ways[way - 1]);
  ways[0].Set(key, stack);
}

uint64_t UseOf(const void* accumulator) {
  const uint64_t key = UseKey(accumulator);
  ForwardSlot* const ways = WaysOf(key);
  for (uint32_t way = 0; way < kUseWays; ++way) {
    uint64_t stack = 0;
    if (ways[way].Get(key, &stack)) return stack;
  }
  return 0;
}

uint32_t EnterNode(const void* node, uintptr_t frame) {
  const uint32_t before = t_nodes++;
  if (before >= kMaxNodes) return before;
  ThreadState* state = ring::Active() && NodesEnabled() ? CurrentThread() : nullptr;
  if (state == nullptr) {
    if (t_state != nullptr) t_state->nodes[before].frame = 0;  // another node's, which was here before
    return before;
  }
  NodeContext& context = state->nodes[before];
  context.frame = frame;
  context.forward = ForwardOfNode(node);
  context.python = InnermostFrame();
  context.type = TypeOf(Load<const void*>(node, 0));
  return before;
}

const NodeContext* FindNode(const ThreadState* state, uintptr_t frame) {
  while (t_nodes > 0) {
    if (t_nodes > kMaxNodes) return nullptr;
    const NodeContext& context = state->nodes[t_nodes - 1];
    if (context.frame == 0) return nullptr;
    if (context.frame > frame) return &context;
    --t_nodes;
  }
  return nullptr;
}

NamePart LastName(const char* mangled) {
  NamePart last{mangled, static_cast<uint32_t>(strnlen(mangled, 200))};
  const char* at = mangled;
  const char* const end = mangled + last.size;
  if (at < end && (*at == '*' || *at == 'N')) ++at;
  while (at < end && *at >= '0' && *at <= '9') {
    uint32_t length = 0;
    for (; at < end && *at >= '0' && *at <= '9'; ++at) length = length * 10 + static_cast<uint32_t>(*at - '0');
    if (length == 0 || length > static_cast<size_t>(end - at)) break;
    last = {at, length};
    at += length;
  }
  return last;
}

bool SendNodeType(uint32_t type) {
  const void* vtable = type == 0 ? nullptr : g_types[type - 1].load(std::memory_order_relaxed);
  if (vtable == nullptr) return true;
  // The Itanium ABI: in front of a vtable's functions stands the type_info, whose second word is the mangled name.
  const void* info = *(static_cast<const void* const*>(vtable) - 1);
  if (info == nullptr) return true;
  const NamePart name = LastName(Load<const char*>(info, sizeof(void*)));
  return ring::RecordText(ring::NodeTextKey(type), name.text, name.size);
}

namespace {

// A TensorImpl begins with its vtable and its counts and goes on with its storage; a StorageImpl with its vtable, its
// counts, and its DataPtr: the address, a context with its deleter, and the device. The counts took 16 bytes up to
// PyTorch 2.9 and take 8 since, so a few places are tried.
constexpr uint32_t kFirstOffset = 16, kLastOffset = 40;
constexpr uint32_t kDeviceBehindData = 24;
constexpr int8_t kCuda = 1;

// Offset of the storage in the tensor << 8 | of the data in the storage; 0 = not known.
std::atomic<uint32_t> g_saved_layout{0};

}  // namespace

void LearnTensorLayout(const void* tensor, const void* data) {
  if (tensor == nullptr || data == nullptr) return;
  for (uint32_t outer = kFirstOffset; outer <= kLastOffset; outer += 8) {
    const void* storage = nullptr;
    if (!TryRead(tensor, outer, &storage) || storage == nullptr) continue;
    for (uint32_t inner = kFirstOffset; inner <= kLastOffset; inner += 8) {
      const void* found = nullptr;
      int8_t device = -1;
      if (!TryRead(storage, inner, &found) || found != data) continue;
      if (!TryRead(storage, inner + kDeviceBehindData, &device) || device != kCuda) continue;
      return g_saved_layout.store(outer << 8 | inner, std::memory_order_relaxed);
    }
  }
}

uint64_t DataOf(const void* tensor) {
  const uint32_t layout = g_saved_layout.load(std::memory_order_relaxed);
  if (layout == 0) return 0;
  const void* implementation = Load<const void*>(tensor, 0);
  if (implementation == nullptr) return 0;
  const void* storage = Load<const void*>(implementation, layout >> 8);
  if (storage == nullptr) return 0;
  if (Load<int8_t>(storage, (layout & 0xFF) + kDeviceBehindData) != kCuda) return 0;
  return Load<uint64_t>(storage, layout & 0xFF);
}

}  // namespace gpumemshim::stack
