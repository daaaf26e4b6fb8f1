// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The table of sizes that were measured on real GPUs (workspaces.tsv beside the libraries, or SIMCUDA_WORKSPACE_TABLE):
// workspaces of libraries, the context, loaded code. docs/workspaces.md describes its columns.
//
// A row counts as measured for the same device and the same version of the library; one of another device of the same
// capability, or of another version, as similar. Shapes are never scaled: a library changes its algorithm between two.
//
//   const WorkspaceTable table = ReadWorkspaceTable(path);
//   const FoundSize found = table.Find({.library = "cuDNN", .operation = "convolution_forward", ...});
//
// Thread-safety: a table does not change. Failure: a file that cannot be read has no rows; a row that is not whole, or
// that was simulated and not measured, is refused, and the first such is said on stderr.
#ifndef SIMCUDA_BASE_WORKSPACE_TABLE_H_
#define SIMCUDA_BASE_WORKSPACE_TABLE_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace simcuda {

// How a size is known, best first.
enum class Known : uint8_t { kSet, kMeasured, kSimilar, kLaw, kBound, kNothing };

const char* KnownName(Known known);

struct WorkspaceKey {
  std::string library, operation, parameters;
  std::string device, version;  // as the driver names it; of the library
  int capability = 0;           // major * 10 + minor
};

struct FoundSize {
  Known known = Known::kNothing;  // kMeasured, kSimilar or kNothing
  uint64_t bytes = 0;
};

class WorkspaceTable {
 public:
  struct Row {
    WorkspaceKey key;
    uint64_t bytes = 0;
  };

  FoundSize Find(const WorkspaceKey& key) const;
  // One line of the file: whether it may be used. Blank lines, comments and the heading may; they are no rows.
  bool Add(const std::string& line);
  // One line of a file of convolutions (cudnn_convolutions.tsv): device, heading, or a shape with its sizes.
  bool AddShape(const std::string& line);
  size_t size() const { return rows_.size(); }
  size_t shapes() const { return shapes_.size(); }

 private:
  // Of a convolution, in the file of shapes.
  bool FindShape(const WorkspaceKey& key, uint64_t* bytes) const;

  std::vector<Row> rows_;
  WorkspaceKey shapes_of_;                                        // library, device, capability, version
  std::unordered_map<std::string, size_t> columns_;               // "forward f32 nchw"
  std::unordered_map<std::string, std::vector<int64_t>> shapes_;  // "x=... dilation=1,1": sizes, -1 = not measured
};

// The file, and that of convolutions beside it.
WorkspaceTable ReadWorkspaceTable(const std::string& path);

// SIMCUDA_WORKSPACE_TABLE, else workspaces.tsv in the folder of the library that this is linked into.
std::string WorkspaceTablePath();

}  // namespace simcuda

#endif  // SIMCUDA_BASE_WORKSPACE_TABLE_H_
