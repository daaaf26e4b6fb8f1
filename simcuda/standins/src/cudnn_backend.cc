// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuDNN's backend (graph) API: a descriptor is a bag of attributes that gives back what was put in. Every graph is
// supported by one engine with no knobs and no notes, whose plan needs SIMCUDA_CUDNN_WS bytes of workspace.
//
// Descriptors that the caller passes in to be filled (heuristic results, an engine of a configuration) are left as they
// are: an empty bag answers everything that is asked of it later.
// Thread-safety: a descriptor is one thread's. Failure mode: kBadParamNullPointer, kBadParam, kHostAllocationFailed.
#include <stdlib.h>
#include <string.h>

#include "cudnn_types.h"
#include "standin.h"

using namespace simcudnn;

namespace {

// Numbers of cudnnBackendAttributeName_t and cudnnBackendAttributeType_t.
enum Name {
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kConfigWorkspace = 303,
  kConfigSharedMemory = 304,
  kPlanWorkspace = 402,
  kGraphEngineCount = 802,
  kEngineIndex = 1301,
};
enum Type {
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

struct Attribute {
  Attribute* next;
  int name;
  int type;
  int64_t count;
  char* bytes;
};

struct Descriptor {
  int type;
  Attribute* first;
};

Attribute* Find(const Descriptor* descriptor, int name) {
  for (Attribute* a = descriptor->first; a != nullptr; a = a->next) {
    if (a->name == name) return a;
  }
  return nullptr;
}

Attribute* FindOrAdd(Descriptor* descriptor, int name) {
  Attribute* attribute = Find(descriptor, name);
  if (attribute != nullptr) return attribute;
  attribute = static_cast<Attribute*>(calloc(1, sizeof(Attribute)));
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

Answer Unset(int name) {
  switch (name) {
    case kHeuristicResults:
    case kConfigEngine:
      return {1, 0, false};
    case kConfigWorkspace:
    case kPlanWorkspace:
      return {1, static_cast<int64_t>(standin_setting("SIMCUDA_CUDNN_WS", 0)), true};
    case kGraphEngineCount:
      return {1, 1, true};
    case kConfigSharedMemory:
    case kEngineIndex:
      return {1, 0, true};
    default:
      return {0, 0, false};  // notes, knobs, layouts: none
  }
}

}  // namespace

STANDIN_API int cudnnBackendCreateDescriptor(int type, void** out) {
  if (out == nullptr) return kBadParamNullPointer;
  auto* descriptor = static_cast<Descriptor*>(calloc(1, sizeof(Descriptor)));
  if (descriptor == nullptr) return kHostAllocationFailed;
  descriptor->type = type;
  *out = descriptor;
  return kSuccess;
}

STANDIN_API int cudnnBackendDestroyDescriptor(void* handle) {
  auto* descriptor = static_cast<Descriptor*>(handle);
  if (descriptor == nullptr) return kSuccess;
  while (descriptor->first != nullptr) {
    Attribute* gone = descriptor->first;
    descriptor->first = gone->next;
    free(gone->bytes);
    free(gone);
  }
  free(descriptor);
  return kSuccess;
}

STANDIN_API int cudnnBackendInitialize(void* descriptor) {
  return descriptor == nullptr ? kBadParamNullPointer : kSuccess;
}
STANDIN_API int cudnnBackendFinalize(void* descriptor) {
  return descriptor == nullptr ? kBadParamNullPointer : kSuccess;
}
STANDIN_API int cudnnBackendExecute(void*, void*, void*) { return kSuccess; }

STANDIN_API int cudnnBackendSetAttribute(void* handle, int name, int type, int64_t count, const void* elements) {
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
  return kSuccess;
}

STANDIN_API int cudnnBackendGetAttribute(void* const handle, int name, int type, int64_t requested, int64_t* count,
                                         void* elements) {
  if (handle == nullptr) return kBadParamNullPointer;
  const Attribute* set = Find(static_cast<Descriptor*>(handle), name);
  if (set != nullptr) {
    if (count != nullptr) *count = set->count;
    const int64_t copied = requested < set->count ? requested : set->count;
    if (elements != nullptr && copied > 0) memcpy(elements, set->bytes, copied * ElementSize(set->type));
    return kSuccess;
  }
  const Answer answer = Unset(name);
  if (count != nullptr) *count = answer.count;
  if (answer.filled && elements != nullptr && requested > 0) {
    memcpy(elements, &answer.value, ElementSize(type) < 8 ? 4 : 8);  // little-endian: the low half is the int32
  }
  return kSuccess;
}
