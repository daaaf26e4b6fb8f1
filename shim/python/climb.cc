// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/climb.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "shim/base/clock.h"
#include "shim/python/edges.h"
#include "shim/python/objects.h"

namespace gpumemshim::python {
namespace {

using Number = unsigned long long;  // NOLINT(google-runtime-int): what the format "K" is for
using Visitor = int (*)(Object* object, void* argument);
using Traversal = int (*)(Object* object, Visitor visit, void* argument);

constexpr int kTraverseSlot = 71;     // Py_tp_traverse, part of the stable ABI
constexpr uint32_t kMaxLevels = 100;  // of frames that refer to each other, say
constexpr size_t kMaxSeen = size_t{1} << 21;
constexpr std::ptrdiff_t kObjectsPerLook = 4096;  // at the clock
constexpr int kMaxThreads = 4096, kMaxFrames = 1000;
constexpr size_t kKnownTypes = 512;

const Api* g_api;

// An object on a way up.
struct Seen {
  Object* object;
  uint32_t level;     // 0: nobody asks for it any more, or it is an end
  uint32_t own;       // references to it that are ours
  uint32_t incoming;  // references to it by objects that the collector knows
  bool is_traversed;
};

// By address; open addressing. It grows, and says where there is no memory.
class SeenTable {
 public:
  SeenTable() = default;
  SeenTable(const SeenTable&) = delete;
  SeenTable& operator=(const SeenTable&) = delete;
  ~SeenTable() { std::free(places_); }

  Seen* Find(const Object* object) {
    if (places_ == nullptr) return nullptr;
    for (size_t i = Hash(object);; i = (i + 1) & mask_) {
      if (places_[i].object == object) return &places_[i];
      if (places_[i].object == nullptr) return nullptr;
    }
  }
  // nullptr: no room.
  Seen* Add(Object* object) {
    if (2 * (count_ + 1) > mask_ && !Grow()) return nullptr;
    size_t i = Hash(object);
    while (places_[i].object != nullptr) i = (i + 1) & mask_;
    places_[i] = {object, 0, 0, 0, false};
    ++count_;
    return &places_[i];
  }
  template <typename Each>
  void ForEach(Each each) {
    for (size_t i = 0; places_ != nullptr && i <= mask_; ++i) {
      if (places_[i].object != nullptr) each(&places_[i]);
    }
  }

 private:
  size_t Hash(const Object* object) const {
    return static_cast<size_t>((reinterpret_cast<uintptr_t>(object) >> 4) * 0x9E3779B97F4A7C15u >> 20) & mask_;
  }
  bool Grow() {
    const size_t capacity = mask_ == 0 ? 1024 : 2 * (mask_ + 1);
    if (capacity > kMaxSeen) return false;
    auto* const grown = static_cast<Seen*>(std::calloc(capacity, sizeof(Seen)));
    if (grown == nullptr) return false;
    Seen* const before = places_;
    const size_t old_capacity = before == nullptr ? 0 : mask_ + 1;
    places_ = grown;
    mask_ = capacity - 1;
    for (size_t k = 0; k < old_capacity; ++k) {
      if (before[k].object == nullptr) continue;
      size_t i = Hash(before[k].object);
      while (places_[i].object != nullptr) i = (i + 1) & mask_;
      places_[i] = before[k];
    }
    std::free(before);
    return true;
  }

  Seen* places_ = nullptr;
  size_t mask_ = 0, count_ = 0;
};

// How objects of a type are traversed; types are few, and asked for a million times.
class Types {
 public:
  Traversal TraversalOf(Object* type) {
    Known& known = known_[(reinterpret_cast<uintptr_t>(type) >> 4) % kKnownTypes];
    if (known.type != type) known = {type, reinterpret_cast<Traversal>(g_api->type_slot(type, kTraverseSlot))};
    return known.traverse;
  }

