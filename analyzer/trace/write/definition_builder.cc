// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/write/definition_builder.h"

#include "base/utf8.h"
#include "trace/limits.h"

namespace gpumem {

std::string ValidText(absl::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const DecodedChar first = DecodeUtf8(text);
    if (first.valid) {
      valid.append(text.data(), first.length);
    } else {
      AppendUtf8(0xfffd, &valid);
    }
    text.remove_prefix(first.length);
  }
  return valid;
}

namespace {

constexpr uint32_t kModule = 1;  // of all native frames
constexpr uint64_t kFirstAddress = uint64_t{1} << 40, kAddressStep = 16;
constexpr uint64_t kEntryBytes = 128;  // of a string, frame or node, besides its text
constexpr int kMostNodes = 100000;     // of one message: readers refuse definitions of over 8 MiB

// As readers do, who refuse longer definitions.
absl::string_view Clipped(absl::string_view name) { return name.substr(0, kMaxName); }

}  // namespace

uint32_t DefinitionBuilder::String(absl::string_view text) {
  if (text.empty()) return 0;
  text = Clipped(text);
  const auto [it, is_new] = strings_.try_emplace(std::string(text), static_cast<uint32_t>(strings_.size() + 1));
  if (is_new) {
    trace::InternedString* const string = pending_.add_strings();
    string->set_id(it->second);
    string->set_value(ValidText(it->first));
    bytes_ += kEntryBytes + 2 * text.size();
    ++new_entries_;
  }
  return it->second;
}

uint32_t DefinitionBuilder::Frame(const Key& key, trace::Frame frame) {
  const auto [it, is_new] = frames_.try_emplace(key, static_cast<uint32_t>(frames_.size() + 1));
  if (is_new) {
    frame.set_id(it->second);
    *pending_.add_frames() = std::move(frame);
    bytes_ += kEntryBytes;
    ++new_entries_;
  }
  return it->second;
}

// A code object for each line: without a line table its first line is the frame's.
uint32_t DefinitionBuilder::PythonFrame(absl::string_view file, absl::string_view function, uint32_t line,
                                        uint32_t nn_module) {
  const Key key(Sort::kPython, String(file), String(function), line, nn_module);
  if (const auto known = frames_.find(key); known != frames_.end()) return known->second;
  trace::PythonCode* const code = pending_.add_python_codes();
  code->set_id(++python_codes_);
  code->set_filename(ValidText(Clipped(file)));
  code->set_name(ValidText(Clipped(function)));
  code->set_first_line(line);
  bytes_ += kEntryBytes + code->filename().size() + code->name().size();
  ++new_entries_;
  trace::Frame frame;
  frame.set_python_code(python_codes_);
  frame.set_nn_module(nn_module);
  return Frame(key, std::move(frame));
}

// An address for each: the call is in front of the return address that a frame holds.
uint32_t DefinitionBuilder::NativeFrame(absl::string_view file, absl::string_view function, uint32_t line) {
  const Key key(Sort::kNative, String(file), String(function), line, 0);
  if (const auto known = frames_.find(key); known != frames_.end()) return known->second;
  if (addresses_ == 0) {
    trace::Module* const module = pending_.add_modules();
    module->set_id(kModule);
    module->set_start(kFirstAddress);
    module->set_end(kFirstAddress << 1);
  }
  const uint64_t pc = kFirstAddress + kAddressStep * ++addresses_;
  bytes_ += kEntryBytes + file.size() + function.size();
  names_.Add(pc, {{function.empty() ? "??" : ValidText(Clipped(function)), ValidText(Clipped(file)), line}});
  trace::Frame frame;
  frame.set_pc(pc);
  frame.set_module(kModule);
  return Frame(key, std::move(frame));
}

uint32_t DefinitionBuilder::ForwardMark(absl::string_view node) {
  trace::Frame frame;
  frame.set_forward(true);
  frame.set_node(String(node));
  return Frame(Key(Sort::kMark, 0, frame.node(), 0, 0), std::move(frame));
}

uint32_t DefinitionBuilder::CutMark() {
  trace::Frame frame;
  frame.set_cut(true);
  return Frame(Key(Sort::kMark, 0, 0, 1, 0), std::move(frame));
}

uint64_t DefinitionBuilder::Stack(uint64_t caller, uint32_t frame) {
  const auto [it, is_new] = stacks_.try_emplace({caller, frame}, stacks_.size() + 1);
  if (!is_new) return it->second;
  // Ids rise by one, so the last message goes on until it is long.
  const int last = pending_.stacks_size() - 1;
  if (last < 0 || pending_.stacks(last).frame_size() >= kMostNodes) pending_.add_stacks()->set_first_id(it->second);
  trace::StackNodes* const nodes = pending_.mutable_stacks(pending_.stacks_size() - 1);
  nodes->add_parent(caller);
  nodes->add_frame(frame);
  bytes_ += kEntryBytes;
  ++new_entries_;
  return it->second;
}

trace::Definitions DefinitionBuilder::Take() {
  if (names_.size() != 0) {
    pending_.add_symbols()->ParseFromString(names_.Serialize(kModule));
    names_ = ModuleSymbols();
  }
  trace::Definitions taken;
  taken.Swap(&pending_);
  new_entries_ = 0;
  taken_bytes_ = bytes_;
  return taken;
}

}  // namespace gpumem
