// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NVRTC: compiles everything to an image of a few bytes that the simulated driver loads; a kernel's lowered name is its
// name. Thread-safety: a program is one thread's. Failure mode: 3 (NVRTC_ERROR_INVALID_INPUT) for null arguments.
#include <stdlib.h>
#include <string.h>

#include "stub.h"

namespace {

enum Result { kSuccess = 0, kOutOfMemory = 1, kInvalidInput = 3, kInvalidProgram = 4 };

constexpr char kImage[] = "// simulated image\n.version 9.0\n.target sm_90\n.address_size 64\n";

struct Name {
  Name* next;
  char* text;
};

struct Program {
  Name* names;
};

int WriteImage(char* out) {
  if (out == nullptr) return kInvalidInput;
  memcpy(out, kImage, sizeof(kImage));
  return kSuccess;
}

int WriteSize(size_t* out, size_t size) {
  if (out == nullptr) return kInvalidInput;
  *out = size;
  return kSuccess;
}

}  // namespace

STUB_API int nvrtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return kInvalidInput;
  *major = STUB_CUDA_MAJOR;
  *minor = 0;
  return kSuccess;
}
STUB_API const char* nvrtcGetErrorString(int result) {
  return result == kSuccess ? "NVRTC_SUCCESS" : "simulated NVRTC error";
}
STUB_API int nvrtcGetNumSupportedArchs(int* count) {
  if (count == nullptr) return kInvalidInput;
  *count = 9;
  return kSuccess;
}
STUB_API int nvrtcGetSupportedArchs(int* archs) {
  static constexpr int kArchs[] = {75, 80, 86, 87, 89, 90, 100, 103, 120};
  if (archs == nullptr) return kInvalidInput;
  memcpy(archs, kArchs, sizeof(kArchs));
  return kSuccess;
}

STUB_API int nvrtcCreateProgram(Program** out, const char*, const char*, int, const char* const*, const char* const*) {
  if (out == nullptr) return kInvalidInput;
  *out = static_cast<Program*>(calloc(1, sizeof(Program)));
  return *out == nullptr ? kOutOfMemory : kSuccess;
}
STUB_API int nvrtcDestroyProgram(Program** program) {
  if (program == nullptr || *program == nullptr) return kInvalidProgram;
  while ((*program)->names != nullptr) {
    Name* gone = (*program)->names;
    (*program)->names = gone->next;
    free(gone->text);
    free(gone);
  }
  free(*program);
  *program = nullptr;
  return kSuccess;
}
STUB_API int nvrtcCompileProgram(Program* program, int, const char* const*) {
  return program == nullptr ? kInvalidProgram : kSuccess;
}
STUB_API int nvrtcAddNameExpression(Program* program, const char* expression) {
  if (program == nullptr || expression == nullptr) return kInvalidInput;
  auto* name = static_cast<Name*>(malloc(sizeof(Name)));
  char* text = strdup(expression);
  if (name == nullptr || text == nullptr) {
    free(name);
    free(text);
    return kOutOfMemory;
  }
  *name = Name{program->names, text};
  program->names = name;
  return kSuccess;
}
STUB_API int nvrtcGetLoweredName(Program* program, const char* expression, const char** lowered) {
  if (program == nullptr || expression == nullptr || lowered == nullptr) return kInvalidInput;
  for (Name* name = program->names; name != nullptr; name = name->next) {
    if (strcmp(name->text, expression) == 0) {
      *lowered = name->text;
      return kSuccess;
    }
  }
  return kInvalidInput;
}
STUB_API int nvrtcGetCUBINSize(Program*, size_t* size) { return WriteSize(size, sizeof(kImage)); }
STUB_API int nvrtcGetCUBIN(Program*, char* image) { return WriteImage(image); }
STUB_API int nvrtcGetPTXSize(Program*, size_t* size) { return WriteSize(size, sizeof(kImage)); }
STUB_API int nvrtcGetPTX(Program*, char* image) { return WriteImage(image); }
STUB_API int nvrtcGetProgramLogSize(Program*, size_t* size) { return WriteSize(size, 1); }
STUB_API int nvrtcGetProgramLog(Program*, char* log) {
  if (log == nullptr) return kInvalidInput;
  *log = '\0';
  return kSuccess;
}
