// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/cairo_library.h"

#include <dlfcn.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpumem::plots {
namespace {

// Finds functions one by one and remembers the first that is missing.
class Finder {
 public:
  explicit Finder(void* handle) : handle_(handle) {}

  template <typename Function>
  void Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(handle_, absl::StrCat("cairo_", name).c_str()));
    if (*function == nullptr && missing_.empty()) missing_ = name;
  }

  const std::string& missing() const { return missing_; }

 private:
  void* handle_;
  std::string missing_;
};

absl::Status Unavailable(absl::string_view reason) {
  return absl::UnavailableError(absl::StrCat("cairo cannot be used (", reason, "): install libcairo2"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CairoLibrary>> OpenCairo(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    return Unavailable(reason == nullptr ? library : reason);
  }
  Finder finder(handle);
  auto cairo = std::make_unique<CairoLibrary>();
#define GPUMEM_FIND(name) finder.Find(#name, &cairo->name)
  GPUMEM_FIND(image_surface_create);
  GPUMEM_FIND(surface_write_to_png_stream);
  GPUMEM_FIND(surface_destroy);
  GPUMEM_FIND(create);
  GPUMEM_FIND(destroy);
  GPUMEM_FIND(status);
  GPUMEM_FIND(status_to_string);
  GPUMEM_FIND(save);
  GPUMEM_FIND(restore);
  GPUMEM_FIND(scale);
  GPUMEM_FIND(translate);
  GPUMEM_FIND(rotate);
  GPUMEM_FIND(set_source_rgba);
  GPUMEM_FIND(set_line_width);
  GPUMEM_FIND(set_line_join);
  GPUMEM_FIND(set_dash);
  GPUMEM_FIND(new_path);
  GPUMEM_FIND(move_to);
  GPUMEM_FIND(line_to);
  GPUMEM_FIND(arc);
  GPUMEM_FIND(close_path);
  GPUMEM_FIND(paint);
  GPUMEM_FIND(fill_preserve);
  GPUMEM_FIND(stroke);
  GPUMEM_FIND(select_font_face);
  GPUMEM_FIND(set_font_size);
  GPUMEM_FIND(text_extents);
  GPUMEM_FIND(show_text);
#undef GPUMEM_FIND
  if (!finder.missing().empty()) return Unavailable(absl::StrCat(library, " has no cairo_", finder.missing()));
  return cairo;
}

}  // namespace gpumem::plots