 private:
  struct Known {
    Object* type = nullptr;
    Traversal traverse = nullptr;
  };
  Known known_[kKnownTypes];
};

// The low half of ob_refcnt, the first word of every object (CPython with a GIL, without Py_TRACE_REFS).
uint32_t ReferencesTo(const Object* object) { return *static_cast<const uint32_t*>(object); }

Object* TypeOf(Object* object) {  // borrowed: the object has it
  Object* const type = g_api->type_of(object);
  g_api->decrement(type);
  return type;
}

struct Climb {
  SeenTable* seen;
  Edges* all;
  Object* edges;
  uint32_t level;
  bool failed;
};

int VisitReferent(Object* object, void* argument) {
  auto* const climb = static_cast<Climb*>(argument);
  if (!climb->failed) climb->failed = !climb->all->Add(object);
  return 0;
}

bool IsEnd(Object* object) {
  Object* const type = TypeOf(object);
  return type == g_api->function_type || type == g_api->module_type || g_api->is_subtype(type, g_api->type_type) != 0;
}

// Lists that are ours: what they refer to is not kept by them.
struct Ours {
  Object *objects, *targets, *ends;
  bool Has(const Object* object) const { return object == objects || object == targets || object == ends; }
};

bool TraverseOne(Object* object, Types* types, Climb* climb) {
  const Traversal traverse = types->TraversalOf(TypeOf(object));
  if (traverse == nullptr) return true;
  if (!climb->all->AddHolder(object)) return false;
  traverse(object, &VisitReferent, climb);
  return !climb->failed;
}

// Ends are traversed in any case: gc.freeze() hides from the collector what there was before. False: out of time or
// room.
bool Traverse(const Ours& ours, Climb* climb, uint64_t deadline_ns) {
  Types types;
  const std::ptrdiff_t count = g_api->list_size(ours.objects);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    if (i % kObjectsPerLook == 0 && WorkNs() > deadline_ns) return false;
    Object* const object = g_api->list_item(ours.objects, i);
    if (ours.Has(object) || object == climb->edges) continue;
    if (Seen* const known = climb->seen->Find(object); known != nullptr) known->is_traversed = true;
    if (!TraverseOne(object, &types, climb)) return false;
  }
  for (std::ptrdiff_t i = 0, ends = g_api->list_size(ours.ends); i < ends; ++i) {
    Object* const end = g_api->list_item(ours.ends, i);
    Seen* const known = climb->seen->Find(end);
    if (!known->is_traversed && !TraverseOne(end, &types, climb)) return false;
    known->is_traversed = true;
  }
  return true;
}

// Edges of a level; it grows, and says where there is no memory.
class Found {
 public:
  Found() = default;
  Found(const Found&) = delete;
  Found& operator=(const Found&) = delete;
  ~Found() { std::free(edges_); }
  bool Add(Edge edge) {
    if (count_ == room_) {
      const size_t room = room_ == 0 ? 256 : 2 * room_;
      auto* const grown = static_cast<Edge*>(std::realloc(edges_, room * sizeof(Edge)));
      if (grown == nullptr) return false;
      edges_ = grown;
      room_ = room;
    }
    edges_[count_++] = edge;
    return true;
  }
  // By their places: the order of the collector's objects, which is the same in each run.
  void Sort() {
    std::sort(edges_, edges_ + count_, [](Edge a, Edge b) { return a.object < b.object; });
  }
  const Edge* begin() const { return edges_; }
  const Edge* end() const { return edges_ + count_; }

