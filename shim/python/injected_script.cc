// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/injected_script.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "shim/base/descriptors.h"
#include "shim/base/kernel.h"
#include "shim/python/inject.h"

namespace gpumemshim::python {
namespace {

constexpr size_t kMaxSource = 256 << 10;

const char* g_path = "";
void (*g_end)();
const Api* g_api;  // of whoever may call us
bool g_ran;        // with the GIL held
char g_source[kMaxSource];

bool ReadSource() {
  struct stat status;
  // A pipe would wait, with the GIL held.
  const int file = descriptors::Raise(open(g_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file < 0) return false;
  if (kernel::Fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    return false;
  }
  size_t size = 0;
  ssize_t count = 0;
  while (size + 1 < kMaxSource && (count = read(file, g_source + size, kMaxSource - 1 - size)) > 0)
    size += static_cast<size_t>(count);
  close(file);
  g_source[size] = '\0';
  return count == 0 && size > 0;
}

void Fail(const char* text) { AddFailure(text, std::strlen(text), false); }

}  // namespace

void SetInjectedScript(const char* path, void (*end)()) {
  g_path = path;
  g_end = end;
}

int RunInjectedScript(const Api* api, Object* record) {
  if (g_ran || *g_path == '\0') return 0;
  g_ran = true;
  g_api = api;
  if (!ReadSource()) {
    Fail("the file of GPUMEMSHIM_INJECTED_SCRIPT cannot be read");
    return 0;
  }
  Object* globals = RunSource(api, g_source, record);
  if (globals == nullptr) Fail("the file of GPUMEMSHIM_INJECTED_SCRIPT failed");
  if (globals != nullptr) api->decrement(globals);
  return EndCall(api);
}

Object* EndRecording(Object*, Object*) {
  if (g_end != nullptr) g_end();
  const Api* const api = g_api;
  api->increment(api->none);
  return api->none;
}

}  // namespace gpumemshim::python
