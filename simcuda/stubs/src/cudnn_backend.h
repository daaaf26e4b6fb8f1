// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A descriptor of cuDNN's backend API: a bag of attributes, and what the graph that it belongs to asks for workspace.
//
// Thread-safety: a descriptor is one thread's. Ownership: cudnn_backend.cc makes and frees it with all that it points
// to.
#ifndef SIMCUDA_STUBS_CUDNN_BACKEND_H_
#define SIMCUDA_STUBS_CUDNN_BACKEND_H_

#include <stdint.h>

namespace simcudnn {

// Numbers of cudnnBackendAttributeType_t.
enum AttributeType {
  kHandle = 0,
  kBoolean = 2,
  kInt64Type = 3,
  kDoubleType = 5,
  kVoidPtr = 6,
  kDescriptor = 15,
  kInt32Type = 23,
  kChar = 24,
  kFraction = 26
};

struct Attribute {
  Attribute* next;
  int name;
  int type;
  int64_t count;
  char* bytes;
};

// What decides about the workspace of a plan.
struct Question {
  const char* operation;  // "convolution_forward", "attention", ...
  char parameters[320];
  uint64_t bound;
};

struct Descriptor {
  int type;
  Attribute* first;
  Question* question;  // null before a graph's operations are known
};

// Null where nobody set it.
const Attribute* Find(const Descriptor* descriptor, int name);

// Of a graph of `count` operations, each with its attributes set.
void Ask(Descriptor* const* operations, int64_t count, Question* question);

}  // namespace simcudnn

#endif  // SIMCUDA_STUBS_CUDNN_BACKEND_H_
