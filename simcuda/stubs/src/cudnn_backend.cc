// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuDNN's backend (graph) API: a descriptor is a bag of attributes that gives back what was put in. Every graph is
// supported by one engine with no knobs and no notes, whose plan needs as much workspace as SIMCUDA_CUDNN_WS or the
// table of measured ones says for what the graph computes. That goes along from a graph to all that is made of it.
//
// Descriptors that the caller passes in to be filled (heuristic results, an engine of a configuration) are left as they
// are: an empty bag answers everything that is asked of it later.
// Thread-safety: a descriptor is one thread's. Failure mode: kBadParamNullPointer, kBadParam, kHostAllocationFailed.
#include "cudnn_backend.h"

#include <stdlib.h>
#include <string.h>

#include "cudnn_types.h"
#include "stub.h"

using namespace simcudnn;

namespace {

// Numbers of cudnnBackendAttributeName_t.
enum Name {
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kConfigWorkspace = 303,
  kConfigSharedMemory = 304,
  kPlanWorkspace = 402,
  kGraphOperations = 801,
  kGraphEngineCount = 802,
  kEngineIndex = 1301,
};
size_t ElementSize(int type) {
  switch (type) {
    case kBoolean:
    case kChar:
      return 1;
    case kHandle:
    case kInt64Type:
    case kDoubleType:
    case kVoidPtr:
    case kDescriptor:
      return 8;
    case kFraction:
      return 16;
    default:
      return 4;  // enumerations, float, int32
  }
}

Attribute* FindOrAdd(Descriptor* descriptor, int name) {
  if (const Attribute* found = Find(descriptor, name)) return const_cast<Attribute*>(found);
  auto* attribute = static_cast<Attribute*>(calloc(1, sizeof(Attribute)));
  if (attribute == nullptr) return nullptr;
  attribute->name = name;
  attribute->next = descriptor->first;
  descriptor->first = attribute;
  return attribute;
}

// What an attribute that nobody set answers: how many elements, and their value.
struct Answer {
  int64_t count;
  int64_t value;
  bool filled;  // false: the elements are the caller's own descriptors
};

int64_t WorkspaceOf(const Descriptor* descriptor) {
  const Question* question = descriptor->question;
  return static_cast<int64_t>(question == nullptr
                                  ? Workspace("plan", "", SIMCUDA_NO_BOUND)
                                  : Workspace(question->operation, question->parameters, question->bound));
}

Answer Unset(const Descriptor* descriptor, int name) {
  switch (name) {
    case kHeuristicResults:
    case kConfigEngine:
      return {1, 0, false};
    case kConfigWorkspace:
    case kPlanWorkspace:
      return {1, WorkspaceOf(descriptor), true};
    case kGraphEngineCount:
      return {1, 1, true};
    case kConfigSharedMemory:
    case kEngineIndex:
      return {1, 0, true};
    default:
      return {0, 0, false};  // notes, knobs, layouts: none
  }
}

// What is made of a graph asks what the graph asks. Out of memory it asks nothing, and its size is not known.
void PassOn(const Descriptor* from, Descriptor* to) {
  if (from == nullptr || to == nullptr || from->question == nullptr) return;
  if (to->question == nullptr) to->question = static_cast<Question*>(malloc(sizeof(Question)));
  if (to->question != nullptr) memcpy(to->question, from->question, sizeof(Question));
}

void NoteSet(Descriptor* descriptor, int name, int64_t count, Descriptor* const* elements) {
  if (name != kGraphOperations) {
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): all `count` of them were copied from the caller
    for (int64_t i = 0; i < count; ++i) PassOn(elements[i], descriptor);
    return;
  }
  if (descriptor->question == nullptr) descriptor->question = static_cast<Question*>(malloc(sizeof(Question)));
  if (descriptor->question != nullptr) Ask(elements, count, descriptor->question);
}

}  // namespace

namespace simcudnn {

const Attribute* Find(const Descriptor* descriptor, int name) {
  for (const Attribute* a = descriptor->first; a != nullptr; a = a->next) {
    if (a->name == name) return a;
  }
  return nullptr;
}

}  // namespace simcudnn

STUB_API int cudnnBackendCreateDescriptor(int type, void** out) {
  if (out == nullptr) return kBadParamNullPointer;
  auto* descriptor = static_cast<Descriptor*>(calloc(1, sizeof(Descriptor)));
  if (descriptor == nullptr) return kHostAllocationFailed;
  descriptor->type = type;
  *out = descriptor;
  return kSuccess;
}

STUB_API int cudnnBackendDestroyDescriptor(void* handle) {
  auto* descriptor = static_cast<Descriptor*>(handle);
  if (descriptor == nullptr) return kSuccess;
  while (descriptor->first != nullptr) {
    Attribute* gone = descriptor->first;
    descriptor->first = gone->next;
    free(gone->bytes);
    free(gone);
  }
  free(descriptor->question);
  free(descriptor);
  return kSuccess;
}

STUB_API int cudnnBackendInitialize(void* descriptor) {
  return descriptor == nullptr ? kBadParamNullPointer : kSuccess;
}
STUB_API int cudnnBackendFinalize(void* descriptor) { return descriptor == nullptr ? kBadParamNullPointer : kSuccess; }
STUB_API int cudnnBackendExecute(void*, void*, void*) { return kSuccess; }

STUB_API int cudnnBackendSetAttribute(void* handle, int name, int type, int64_t count, const void* elements) {
  if (handle == nullptr || (elements == nullptr && count > 0)) return kBadParamNullPointer;
  if (count < 0) return kBadParam;
  const size_t size = static_cast<size_t>(count) * ElementSize(type);
  char* bytes = static_cast<char*>(malloc(size + 1));
  Attribute* attribute = FindOrAdd(static_cast<Descriptor*>(handle), name);
  if (bytes == nullptr || attribute == nullptr) {
    free(bytes);
    return kHostAllocationFailed;
  }
  if (size > 0) memcpy(bytes, elements, size);
  free(attribute->bytes);
  attribute->type = type;
  attribute->count = count;
  attribute->bytes = bytes;
  if (type == kDescriptor)
    NoteSet(static_cast<Descriptor*>(handle), name, count, reinterpret_cast<Descriptor* const*>(bytes));
  return kSuccess;
}

STUB_API int cudnnBackendGetAttribute(void* const handle, int name, int type, int64_t requested, int64_t* count,
                                      void* elements) {
  if (handle == nullptr) return kBadParamNullPointer;
  const Attribute* set = Find(static_cast<Descriptor*>(handle), name);
  if (set != nullptr) {
    if (count != nullptr) *count = set->count;
    const int64_t copied = requested < set->count ? requested : set->count;
    if (elements != nullptr && copied > 0) memcpy(elements, set->bytes, copied * ElementSize(set->type));
    return kSuccess;
  }
  const auto* descriptor = static_cast<const Descriptor*>(handle);
  const Answer answer = Unset(descriptor, name);
  if (type == kDescriptor && elements != nullptr) {
    auto* const* filled = static_cast<Descriptor* const*>(elements);
    for (int64_t i = 0; i < requested && i < answer.count; ++i) PassOn(descriptor, filled[i]);
  }
  if (count != nullptr) *count = answer.count;
  if (answer.filled && elements != nullptr && requested > 0) {
    memcpy(elements, &answer.value, ElementSize(type) < 8 ? 4 : 8);  // little-endian: the low half is the int32
  }
  return kSuccess;
}
