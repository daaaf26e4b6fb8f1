// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/definitions.h"

#include <string.h>
#include <unistd.h>

#include "shim/base/loaded_modules.h"
#include "shim/writer/fields.h"

namespace gpumemshim::writer {
namespace {

void Define(uint32_t number, ProtoWriter* out) {
  const modules::Module& module = modules::At(number);
  char executable[4096];
  const char* path = module.path;
  if (path[0] == '\0' && number == 1) {  // the program itself has no name in the loader's list, and stands first
    const ssize_t size = readlink("/proc/self/exe", executable, sizeof(executable) - 1);
    executable[size > 0 ? size : 0] = '\0';
    path = executable;
  }
  const size_t mark = out->Open(fields::Definitions::kModules);
  out->Varint(fields::Module::kId, number);
  out->StringIf(fields::Module::kPath, path);
  if (module.build_id_bytes != 0) out->Bytes(fields::Module::kBuildId, module.build_id, module.build_id_bytes);
  out->VarintIf(fields::Module::kLoadBias, module.load_bias);
  out->Varint(fields::Module::kStart, module.start);
  out->Varint(fields::Module::kEnd, module.end);
  out->VarintIf(fields::Module::kTimeNs, module.time_ns);
  out->Close(mark);
}

}  // namespace

void Modules::Update(ProtoWriter* definitions) {
  if (modules::MayHaveChanged()) modules::Look();
  for (const uint32_t count = modules::Count(); defined_ < count;) Define(++defined_, definitions);
}

using fields::MapEntry;

uint32_t Definitions::CodeId(uint64_t key) {
  uint32_t* id = codes_.Insert(key);
  if (id == nullptr) return 0;
  if (*id == 0) *id = ++last_code_;
  return *id;
}

void Definitions::AddCode(const ring::RawCode& code) {
  uint32_t id = CodeId(code.key);
  uint32_t* written = written_codes_.Insert(code.key);
  if (id == 0 || written == nullptr) {
    lost_++;
    return;
  }
  if (*written != 0) return;
  *written = 1;
  size_t mark = out_.Open(fields::Definitions::kPythonCodes);
  out_.Varint(fields::PythonCode::kId, id);
  out_.String(fields::PythonCode::kFilename, code.filename, code.filename_size);
  out_.String(fields::PythonCode::kName, code.name, code.name_size);
  out_.VarintIf(fields::PythonCode::kFirstLine, code.first_line);
  if (code.line_table_size != 0) {
    out_.Bytes(fields::PythonCode::kLineTable, code.line_table, code.line_table_size);
  }
  out_.VarintIf(fields::PythonCode::kPythonMinor, code.python_minor);
  out_.Fixed64(fields::PythonCode::kKey, code.key);
  out_.Close(mark);
}

uint32_t Definitions::FrameId(const ring::RawFrame& frame) {
  uint32_t* id = frames_.Insert({frame.pc, frame.instruction, frame.flags});
  if (id == nullptr) return 0;
  if (*id != 0) return *id;
  *id = ++last_frame_;
  size_t mark = out_.Open(fields::Definitions::kFrames);
  out_.Varint(fields::Frame::kId, *id);
  if ((frame.flags & ring::kFramePython) != 0) {
    out_.VarintIf(fields::Frame::kPythonCode, CodeId(frame.pc));
    out_.VarintIf(fields::Frame::kInstruction, frame.instruction);
    out_.VarintIf(fields::Frame::kNnModule, frame.flags >> ring::kFrameObjectShift);
  } else if ((frame.flags & ring::kFrameForward) != 0) {
    out_.Varint(fields::Frame::kForward, 1);
    out_.VarintIf(fields::Frame::kNode, TextId(ring::NodeTextKey(frame.instruction)));
  } else if ((frame.flags & ring::kFrameCut) != 0) {
    out_.Varint(fields::Frame::kCut, 1);
  } else {
    out_.Varint(fields::Frame::kPc, frame.pc);
    out_.VarintIf(fields::Frame::kModule, frame.instruction);
  }
  out_.Close(mark);
  return *id;
}

uint32_t Definitions::NodeId(uint32_t parent, uint32_t frame) {
  uint32_t* id = nodes_.Insert({parent, frame});
  if (id == nullptr) return 0;
  if (*id != 0) return *id;
  if (!parents_.Push(parent)) return 0;
  if (!node_frames_.Push(frame)) {
    parents_.Resize(parents_.size() - 1);
    return 0;
  }
  return *id = ++last_node_;
}

// The stack outside of the mark of a forward pass, which another thread recorded. Before: it may stand in a chunk that
// was not read yet.
bool Definitions::WaitsForForward(const ring::StackView& stack) const {
  const ring::RawFrame* outermost = stack.count == 0 ? nullptr : &stack.frames[stack.count - 1];
  return outermost != nullptr && (outermost->flags & ring::kFrameForward) != 0 && outermost->pc != 0 &&
         stacks_.Find(outermost->pc) == 0;
}

void Definitions::AddStack(const ring::StackView& stack) {
  if (!WaitsForForward(stack) || !pending_stacks_.Add(stack)) AddStackNow(stack);
}

// Chunks are looked at one after the other, so a pass may hold a stack and not yet the one that another thread recorded
// before it; no event of this pass uses it then. What still waits in the next pass, or in the last one, is added
// without the stack outside: that one was lost.
void Definitions::AddWaiting(bool everything) {
  pending_stacks_.Visit([&](const ring::StackView& stack, bool last) {
    if (!everything && !last && WaitsForForward(stack)) return false;
    AddStackNow(stack);
    return true;
  });
}

// How many of its outermost frames the stack that was added last had, too.
uint32_t Definitions::KnownPath(const ring::StackView& stack) const {
  uint32_t known = 0;
  for (; known < path_depth_ && known < stack.count; known++) {
    const ring::RawFrame &a = stack.frames[stack.count - 1 - known], &b = path_frames_[known];
    const bool same = a.pc == b.pc && a.instruction == b.instruction && a.flags == b.flags;
    // What a mark of a forward pass stands for may have become known meanwhile.
    if (!same || (a.flags & ring::kFrameForward) != 0) break;
  }
  return known;
}

// The node of the innermost frame; 0 where there are too many, or there is no memory.
uint32_t Definitions::LeafOf(const ring::StackView& stack) {
  const uint32_t count = stack.count < ring::kMaxFrames ? stack.count : ring::kMaxFrames;
  uint32_t depth = KnownPath(stack), frame_ids[kPrefetched];
  uint32_t node = depth == 0 ? 0 : path_nodes_[depth - 1];
  path_depth_ = depth;
  while (depth < count) {
    const uint32_t some = count - depth < kPrefetched ? count - depth : kPrefetched;
    // The nodes inside of a new one are new, too, and have the numbers after it.
    for (uint32_t i = 0; i < some; i++) {
      ring::RawFrame frame = stack.frames[stack.count - 1 - depth - i];
      if ((frame.flags & ring::kFrameForward) != 0) frame.pc = 0;
      frame_ids[i] = FrameId(frame);
      nodes_.Prefetch({i == 0 ? node : last_node_ + i, frame_ids[i]});
    }
    for (uint32_t i = 0; i < some; i++, depth++) {
      const ring::RawFrame& frame = stack.frames[stack.count - 1 - depth];
      if ((frame.flags & ring::kFrameForward) != 0) node = stacks_.Find(frame.pc);
      node = frame_ids[i] == 0 ? 0 : NodeId(node, frame_ids[i]);
      if (node == 0) return 0;
      path_frames_[depth] = frame;
      path_nodes_[depth] = node;
      path_depth_ = depth + 1;
    }
  }
  return node;
}

void Definitions::AddStackNow(const ring::StackView& stack) {
  uint32_t* leaf = stack.hash == 0 || stack.count == 0 ? nullptr : stacks_.Insert(stack.hash);
  if (leaf != nullptr && *leaf != 0) return;
  const uint32_t node = leaf == nullptr ? 0 : LeafOf(stack);
  if (node == 0 || !keys_.Push(stack.hash)) {
    lost_++;
    return;
  }
  if (!key_leaves_.Push(node)) keys_.Resize(keys_.size() - 1);
  *leaf = node;
  cached_hash_ = cached_stack_ = 0;
}

uint32_t Definitions::FindStack(uint64_t hash) {
  if (hash == 0) return 0;
  cached_stack_ = stacks_.Find(hash);
  cached_hash_ = hash;
  return cached_stack_;
}

uint32_t Definitions::FindApi(uint16_t api) {
  if (api == 0 || callbacks_.facts.api_name == nullptr) return 0;
  uint32_t id = apis_.Find(api);
  if (id != 0) {
    cached_api_ = api;
    cached_api_id_ = id;
    return id;
  }
  const char* name = callbacks_.facts.api_name(api);
  uint32_t* place = name == nullptr || name[0] == '\0' ? nullptr : apis_.Insert(api);
  if (place == nullptr) return 0;
  *place = ++last_string_;
  PutString(*place, name, strlen(name), 0);
  return *place;
}

void Definitions::AddText(const ring::TextView& text) {
  if (text.field != 0) return out_.Bytes(text.field, text.text, text.size);
  uint32_t* id = texts_.Insert(text.key);
  if (id == nullptr) {
    lost_++;
    return;
  }
  if (*id != 0) return;
  *id = ++last_string_;
  PutString(*id, text.text, text.size, text.key);
}

void Definitions::PutString(uint32_t id, const char* text, size_t size, uint64_t key) {
  size_t mark = out_.Open(fields::Definitions::kStrings);
  out_.Varint(fields::InternedString::kId, id);
  out_.String(fields::InternedString::kValue, text, size);
  if (key != 0) out_.Fixed64(fields::InternedString::kKey, key);
  out_.Close(mark);
}

uint32_t Definitions::AddThread(const ring::EventView& view) {
  cached_thread_ = view.serial;
  uint32_t* known = threads_.Insert(view.serial);
  if (known == nullptr || *known != 0) return view.serial;
  *known = 1;
  size_t mark = out_.Open(fields::Definitions::kThreads);
  out_.Varint(fields::Thread::kId, view.serial);
  out_.Varint(fields::Thread::kTid, view.tid);
  out_.String(fields::Thread::kName, view.thread_name, strnlen(view.thread_name, ring::kThreadNameBytes));
  out_.Close(mark);
  return view.serial;
}

void Definitions::AskForDevice(int16_t device, uint64_t now_ns) {
  if (callbacks_.facts.fill_device == nullptr) return;
  if (device_asked_ns_[device] != 0 && now_ns - device_asked_ns_[device] < 1'000'000'000) return;
  device_asked_ns_[device] = now_ns;
  DeviceInfo info;
  if (!callbacks_.facts.fill_device(device, &info)) return;
  device_known_[device] = true;
  size_t mark = out_.Open(fields::Definitions::kDevices);
  out_.SInt(fields::Device::kIndex, device);
  out_.StringIf(fields::Device::kName, info.name);
  if (info.has_uuid) out_.Bytes(fields::Device::kUuid, info.uuid, sizeof(info.uuid));
  out_.VarintIf(fields::Device::kTotalBytes, info.total_bytes);
  out_.VarintIf(fields::Device::kComputeMajor, info.compute_major);
  out_.VarintIf(fields::Device::kComputeMinor, info.compute_minor);
  out_.StringIf(fields::Device::kPciBusId, info.pci_bus_id);
  out_.Close(mark);
}

void Definitions::AddVersions() {
  if (callbacks_.facts.new_versions == nullptr) return;
  KeyValue versions[16] = {};
  uint32_t count = callbacks_.facts.new_versions(versions, 16);
  for (uint32_t i = 0; i < count && i < 16; i++) {
    size_t mark = out_.Open(fields::Definitions::kVersions);
    out_.StringIf(MapEntry::kKey, versions[i].key);
    out_.StringIf(MapEntry::kValue, versions[i].value);
    out_.Close(mark);
  }
}

void Definitions::Take(ProtoWriter* out) {
  modules_.Update(&out_);
  if (!out_.ok()) {  // no memory for all of it, and half a message must not get out
    lost_++;
    pending_.Clear();
    out_ = ProtoWriter(&pending_);
  }
  if (pending_.size() != 0 && out->Room(pending_.size())) {
    memcpy(out->End(), pending_.data(), pending_.size());
    out->SetEnd(out->End() + pending_.size());
  }
  pending_.Clear();
  if (parents_.size() != 0) {
    size_t nodes = out->Open(fields::Definitions::kStacks);
    out->Varint(fields::StackNodes::kFirstId, first_new_node_);
    size_t mark = out->Open(fields::StackNodes::kParent);
    for (size_t i = 0; i < parents_.size() && out->Room(ProtoWriter::kMaxVarint); i++) {
      out->SetEnd(ProtoWriter::PutVarint(out->End(), parents_[i]));
    }
    out->Close(mark);
    mark = out->Open(fields::StackNodes::kFrame);
    for (size_t i = 0; i < parents_.size() && out->Room(ProtoWriter::kMaxVarint); i++) {
      out->SetEnd(ProtoWriter::PutVarint(out->End(), node_frames_[i]));
    }
    out->Close(mark);
    out->Close(nodes);
  }
  if (keys_.size() != 0) {
    size_t keys = out->Open(fields::Definitions::kStackKeys);
    out->Bytes(fields::StackKeys::kKey, keys_.data(), keys_.size() * sizeof(uint64_t));
    size_t mark = out->Open(fields::StackKeys::kStack);
    for (size_t i = 0; i < key_leaves_.size() && out->Room(ProtoWriter::kMaxVarint); i++) {
      out->SetEnd(ProtoWriter::PutVarint(out->End(), key_leaves_[i]));
    }
    out->Close(mark);
    out->Close(keys);
  }
  first_new_node_ = last_node_ + 1;
  parents_.Clear();
  node_frames_.Clear();
  keys_.Clear();
  key_leaves_.Clear();
}

}  // namespace gpumemshim::writer
