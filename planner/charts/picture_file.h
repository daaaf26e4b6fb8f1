// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A picture as a file: PNG, or SVG where cairo is absent.
//
//   GPUMEM_ASSIGN_OR_RETURN(const WrittenPicture written, WritePicture(canvas, "results/overview"));
//   if (!written.problem.empty()) notes.push_back(written.problem);   // it is results/overview.svg

#ifndef GPUMEM_PLANNER_CHARTS_PICTURE_FILE_H_
#define GPUMEM_PLANNER_CHARTS_PICTURE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/charts/canvas.h"

namespace gpumem::plots {

struct WrittenPicture {
  std::string path;
  std::string problem;  // why it is no PNG, and what to install; else ""
};

// Writes `stem`.png, or `stem`.svg where `library` cannot be used, in place of what is there; one of the other kind
// from an earlier time is removed, so that no stale picture stays beside a new one. Fails where the folder cannot be
// written to.
absl::StatusOr<WrittenPicture> WritePicture(const Canvas& canvas, const std::string& stem,
                                            const char* library = "libcairo.so.2");

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_PICTURE_FILE_H_
