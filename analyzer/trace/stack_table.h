// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// StackTable: everything that the events of one section refer to by id: stacks (a trie of frames), frames, modules,
// Python code, strings, threads, devices, tags, versions, the program's own objects, and names where the trace holds
// them. Filled by TraceReader; read by symbols/ and report/. Copyable value; not thread-safe while filled. Unknown ids
// are answered with an empty value or nullptr, never with an error: definitions may have been dropped.
//
//   for (uint32_t frame_id : stacks.Frames(use.stack_id)) Print(*stacks.frame(frame_id));

#ifndef GPUMEM_ANALYZER_TRACE_STACK_TABLE_H_
#define GPUMEM_ANALYZER_TRACE_STACK_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trace/module_symbols.h"
#include "trace/object_table.h"

namespace gpumem {

struct ModuleInfo {
  std::string path;
  std::string build_id;  // raw bytes
  uint64_t load_bias = 0, start = 0, end = 0, time_ns = 0;
  uint32_t id = 0;
};

struct PythonCodeInfo {
  std::string filename, name, line_table;
  uint32_t first_line = 0, python_minor = 0;
};

struct FrameInfo {
  uint64_t pc = 0;           // return address; 0 = a Python frame
  uint32_t python_code = 0;  // 0 = a native frame
  uint32_t instruction = 0;
  uint32_t module = 0;     // native: id of the module that held pc; 0 = to be found by address
  bool cut = false;        // no frame: the callers of the one inside it were not recorded
  uint32_t nn_module = 0;  // Python: the nn.Module object whose call it is
  bool forward = false;    // no frame: a backward pass inside, the forward pass that it belongs to outside
  uint32_t node = 0;       // forward: string id of the autograd node's class
};

struct ThreadInfo {
  uint32_t tid = 0;
  std::string name;
};

struct DeviceInfo {
  int index = 0;
  std::string name, uuid, pci_bus_id;
  uint64_t total_bytes = 0;
  uint32_t compute_major = 0, compute_minor = 0;
};

struct TagInfo {
  std::string stage, module;
  uint64_t step = 0;
};

class StackTable {
 public:
  // Deepest stack that Frames returns; the outermost frames beyond are left out.
  static constexpr size_t kMaxDepth = 1024;

  // Adds a serialized Definitions message. DataLoss where ids or parents are impossible; what was added before stays.
  absl::Status Add(absl::string_view definitions);

  // Frame ids of a stack, innermost first. Empty for id 0 and for stacks whose definition was lost.
  std::vector<uint32_t> Frames(uint64_t stack_id) const;

  // Every stack that is known, with its innermost frame: also those that are only the outer part of others.
  void ForEachStack(absl::FunctionRef<void(uint64_t stack_id, uint32_t frame)> visit) const;

  const FrameInfo* frame(uint32_t id) const;
  const PythonCodeInfo* python_code(uint32_t id) const;
  const ThreadInfo* thread(uint32_t id) const;
  const TagInfo* tag(uint32_t id) const;
  const std::string& string(uint32_t id) const;  // "" where not known; kExistingApi has a text, too

  // The module whose range holds `address` and that was loaded last at or before `time_ns`; nullptr where there is
  // none.
  const ModuleInfo* ModuleAt(uint64_t address, uint64_t time_ns = UINT64_MAX) const;

  // The module of a native frame: the one that it names, else the one at its address.
  const ModuleInfo* ModuleOf(const FrameInfo& frame) const;

  const std::vector<ModuleInfo>& modules() const { return modules_; }
  // The names that the trace itself holds for a module's addresses; nullptr where it holds none.
  const ModuleSymbols* symbols(uint32_t module_id) const;
  // Every frame, in no order.
  const absl::flat_hash_map<uint32_t, FrameInfo>& frames() const { return frames_; }
  const std::map<int, DeviceInfo>& devices() const { return devices_; }
  const std::map<std::string, std::string>& versions() const { return versions_; }
  const ObjectTable& objects() const { return objects_; }
  size_t stack_count() const { return dense_nodes_.size() + sparse_nodes_.size(); }
  size_t frame_count() const { return frames_.size(); }

  // To keep it in a file and take it from there (ledger/saved/archive.h).
  template <typename Archive, typename Self>
  static void VisitFieldsOf(Archive& archive, Self& self) {
    archive(self.dense_nodes_, self.sparse_nodes_, self.frames_, self.python_codes_, self.strings_, self.threads_,
            self.tags_, self.module_index_, self.modules_, self.symbols_, self.devices_, self.versions_, self.objects_);
  }

 private:
  struct Node {
    uint64_t parent = 0;
    uint32_t frame = 0;  // 0 = a hole: no such node was defined

    template <typename Archive, typename Self>
    static void VisitFieldsOf(Archive& archive, Self& self) {
      archive(self.parent, self.frame);
    }
  };
  const Node* node(uint64_t id) const;
  absl::Status AddSome(absl::string_view definitions);
  absl::Status AddNode(uint64_t id, Node node);

  std::vector<Node> dense_nodes_;  // of the ids 1, 2, ...; sparse_nodes_ holds those far behind a gap
  absl::flat_hash_map<uint64_t, Node> sparse_nodes_;
  absl::flat_hash_map<uint32_t, FrameInfo> frames_;
  absl::flat_hash_map<uint32_t, PythonCodeInfo> python_codes_;
  absl::flat_hash_map<uint32_t, std::string> strings_;
  absl::flat_hash_map<uint32_t, ThreadInfo> threads_;
  absl::flat_hash_map<uint32_t, TagInfo> tags_;
  absl::flat_hash_map<uint32_t, size_t> module_index_;  // id -> place in modules_
  std::vector<ModuleInfo> modules_;
  absl::flat_hash_map<uint32_t, ModuleSymbols> symbols_;  // by module id
  std::map<int, DeviceInfo> devices_;
  std::map<std::string, std::string> versions_;
  ObjectTable objects_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_STACK_TABLE_H_
