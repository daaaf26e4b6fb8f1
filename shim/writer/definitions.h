// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Definitions: gives ids to what events refer to (stacks, frames, code objects, names, threads, devices) and collects
// the definitions that the file lacks. Stacks become a trie, so that stacks which share their outer frames share their
// nodes.
//
// Thread-safety: the writer thread only. Ownership: copies what it keeps. Failure: ids are bounded (about a million
// stacks); past that, and without memory, an id is 0 = not known and lost() counts it.
//
//   definitions.AddStack(view);
//   uint32_t leaf = definitions.StackId(event.stack);
//   definitions.Take(&writer);   // the fields of one Definitions message

#ifndef GPUMEM_SHIM_WRITER_DEFINITIONS_H_
#define GPUMEM_SHIM_WRITER_DEFINITIONS_H_

#include <cstdint>

#include "shim/base/buffer.h"
#include "shim/base/flat_table.h"
#include "shim/base/proto_writer.h"
#include "shim/ring/reader.h"
#include "shim/writer/writer.h"

namespace gpumemshim::writer {

// Modules: definitions of the native objects that were loaded, with their build ids, so that program counters can be
// named elsewhere and later. Ids are the numbers of base/loaded_modules.h, so what is gone by now is defined too.
//
// Thread-safety: the writer thread only. It takes the loader's list lock for the length of a walk, which nobody holds
// across a call of ours. Failure: an object that cannot be read has no build id; those past the table are left out.
//
//   modules.Update(&definitions);   // appends Definitions.modules for what is new
class Modules {
 public:
  // Cheap where nothing was loaded since the last call.
  void Update(ProtoWriter* definitions);

 private:
  uint32_t defined_ = 0;
};

// PendingStacks: copies of stacks that cannot be added yet. One waits for this pass and the next, no longer.
//
// Thread-safety: the writer thread only. Failure: Add returns false without memory, or past a bound.
//
//   if (!pending.Add(stack)) ...
//   pending.Visit([&](const ring::StackView& stack, bool last) { return last || Known(stack) ? Use(stack) : false; });
class PendingStacks {
 public:
  bool Add(const ring::StackView& stack) {
    const size_t first = frames_.size();
    if (first + stack.count > kMaxFrames || !frames_.Reserve(first + stack.count)) return false;
    if (!stacks_.Push({stack.hash, first, stack.count})) return false;
    frames_.Resize(first + stack.count);
    for (uint32_t i = 0; i < stack.count; i++) frames_[first + i] = stack.frames[i];
    return true;
  }

  bool empty() const { return stacks_.size() == 0; }

  // Calls take(stack, last) for each and keeps those for which it returns false. `last`: it has waited long enough.
  template <typename Take>
  void Visit(Take take) {
    size_t kept = 0, kept_frames = 0;
    for (size_t i = 0; i < stacks_.size(); i++) {
      Pending pending = stacks_[i];
      if (take(ring::StackView{pending.hash, &frames_[pending.first_frame], pending.count}, i < old_)) continue;
      for (uint32_t k = 0; k < pending.count; k++) frames_[kept_frames + k] = frames_[pending.first_frame + k];
      pending.first_frame = kept_frames;
      kept_frames += pending.count;
      stacks_[kept++] = pending;
    }
    stacks_.Resize(kept);
    frames_.Resize(kept_frames);
    old_ = kept;
  }

 private:
  static constexpr size_t kMaxFrames = size_t{1} << 20;
  struct Pending {
    uint64_t hash;
    size_t first_frame;
    uint32_t count;
  };
  Array<Pending> stacks_;
  Array<ring::RawFrame> frames_;
  size_t old_ = 0;  // those in front were there at the last visit
};

struct FrameKey {
  uint64_t pc;
  uint32_t instruction;
  uint32_t flags;
  bool operator==(const FrameKey&) const = default;
};
struct NodeKey {
  uint32_t parent;
  uint32_t frame;
  bool operator==(const NodeKey&) const = default;
};
constexpr uint64_t HashKey(const FrameKey& key) {
  return MixBits(key.pc + MixBits(uint64_t{key.instruction} << 32 | key.flags));
}
constexpr uint64_t HashKey(const NodeKey& key) { return MixBits(uint64_t{key.parent} << 32 | key.frame); }

class Definitions {
 public:
  static constexpr size_t kMaxStacks = size_t{1} << 20;
  static constexpr size_t kMaxNodes = size_t{1} << 24;

