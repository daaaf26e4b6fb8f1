// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The torch.nn.Module objects whose calls stand on Python stacks. Every call of a module goes through the Python
// function Module._wrapped_call_impl, whose first local is the module; its frame bears the number of that object.
// Numbers are given at an object's first sight and never again to another one.
//
// Thread-safety: any thread; lock-free. Failure: number 0, "not known", past about a hundred thousand objects.
//
//   const uint32_t number = ObjectNumber(self);

#ifndef GPUMEM_SHIM_STACK_MODULE_OBJECTS_H_
#define GPUMEM_SHIM_STACK_MODULE_OBJECTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/stack/python_layout.h"

namespace gpumemshim::stack {

extern std::atomic<uint64_t> g_module_call_code, g_module_call_start, g_module_call_size, g_object_epoch;

// The code object of Module._wrapped_call_impl and its instructions; all 0 until it was met.
struct ModuleCall {
  uint64_t code, start, size;
};
inline ModuleCall GetModuleCall() {
  return {g_module_call_code.load(std::memory_order_relaxed), g_module_call_start.load(std::memory_order_relaxed),
          g_module_call_size.load(std::memory_order_relaxed)};
}

// A code object was met for the first time: is it Module._wrapped_call_impl?
void NoteModuleCall(const PythonLayout& layout, const void* code, const char* name, size_t name_size, const char* file,
                    size_t file_size);

// Part of every Python stack's hash: it changes when an object died that a stack may have named, so that another object
// at its address makes another stack.
inline uint64_t ObjectEpoch() { return g_object_epoch.load(std::memory_order_relaxed); }

// The object's number, given now where it has none. The object must be alive: on the caller's stack, or held.
uint32_t ObjectNumber(const void* object);

// The object died, or is about to.
void ForgetObject(const void* object);

// The object's name was told, so nobody has to be asked for it.
void SetNamed(uint32_t number);
uint32_t CountUnnamed();

// Called for each object without a name that a new stack names; nullptr: nobody. It must not block.
void SetUnnamedListener(void (*listener)());
void AskForName(uint32_t number);

// Tells the trace the number's class, which is read from the object.
bool SendObject(const void* object, uint32_t number);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_MODULE_OBJECTS_H_
