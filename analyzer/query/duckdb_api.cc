// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/duckdb_api.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpumem {
namespace {

constexpr char kHowToGet[] =
    "gpumemshim sql needs DuckDB's library, which is not part of gpumemshim. Get it: npm pack --ignore-scripts "
    "@duckdb/node-bindings-linux-x64@1.5.6-r.1 && tar xzf duckdb-node-bindings-*.tgz. Then name it: export "
    "GPUMEMSHIM_DUCKDB=$PWD/package/libduckdb.so (docs/sql.md)";

std::string FolderOfProgram() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length <= 0) return "";
  const std::string program(path, static_cast<size_t>(length));
  return program.substr(0, program.rfind('/'));
}

std::vector<std::string> Candidates() {
  if (const char* const named = std::getenv("GPUMEMSHIM_DUCKDB"); named != nullptr && *named != '\0') return {named};
  std::vector<std::string> candidates;
  if (const std::string folder = FolderOfProgram(); !folder.empty()) {
    candidates.push_back(folder + "/../lib/gpumemshim/libduckdb.so");
    candidates.push_back(folder + "/libduckdb.so");
  }
  candidates.push_back("libduckdb.so");
  return candidates;
}

absl::StatusOr<DuckApi> Bind(void* library, const std::string& path) {
  DuckApi api;
  std::string missing;
#define GPUMEM_DUCKDB_BIND(name, result, parameters)                                \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, "duckdb_" #name)); \
  if (api.name == nullptr && missing.empty()) missing = "duckdb_" #name;
  GPUMEM_DUCKDB_FUNCTIONS(GPUMEM_DUCKDB_BIND)
#undef GPUMEM_DUCKDB_BIND
  if (missing.empty()) return api;
  return absl::FailedPreconditionError(
      absl::StrCat(path, " has no function ", missing, ": DuckDB 1.2 or newer is needed (docs/sql.md)"));
}

absl::StatusOr<DuckApi> Load() {
  std::vector<std::string> tried;
  for (const std::string& path : Candidates()) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return Bind(library, path);
    tried.push_back(path);
  }
  return absl::NotFoundError(absl::StrCat(kHowToGet, ". Looked for ", absl::StrJoin(tried, ", ")));
}

}  // namespace

absl::StatusOr<const DuckApi*> LoadDuckDb() {
  static const absl::StatusOr<DuckApi>* const loaded = new absl::StatusOr<DuckApi>(Load());
  if (!loaded->ok()) return loaded->status();
  return &**loaded;
}

}  // namespace gpumem
