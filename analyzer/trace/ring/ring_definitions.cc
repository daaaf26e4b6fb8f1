// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/ring/ring_definitions.h"

#include <algorithm>

#include "base/utf8.h"

namespace gpumem {
namespace {

// Ids above leave no room for new ones; no capture gives them.
constexpr uint64_t kHighestNode = uint64_t{1} << 48;
// Backward passes of backward passes: a damaged ring may have a circle of them.
constexpr int kMaxForwardPasses = 64;
constexpr uint32_t kHighestId = uint32_t{1} << 31;

// A broken one is left out.
template <typename Repeated>
void AddParsed(const std::string& bytes, Repeated* out) {
  if (!out->Add()->ParseFromString(bytes)) out->RemoveLast();
}

}  // namespace

void TraceIds::Add(const trace::Definitions& definitions) {
  for (const trace::InternedString& string : definitions.strings()) {
    strings_.try_emplace(string.value(), string.id());
    last_string_ = std::max(last_string_, string.id());
    if (string.key() != 0) texts_.try_emplace(string.key(), string.id());
  }
  for (const trace::PythonCode& code : definitions.python_codes()) {
    if (code.key() != 0) codes_.try_emplace(code.key(), code.id());
    last_code_ = std::max(last_code_, code.id());
  }
  for (const trace::Frame& frame : definitions.frames()) {
    last_frame_ = std::max(last_frame_, frame.id());
    last_code_ = std::max(last_code_, frame.python_code());
  }
  for (const trace::StackNodes& nodes : definitions.stacks()) {
    last_node_ = std::max(last_node_, nodes.first_id() + static_cast<uint64_t>(nodes.parent_size()));
  }
  const trace::StackKeys& keys = definitions.stack_keys();
  for (int i = 0; i < std::min(keys.key_size(), keys.stack_size()); ++i)
    stacks_.try_emplace(keys.key(i), keys.stack(i));
}

uint32_t RingDefinitions::CodeId(uint64_t key) {
  const auto [it, is_new] = ids_.codes_.try_emplace(key, 0);
  if (!is_new) return it->second;
  if (ids_.last_code_ >= kHighestId) return 0;
  it->second = ++ids_.last_code_;
  const auto found = contents_->codes.find(key);
  if (found == contents_->codes.end()) return it->second;  // a name for it, at least
  trace::PythonCode* const code = message_.add_python_codes();
  code->set_id(it->second);
  code->set_filename(EscapeControls(found->second.filename));
  code->set_name(EscapeControls(found->second.name));
  code->set_first_line(found->second.first_line);
  code->set_line_table(found->second.line_table);
  code->set_python_minor(found->second.python_minor);
  code->set_key(key);
  return it->second;
}

uint32_t RingDefinitions::FrameId(const format::RawFrame& raw) {
  const bool python = (raw.flags & format::kFramePython) != 0;
  const auto [it, is_new] = frames_.try_emplace({raw.pc, raw.instruction, raw.flags}, 0);
  if (!is_new) return it->second;
  if (ids_.last_frame_ >= kHighestId) return 0;
  it->second = ++ids_.last_frame_;
  trace::Frame* const frame = message_.add_frames();
  frame->set_id(it->second);
  if (python) {
    frame->set_python_code(CodeId(raw.pc));
    frame->set_instruction(raw.instruction);
    frame->set_nn_module(raw.flags >> format::kFrameObjectShift);
  } else if ((raw.flags & format::kFrameForward) != 0) {
    frame->set_forward(true);
    frame->set_node(TextId(format::NodeTextKey(raw.instruction)));
  } else if ((raw.flags & format::kFrameCut) != 0) {
    frame->set_cut(true);
  } else {
    frame->set_pc(raw.pc);
    frame->set_module(raw.instruction);
  }
  return it->second;
}

uint64_t RingDefinitions::NodeId(uint64_t parent, uint32_t frame) {
  const auto [it, is_new] = nodes_.try_emplace({parent, frame}, 0);
  if (!is_new) return it->second;
  it->second = ++ids_.last_node_;
  if (message_.stacks_size() == 0) message_.add_stacks()->set_first_id(it->second);
  trace::StackNodes* const nodes = message_.mutable_stacks(0);
  nodes->add_parent(parent);
  nodes->add_frame(frame);
  return it->second;
}

uint64_t RingDefinitions::StackId(uint64_t hash) { return StackId(hash, 0); }

uint64_t RingDefinitions::StackId(uint64_t hash, int forward_passes) {
  if (hash == 0 || forward_passes > kMaxForwardPasses) return 0;
  const auto [it, is_new] = ids_.stacks_.try_emplace(hash, 0);
  if (!is_new) return it->second;
  const auto found = contents_->stacks.find(hash);
  if (found == contents_->stacks.end() || ids_.last_node_ >= kHighestNode) return 0;
  uint64_t node = 0;
  for (auto at = found->second.rbegin(); at != found->second.rend(); ++at) {
    format::RawFrame raw = *at;
    if ((raw.flags & format::kFrameForward) != 0) {
      node = StackId(raw.pc, forward_passes + 1);
      raw.pc = 0;
    }
    const uint32_t frame = FrameId(raw);
    if (frame == 0) return 0;
    node = NodeId(node, frame);
  }
  return ids_.stacks_[hash] = node;  // the reference above may be gone
}

uint32_t RingDefinitions::ApiId(uint16_t api) {
  if (api == 0 || api >= contents_->api_names.size()) return 0;
  const std::string name = EscapeControls(contents_->api_names[api]);
  return name.empty() ? 0 : StringId(name);
}

uint32_t RingDefinitions::TextId(uint64_t key) {
  if (key == 0) return 0;
  const auto [it, is_new] = ids_.texts_.try_emplace(key, 0);
  if (!is_new) return it->second;
  const auto found = contents_->texts.find(key);
  if (found == contents_->texts.end()) return 0;
  return it->second = StringId(EscapeControls(found->second));
}

uint32_t RingDefinitions::StringId(const std::string& name) {
  const auto [it, is_new] = ids_.strings_.try_emplace(name, 0);
  if (!is_new) return it->second;
  if (ids_.last_string_ >= kHighestId) return 0;
  it->second = ++ids_.last_string_;
  trace::InternedString* const string = message_.add_strings();
  string->set_id(it->second);
  string->set_value(name);
  return it->second;
}

void RingDefinitions::UseThread(uint32_t serial) {
  const auto found = contents_->threads.find(serial);
  if (found == contents_->threads.end() || !threads_.insert(serial).second) return;
  trace::Thread* const thread = message_.add_threads();
  thread->set_id(serial);
  thread->set_tid(found->second.tid);
  thread->set_name(EscapeControls(found->second.name));
}

std::string RingDefinitions::TakeReady() {
  for (const auto& [field, bytes] : contents_->ready) {
    if (field == trace::Definitions::kNnModulesFieldNumber) AddParsed(bytes, message_.mutable_nn_modules());
    if (field == trace::Definitions::kTensorsFieldNumber) AddParsed(bytes, message_.mutable_tensors());
    if (field == trace::Definitions::kOptimizersFieldNumber) AddParsed(bytes, message_.mutable_optimizers());
    if (field == trace::Definitions::kProcessGroupsFieldNumber) AddParsed(bytes, message_.mutable_process_groups());
    if (field == trace::Definitions::kOwnerSnapshotsFieldNumber) AddParsed(bytes, message_.mutable_owner_snapshots());
    if (field == trace::Definitions::kOwnersFieldNumber) AddParsed(bytes, message_.mutable_owners());
    if (field == trace::Definitions::kCompiledFilesFieldNumber) AddParsed(bytes, message_.mutable_compiled_files());
  }
  return Take();
}

std::string RingDefinitions::Take() {
  std::string body = message_.SerializeAsString();
  message_.Clear();
  return body;
}

}  // namespace gpumem
