// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/stack_table.h"

#include <google/protobuf/stubs/logging.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gpumem/trace.pb.h"
#include "trace/event_batch.h"
#include "trace/limits.h"
#include "trace/wire.h"

namespace gpumem {
namespace {

// A gap in the ids longer than this is not filled with holes, so that a few hostile bytes cannot cost megabytes.
constexpr uint64_t kLongestHole = 64;

DeviceInfo ToInfo(const trace::Device& device) {
  DeviceInfo info;
  info.index = device.index();
  info.name = device.name();
  info.uuid = device.uuid();
  info.pci_bus_id = device.pci_bus_id();
  info.total_bytes = device.total_bytes();
  info.compute_major = device.compute_major();
  info.compute_minor = device.compute_minor();
  return info;
}

}  // namespace

absl::Status StackTable::AddNode(uint64_t id, Node node) {
  if (node.parent >= id)
    return absl::DataLossError(absl::StrCat("stack ", id, " has itself or a later one as its parent"));
  if (node.frame == 0) return absl::DataLossError(absl::StrCat("stack ", id, " has no frame"));
  Node* place = nullptr;
  if (id <= dense_nodes_.size() + kLongestHole && sparse_nodes_.empty()) {
    if (id > dense_nodes_.size()) dense_nodes_.resize(id);
    place = &dense_nodes_[id - 1];
  } else if (id <= dense_nodes_.size()) {
    place = &dense_nodes_[id - 1];
  } else {
    place = &sparse_nodes_[id];
  }
  if (place->frame != 0 && (place->frame != node.frame || place->parent != node.parent)) {
    return absl::DataLossError(absl::StrCat("stack ", id, " is defined twice and differently"));
  }
  *place = node;
  return absl::OkStatus();
}

// A piece at a time: as objects they take many times the bytes.
absl::Status StackTable::Add(absl::string_view definitions) {
  WireReader reader(definitions);
  const char* begin = definitions.data();
  WireField field;
  for (bool more = true; more;) {
    const char* const end = reader.position();
    more = reader.Next(&field);
    if (!reader.ok()) return absl::DataLossError("definitions are broken");
    const auto bytes = static_cast<size_t>(reader.position() - begin);
    if (more && field.type == WireType::kBytes && field.bytes.size() > kMaxDefinition)
      return absl::DataLossError(absl::StrCat("a definition of ", field.bytes.size(), " bytes"));
    if (more && bytes < kDefinitionsAtOnce) continue;
    // The field that was read last begins the next piece, unless it is a piece by itself.
    const char* const cut = more && end != begin ? end : reader.position();
    GPUMEM_RETURN_IF_ERROR(AddSome(absl::string_view(begin, static_cast<size_t>(cut - begin))));
    begin = cut;
  }
  return absl::OkStatus();
}

absl::Status StackTable::AddSome(absl::string_view definitions) {
  const google::protobuf::LogSilencer silencer;  // damage is reported by us, once
  trace::Definitions message;
  if (!message.ParseFromArray(definitions.data(), static_cast<int>(definitions.size()))) {
    return absl::DataLossError("definitions are broken");
  }
  for (const trace::InternedString& string : message.strings()) {
    if (string.id() == 0) return ZeroId("a string");
    strings_.insert_or_assign(string.id(), ClippedName(string.value()));
  }
  for (const trace::Module& module : message.modules()) {
    if (module.id() == 0) return ZeroId("a module");
    ModuleInfo info{ClippedName(module.path()), module.build_id(), module.load_bias(), module.start(), module.end(),
                    module.time_ns(),           module.id()};
    const auto [it, is_new] = module_index_.try_emplace(module.id(), modules_.size());
    if (is_new) modules_.emplace_back();
    modules_[it->second] = std::move(info);
  }
  for (const trace::PythonCode& code : message.python_codes()) {
    if (code.id() == 0) return ZeroId("a Python code object");
    python_codes_.insert_or_assign(
        code.id(), PythonCodeInfo{ClippedName(code.filename()), ClippedName(code.name()), code.line_table(),
                                  code.first_line(), code.python_minor()});
  }
  for (const trace::Frame& frame : message.frames()) {
    if (frame.id() == 0) return ZeroId("a frame");
    frames_.insert_or_assign(frame.id(), FrameInfo{frame.pc(), frame.python_code(), frame.instruction(), frame.module(),
                                                   frame.cut(), frame.nn_module(), frame.forward(), frame.node()});
  }
  for (const trace::StackNodes& nodes : message.stacks()) {
    if (nodes.first_id() == 0) return ZeroId("a stack");
    if (nodes.parent_size() != nodes.frame_size())
      return absl::DataLossError("a list of stacks whose columns differ in length");
    for (int i = 0; i < nodes.parent_size(); ++i) {
      GPUMEM_RETURN_IF_ERROR(AddNode(nodes.first_id() + static_cast<uint64_t>(i), {nodes.parent(i), nodes.frame(i)}));
    }
  }
  for (const trace::Thread& thread : message.threads()) {
    if (thread.id() == 0) return ZeroId("a thread");
    threads_.insert_or_assign(thread.id(), ThreadInfo{thread.tid(), ClippedName(thread.name())});
  }
  for (const trace::Tag& tag : message.tags()) {
    if (tag.id() == 0) return ZeroId("a tag");
    tags_.insert_or_assign(tag.id(), TagInfo{ClippedName(tag.stage()), ClippedName(tag.module()), tag.step()});
  }
  for (const trace::ModuleSymbols& symbols : message.symbols()) {
    if (symbols.module() == 0) return ZeroId("a module's names");
    GPUMEM_RETURN_IF_ERROR(symbols_[symbols.module()].Parse(symbols.SerializeAsString()));
  }
  for (const trace::Device& device : message.devices()) devices_[device.index()] = ToInfo(device);
  for (const auto& [name, version] : message.versions()) versions_[name] = version;
  return objects_.Add(message);
}

const StackTable::Node* StackTable::node(uint64_t id) const {
  if (id == 0) return nullptr;
  if (id <= dense_nodes_.size()) return dense_nodes_[id - 1].frame == 0 ? nullptr : &dense_nodes_[id - 1];
  const auto it = sparse_nodes_.find(id);
  return it == sparse_nodes_.end() ? nullptr : &it->second;
}

std::vector<uint32_t> StackTable::Frames(uint64_t stack_id) const {
  std::vector<uint32_t> frames;
  // Ends: a parent's id is smaller than its child's.
  for (const Node* at = node(stack_id); at != nullptr && frames.size() < kMaxDepth; at = node(at->parent))
    frames.push_back(at->frame);
  return frames;
}

void StackTable::ForEachStack(absl::FunctionRef<void(uint64_t stack_id, uint32_t frame)> visit) const {
  for (uint64_t i = 0; i < dense_nodes_.size(); ++i) {
    if (dense_nodes_[i].frame != 0) visit(i + 1, dense_nodes_[i].frame);
  }
  for (const auto& [id, node] : sparse_nodes_) visit(id, node.frame);
}

const FrameInfo* StackTable::frame(uint32_t id) const { return FindOrNull(frames_, id); }
const PythonCodeInfo* StackTable::python_code(uint32_t id) const { return FindOrNull(python_codes_, id); }
const ThreadInfo* StackTable::thread(uint32_t id) const { return FindOrNull(threads_, id); }
const ModuleSymbols* StackTable::symbols(uint32_t module_id) const { return FindOrNull(symbols_, module_id); }
const TagInfo* StackTable::tag(uint32_t id) const { return FindOrNull(tags_, id); }

const std::string& StackTable::string(uint32_t id) const {
  static const std::string* const kUnknown = new std::string;
  static const std::string* const kExisting = new std::string("existed before the recording");
  const std::string* const found = FindOrNull(strings_, id);
  if (found != nullptr) return *found;
  return id == kExistingApi ? *kExisting : *kUnknown;
}

const ModuleInfo* StackTable::ModuleAt(uint64_t address, uint64_t time_ns) const {
  const ModuleInfo* best = nullptr;
  const ModuleInfo* earliest = nullptr;  // where all were seen later: modules are recorded after the library was mapped
  for (const ModuleInfo& module : modules_) {
    if (address < module.start || address >= module.end) continue;
    if (module.time_ns <= time_ns && (best == nullptr || module.time_ns >= best->time_ns)) best = &module;
    if (earliest == nullptr || module.time_ns < earliest->time_ns) earliest = &module;
  }
  return best != nullptr ? best : earliest;
}

const ModuleInfo* StackTable::ModuleOf(const FrameInfo& frame) const {
  // A return address may lie behind its function, after a call that never returns; the call itself never does.
  const uint64_t call = frame.pc - 1;
  const auto named = module_index_.find(frame.module);
  if (frame.module == 0 || named == module_index_.end()) return ModuleAt(call);
  const ModuleInfo& module = modules_[named->second];
  return call >= module.start && call < module.end ? &module : ModuleAt(call);
}

}  // namespace gpumem
