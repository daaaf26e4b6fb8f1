// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/picture_file.h"

#include <unistd.h>

#include "base/file_output.h"
#include "base/status_macros.h"
#include "planner/charts/png.h"
#include "planner/charts/svg.h"

namespace gpumem::plots {

absl::StatusOr<WrittenPicture> WritePicture(const Canvas& canvas, const std::string& stem, const char* library) {
  const absl::StatusOr<std::string> png = PngBytes(canvas, /*scale=*/1.5, library);
  const std::string path = stem + (png.ok() ? ".png" : ".svg"), other = stem + (png.ok() ? ".svg" : ".png");
  GPUMEM_RETURN_IF_ERROR(ReplaceFile(path, png.ok() ? *png : SvgText(canvas)));
  unlink(other.c_str());
  return WrittenPicture{path, png.ok() ? "" : std::string(png.status().message())};
}

}  // namespace gpumem::plots
