// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How much the stubs' operations need: what a setting says, else a measured row, else the law that was found in such
// (its upper end where SIMCUDA_WORKSPACES is bound, now and then an end where it is draw:N), else (bound) the bound,
// else nothing. What was asked is kept, so that a prediction can say what of it is not known.
//
// Here and not in the stubs, since those share no state and have no C++ library.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "simcuda/base/cudnn_law.h"
#include "simcuda/base/environment.h"
#include "simcuda/base/workspace_ask.h"
#include "simcuda/base/workspace_table.h"

namespace simcuda {
namespace {

constexpr uint64_t kNotAsked = UINT64_MAX - 1;  // no bound of a stub's
constexpr size_t kMaxAsked = 10'000;            // distinct ones; later ones are answered and not kept

struct Asked {
  std::string library, operation, parameters;
  FoundSize given;
  uint64_t bound = 0, count = 0;
  uint64_t asked_bound = kNotAsked;  // what the stub named as its bound; not so where a setting gave the size
};

struct Workspaces {
  std::mutex mutex;
  WorkspaceTable table = ReadWorkspaceTable(WorkspaceTablePath());
  std::vector<Asked> asked;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> places;
};

// Never destroyed: libraries ask from their destructors.
Workspaces& All() {
  static auto* const all = new Workspaces();
  return *all;
}

constexpr int kCapabilityOfLaw = 90;

// The size, and the most that it can be where it is not certain.
struct Answered {
  FoundSize given;
  uint64_t bound = 0;
};

Answered AnswerAsk(const simcuda_ask& ask, const WorkspaceTable& table) {
  const Environment& environment = GetEnvironment();
  if (ask.set != SIMCUDA_NOT_SET) return {{Known::kSet, ask.set}, ask.bound};
  if (environment.workspaces == "none") return {{}, ask.bound};
  WorkspaceKey key = {ask.library,
                      ask.operation,
                      ask.parameters,
                      environment.name,
                      ask.version == nullptr ? environment.cuda_version : ask.version,
                      environment.compute_capability};
  const FoundSize found = table.Find(key);
  if (found.known != Known::kNothing) return {found, ask.bound};
  const auto find = [&](const std::string& operation, const std::string& parameters) {
    key.operation = operation;
    key.parameters = parameters;
    const FoundSize row = table.Find(key);
    return row.known == Known::kNothing ? std::nullopt : std::optional<uint64_t>(row.bytes);
  };
  const bool has_law = key.library == "cuDNN" && key.capability == kCapabilityOfLaw && table.shapes() > 0;
  const LawSize law = has_law ? LawOf(ask.operation, ask.parameters, find) : LawSize{};
  const bool is_bound = environment.workspaces == "bound";
  if (law.is_known) {
    const uint64_t most = std::min(law.high, ask.bound);  // a cap of cuDNN's own is in the bound
    if (is_bound) return {{Known::kBound, most}, most};
    const int draw = environment.workspaces.rfind("draw:", 0) == 0 ? std::atoi(environment.workspaces.c_str() + 5) : 0;
    const uint64_t given = draw > 0 ? DrawnSize(law, ask.operation, ask.parameters, draw) : law.likely;
    return {{Known::kLaw, std::min(most, given)}, most};
  }
  if (!is_bound || ask.bound == SIMCUDA_NO_BOUND) return {found, ask.bound};
  return {{Known::kBound, ask.bound}, ask.bound};
}

std::string Line(const Asked& asked) {
  const std::string bound = asked.bound == SIMCUDA_NO_BOUND ? "-" : std::to_string(asked.bound);
  return asked.library + '\t' + asked.operation + '\t' + asked.parameters + '\t' + KnownName(asked.given.known) + '\t' +
         std::to_string(asked.given.bytes) + '\t' + bound + '\t' + std::to_string(asked.count) + '\n';
}

}  // namespace
}  // namespace simcuda

using namespace simcuda;  // NOLINT: C functions only from here on

extern "C" {

__attribute__((visibility("default"))) uint64_t simcuda_workspace(const simcuda_ask* ask) {
  Workspaces& all = All();
  const std::lock_guard lock(all.mutex);
  const std::tuple key(std::string(ask->library), std::string(ask->operation), std::string(ask->parameters));
  auto at = all.places.find(key);
  if (at != all.places.end() && ask->set == SIMCUDA_NOT_SET && all.asked[at->second].asked_bound == ask->bound) {
    ++all.asked[at->second].count;  // the table and the law say the same again
    return all.asked[at->second].given.bytes;
  }
  const auto [given, bound] = AnswerAsk(*ask, all.table);
  // A handle is not an operation of the program's: where its size is not known, that is part of the guess at the
  // context.
  if (given.known == Known::kNothing && std::string_view(ask->operation) == "handle") return 0;
  if (at == all.places.end()) {
    if (all.asked.size() == kMaxAsked) return given.bytes;
    at = all.places.emplace(key, all.asked.size()).first;
    all.asked.push_back({ask->library, ask->operation, ask->parameters, given, bound, 0,
                         ask->set == SIMCUDA_NOT_SET ? ask->bound : kNotAsked});
  }
  ++all.asked[at->second].count;
  return given.bytes;
}

// What was asked so far, a line each: library, operation, parameters, how its size is known, bytes given, bound (- for
// none), how often; first the context and loaded code. Returns the bytes of all of it; as much as fits is written, with
// a final zero.
__attribute__((visibility("default"))) uint64_t simcuda_workspaces(char* text, uint64_t size) {
  const Environment& environment = GetEnvironment();
  std::string lines =
      Line({"CUDA", "context", "", {environment.context_known, environment.context_bytes}, SIMCUDA_NO_BOUND, 1}) +
      Line({"CUDA", "module", "", {environment.module_known, environment.module_bytes}, SIMCUDA_NO_BOUND, 1});
  Workspaces& all = All();
  const std::lock_guard lock(all.mutex);
  for (const Asked& asked : all.asked) lines += Line(asked);
  if (text != nullptr && size > 0) {
    const size_t written = lines.copy(text, size - 1);
    text[written] = '\0';
  }
  return lines.size();
}

}  // extern "C"