  explicit Definitions(const Callbacks& callbacks) : callbacks_(callbacks) {}

  void AddCode(const ring::RawCode& code);
  void AddStack(const ring::StackView& stack);
  // Once all stacks of a pass were added; `everything`: there is no other pass.
  void AddWaiting(bool everything);
  // The ring must keep what only we hold.
  bool waits() const { return !pending_stacks_.empty(); }
  void AddText(const ring::TextView& text);  // or a ready definition

  // Ids for an event's columns. 0 = none, or never defined.
  uint32_t StackId(uint64_t hash) { return hash == cached_hash_ ? cached_stack_ : FindStack(hash); }
  uint32_t ApiId(uint16_t api) { return api == cached_api_ ? cached_api_id_ : FindApi(api); }
  uint32_t TextId(uint64_t key) const { return key == 0 ? 0 : texts_.Find(key); }
  uint32_t ThreadId(const ring::EventView& view) {
    return view.serial == cached_thread_ ? view.serial : AddThread(view);
  }

  // Asks for a device that an event names and that was not defined yet.
  void AddDevice(int16_t device, uint64_t now_ns) {
    if (device >= 0 && device < static_cast<int16_t>(kMaxDevices) && !device_known_[device])
      AskForDevice(device, now_ns);
  }
  void AddVersions();

  bool empty() const { return pending_.size() == 0 && parents_.size() == 0; }
  size_t pending_bytes() const { return pending_.size() + parents_.size() * 16; }
  uint64_t lost() const { return lost_; }
  void CountLost() { lost_++; }

  // Appends the pending fields of a Definitions message and forgets them.
  void Take(ProtoWriter* out);

 private:
  static constexpr size_t kMaxDevices = 128;
  static constexpr uint32_t kPrefetched = 16;  // nodes, whose places are loaded at the same time

  uint32_t FindStack(uint64_t hash);
  uint32_t FindApi(uint16_t api);
  uint32_t AddThread(const ring::EventView& view);
  void AskForDevice(int16_t device, uint64_t now_ns);
  bool WaitsForForward(const ring::StackView& stack) const;
  void AddStackNow(const ring::StackView& stack);
  uint32_t KnownPath(const ring::StackView& stack) const;
  uint32_t LeafOf(const ring::StackView& stack);
  uint32_t FrameId(const ring::RawFrame& frame);
  uint32_t CodeId(uint64_t key);
  void PutString(uint32_t id, const char* text, size_t size, uint64_t key);
  uint32_t NodeId(uint32_t parent, uint32_t frame);

  const Callbacks callbacks_;
  Buffer pending_{size_t{48} << 20};
  ProtoWriter out_{&pending_};
  Modules modules_;
  FlatTable<FrameKey> frames_{kMaxNodes};
  FlatTable<NodeKey> nodes_{kMaxNodes};
  FlatTable<uint64_t> stacks_{kMaxStacks};
  PendingStacks pending_stacks_;
  // The nodes of the stack that was added last, outermost first: most stacks begin like the one before.
  ring::RawFrame path_frames_[ring::kMaxFrames];
  uint32_t path_nodes_[ring::kMaxFrames];
  uint32_t path_depth_ = 0;
  FlatTable<uint64_t> codes_{kMaxStacks};
  FlatTable<uint64_t> written_codes_{kMaxStacks};
  FlatTable<uint64_t> apis_{65536};
  FlatTable<uint64_t> texts_{kMaxStacks};
  FlatTable<uint64_t> threads_{kMaxStacks};
  Array<uint32_t> parents_, node_frames_;  // of the nodes that the file lacks
  Array<uint64_t> keys_, key_leaves_;
  uint32_t first_new_node_ = 1;
  uint32_t last_frame_ = 0, last_node_ = 0, last_code_ = 0, last_string_ = 0;
  uint32_t cached_thread_ = 0;
  uint64_t cached_hash_ = 0;  // of no stack, which has the id 0
  uint32_t cached_stack_ = 0;
  uint16_t cached_api_ = 0;  // the same
  uint32_t cached_api_id_ = 0;
  uint64_t lost_ = 0;
  bool device_known_[kMaxDevices] = {};
  uint64_t device_asked_ns_[kMaxDevices] = {};
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_DEFINITIONS_H_