 private:
  Edge* edges_ = nullptr;
  size_t count_ = 0, room_ = 0;
};

// Everything that refers to objects of this level. False: out of time or memory.
bool Pass(Climb* climb, uint64_t deadline_ns) {
  if (WorkNs() > deadline_ns) return false;
  Found found;
  climb->seen->ForEach([&](Seen* each) {
    if (each->level != climb->level) return;
    climb->all->ForEachHolder(each->object, [&](Edge edge) {
      ++each->incoming;
      ++each->own;
      climb->failed = climb->failed || !found.Add(edge);
    });
  });
  found.Sort();
  for (const Edge edge : found) {
    if (climb->failed) break;
    climb->failed = g_api->append(climb->edges, climb->all->At(edge.holder)) != 0 ||
                    g_api->append(climb->edges, climb->all->At(edge.object)) != 0;
  }
  return !climb->failed;
}

// The holders that this pass found become the next level. Returns how many; -1: no room.
std::ptrdiff_t NextLevel(std::ptrdiff_t from, Climb* climb) {
  std::ptrdiff_t added = 0;
  const std::ptrdiff_t end = g_api->list_size(climb->edges);
  for (std::ptrdiff_t i = from; i < end; i += 2) {
    Object* const holder = g_api->list_item(climb->edges, i);
    Seen* found = climb->seen->Find(holder);
    if (found == nullptr) {
      found = climb->seen->Add(holder);
      if (found == nullptr) return -1;
      found->own = 1;  // of the list of all objects
      found->level = IsEnd(holder) ? 0 : climb->level + 1;
      added += found->level != 0 ? 1 : 0;
    }
    ++found->own;
  }
  return added;
}

// All objects that the collector knows, in a new list; nullptr: they cannot be had.
Object* AllObjects() {
  Object* const arguments = g_api->build("(O)", g_api->none);
  if (arguments == nullptr) return nullptr;
  Object* const found = Instances(nullptr, arguments);
  g_api->decrement(arguments);
  if (found != nullptr && TypeOf(found) == g_api->list_type) return found;
  if (found != nullptr) g_api->decrement(found);
  g_api->clear_error();
  return nullptr;
}

bool AddTargets(Object* targets, Object* ends, SeenTable* seen) {
  for (std::ptrdiff_t i = 0, count = g_api->list_size(targets); i < count; ++i) {
    Object* const target = g_api->list_item(targets, i);
    Seen* found = seen->Find(target);
    if (found == nullptr) found = seen->Add(target);
    if (found == nullptr) return false;
    found->level = 1;
    found->own = 2;  // `targets`, and the list of all objects
  }
  for (std::ptrdiff_t i = 0, count = g_api->list_size(ends); i < count; ++i) {
    Object* const end = g_api->list_item(ends, i);
    if (seen->Find(end) == nullptr && seen->Add(end) == nullptr) return false;
  }
  return true;
}

bool ClimbAll(const Ours& ours, Climb* climb, uint64_t deadline_ns) {
  if (!Traverse(ours, climb, deadline_ns) || WorkNs() > deadline_ns || !climb->all->Index()) return false;
  for (climb->level = 1; climb->level <= kMaxLevels; ++climb->level) {
    const std::ptrdiff_t before = g_api->list_size(climb->edges);
    if (!Pass(climb, deadline_ns)) return false;
    const std::ptrdiff_t added = NextLevel(before, climb);
    if (added < 0) climb->level = 1;  // some holders are in no table: nothing is known for certain
    if (added <= 0) return added == 0;
  }
  return false;
}

Object* ClimbFunction(Object*, Object* arguments) {
  Object *targets = nullptr, *ends = nullptr;
  Number deadline_ns = 0;
  if (g_api->parse(arguments, "O!O!K", g_api->list_type, &targets, g_api->list_type, &ends, &deadline_ns) == 0)
    return nullptr;
  Object* const objects = g_api->type_slot == nullptr ? nullptr : AllObjects();
  if (objects == nullptr) {
    g_api->increment(g_api->none);
    return g_api->none;
  }
  SeenTable seen;
  Edges all;
  Climb climb{&seen, &all, g_api->new_list(0), 1, false};
  Object* const outside = g_api->new_list(0);
  Object* const rest = g_api->new_list(0);
  bool has_all = climb.edges != nullptr && outside != nullptr && rest != nullptr && AddTargets(targets, ends, &seen);
  if (has_all) {
    const bool finished = ClimbAll({objects, targets, ends}, &climb, deadline_ns);
    seen.ForEach([&](Seen* each) {
      if (each->level == 0) return;
      if (!finished && each->level >= climb.level) {
        has_all = has_all && g_api->append(rest, each->object) == 0;
      } else if (ReferencesTo(each->object) > each->own + each->incoming) {
        has_all = has_all && g_api->append(outside, each->object) == 0;
      }
    });
  }
  g_api->decrement(objects);
  g_api->clear_error();
  Object* const result = has_all ? g_api->build("(OOO)", climb.edges, outside, rest) : g_api->build("");
  for (Object* const each : {climb.edges, outside, rest}) {
    if (each != nullptr) g_api->decrement(each);
  }
  return result;
}

// Of all threads.
Object* Frames(Object*, Object*) {
  Object* const all = g_api->new_list(0);
  Object* thread = all == nullptr ? nullptr : g_api->first_thread(g_api->interpreter_of(g_api->current_thread()));
  for (int threads = 0; thread != nullptr && threads < kMaxThreads; ++threads, thread = g_api->next_thread(thread)) {
    Object* frame = g_api->thread_frame(thread);
    for (int deep = 0; frame != nullptr; ++deep) {
      Object* const back = deep < kMaxFrames && g_api->append(all, frame) == 0 ? g_api->frame_back(frame) : nullptr;
      g_api->decrement(frame);
      frame = back;
    }
  }
  g_api->clear_error();
  return all;
}

Object* Still(Object*, Object* arguments) {
  Object *function = nullptr, *passed = nullptr;
  if (g_api->parse(arguments, "OO!", &function, g_api->tuple_type, &passed) == 0) return nullptr;
  const CollectorOff off;
  return g_api->call(function, passed);
}

Method g_methods[] = {
    {"climb", &ClimbFunction, kVarArguments, "climb(objects, ends, deadline)"},
    {"frames", &Frames, kVarArguments, "frames()"},
    {"still", &Still, kVarArguments, "still(function, arguments)"},
};

}  // namespace

bool AddClimbFunctions(const Api* api, Object* record) {
  g_api = api;
  return AddFunctions(api, record, g_methods);
}

}  // namespace gpumemshim::python
