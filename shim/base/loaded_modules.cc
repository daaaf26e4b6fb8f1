// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/loaded_modules.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>

#include <cstring>

#include "shim/base/clock.h"
#include "shim/base/elf_image.h"
#include "shim/base/loader.h"
#include "shim/base/symbol_lookup.h"

namespace gpumemshim::modules {
namespace {

constexpr uint64_t kNoWord = 0;
constexpr uint64_t kForeignBytes = uint64_t{64} << 10;
constexpr int kMaxWaits = 200;

struct Entry {
  Module module;
  std::atomic<bool> gone;
  std::atomic<bool> used;
  bool seen;   // by the look that is under way
  bool fresh;  // found, or found again, by it
};

struct Range {
  std::atomic<uint64_t> start;
  std::atomic<uint64_t> end;
  bool foreign;
};

constinit Entry g_entries[kMaxModules];
constinit std::atomic<uint32_t> g_count;
char g_paths[kMaxPathBytes];
uint32_t g_path_bytes;
constinit Range g_ranges[kMaxRanges];
// Numbers of what is loaded, by address. Odd version: being rewritten. NumberOf reads the version before and after.
constinit std::atomic<uint16_t> g_by_address[kMaxModules];
constinit std::atomic<uint32_t> g_by_address_count;
constinit std::atomic<uint32_t> g_by_address_version;
static_assert(kMaxModules < UINT16_MAX);

constinit std::atomic<uint64_t> g_epoch;
constinit std::atomic_flag g_busy;

// Of the last look; under g_busy.
uint64_t g_loads;
uint64_t g_unloads;
uint64_t g_looked_ns;

// The loader's variables, [start, end); empty where they are not known.
constinit std::atomic<const uint64_t*> g_variables;
constinit std::atomic<uint64_t> g_variable_count;

bool Overlaps(const Module& a, uint64_t start, uint64_t end) { return a.start < end && start < a.end; }

bool Lock() {
  for (int i = 0; i < kMaxWaits; ++i) {
    if (!g_busy.test_and_set(std::memory_order_acquire)) return true;
    sched_yield();
  }
  return false;
}

void Unlock() { g_busy.clear(std::memory_order_release); }

bool IsInRange(uint64_t pc, bool foreign_only) {
  const uint32_t count = g_range_count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    const Range& range = g_ranges[i];
    if (foreign_only && !range.foreign) continue;
    if (pc >= range.start.load(std::memory_order_relaxed) && pc < range.end.load(std::memory_order_relaxed))
      return true;
  }
  return false;
}

// Under g_busy. Past the table's end everything there is, is one range, so that nothing is believed wrongly.
void AddRange(uint64_t start, uint64_t end, bool foreign) {
  const uint32_t count = g_range_count.load(std::memory_order_relaxed);
  if (count == kMaxRanges) {
    g_ranges[kMaxRanges - 1].start.store(0, std::memory_order_relaxed);
    g_ranges[kMaxRanges - 1].end.store(UINT64_MAX, std::memory_order_relaxed);
    return;
  }
  g_ranges[count].start.store(start, std::memory_order_relaxed);
  g_ranges[count].end.store(end, std::memory_order_relaxed);
  g_ranges[count].foreign = foreign;
  g_range_count.store(count + 1, std::memory_order_release);  // pairs with the acquire in HasIrregular
}

const char* KeepPath(const char* path) {
  const size_t bytes = std::strlen(path) + 1;
  if (bytes > kMaxPathBytes - g_path_bytes) return "";
  char* kept = g_paths + g_path_bytes;
  std::memcpy(kept, path, bytes);
  g_path_bytes += static_cast<uint32_t>(bytes);
  return kept;
}

bool SameContent(const Module& module, const elf::Image& image) {
  return module.build_id_bytes == image.build_id_bytes && module.content == image.content &&
         std::memcmp(module.build_id, image.build_id, module.build_id_bytes) == 0;
}

struct Walk {
  bool first = true;
  bool unchanged = false;
  bool unloaded = false;  // something was, since the last look: equal names do not prove equal code
  uint32_t expected = 0;  // the entry that comes next where nothing changed in between
};

bool IsSame(const Entry& entry, const elf::Image& image, const char* path, const Walk& walk) {
  const Module& module = entry.module;
  if (entry.seen || module.start != image.start || module.end != image.end || std::strcmp(module.path, path) != 0)
    return false;
  if (!walk.unloaded && !entry.gone.load(std::memory_order_relaxed)) return true;
  elf::Image filled = image;
  elf::ReadContent(&filled);
  return SameContent(module, filled);
}

Entry* FindEntry(const elf::Image& image, const char* path, Walk* walk) {
  const uint32_t count = g_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t at = (walk->expected + i) % count;
    if (!IsSame(g_entries[at], image, path, *walk)) continue;
    walk->expected = at + 1;
    return &g_entries[at];
  }
  return nullptr;
}

void AddEntry(elf::Image* image, const char* path) {
  const uint32_t count = g_count.load(std::memory_order_relaxed);
  if (count == kMaxModules) return;
  elf::ReadContent(image);
  Entry& entry = g_entries[count];
  Module& module = entry.module;
  module = {image->start,   image->end,     image->load_bias,      g_looked_ns,
            image->content, KeepPath(path), image->build_id_bytes, {}};
  std::memcpy(module.build_id, image->build_id, image->build_id_bytes);
  entry.seen = entry.fresh = true;
  g_count.store(count + 1, std::memory_order_release);  // pairs with the acquire in Count
}

int Visit(dl_phdr_info* info, size_t, void* data) {
  auto* walk = static_cast<Walk*>(data);
  if (walk->first) {
    walk->first = false;
    walk->unchanged = info->dlpi_adds == g_loads && info->dlpi_subs == g_unloads && g_looked_ns != 0;
    if (walk->unchanged) return 1;
    walk->unloaded = info->dlpi_subs != g_unloads;
    g_loads = info->dlpi_adds;
    g_unloads = info->dlpi_subs;
  }
  elf::Image image;
  if (!elf::Describe(*info, &image)) return 0;
  const char* path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  Entry* entry = FindEntry(image, path, walk);
  if (entry == nullptr) {
    AddEntry(&image, path);
    return 0;
  }
  entry->seen = true;
  entry->fresh = entry->gone.exchange(false, std::memory_order_relaxed);
  return 0;
}

// Whatever was used once and is gone, or was generated code, where `module` stands now.
bool ReplacesUsedCode(const Module& module) {
  const uint32_t ranges = g_range_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < ranges; ++i) {
    if (g_ranges[i].foreign && Overlaps(module, g_ranges[i].start.load(), g_ranges[i].end.load())) return true;
  }
  const uint32_t count = g_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    const Entry& other = g_entries[i];
    if (&other.module == &module || !other.gone.load(std::memory_order_relaxed)) continue;
    if (other.used.load(std::memory_order_relaxed) && Overlaps(module, other.module.start, other.module.end))
      return true;
  }
  return false;
}

// Acquire, so that the version is read again only after what it is about.
uint32_t NumberAt(uint32_t place) { return g_by_address[place].load(std::memory_order_acquire); }

uint64_t StartOf(uint32_t place) {
  const uint32_t number = NumberAt(place);
  return number == 0 ? 0 : g_entries[number - 1].module.start;  // 0: not written yet
}

// Under g_busy. The kernel maps downwards, so from the last one on most are in order.
void SortByAddress() {
  g_by_address_version.fetch_add(1, std::memory_order_acq_rel);
  uint32_t sorted = 0;
  const uint32_t count = g_count.load(std::memory_order_relaxed);
  for (uint32_t i = count; i-- > 0;) {
    if (g_entries[i].gone.load(std::memory_order_relaxed)) continue;
    uint32_t place = sorted++;
    for (; place > 0 && StartOf(place - 1) > g_entries[i].module.start; --place) {
      g_by_address[place].store(static_cast<uint16_t>(NumberAt(place - 1)), std::memory_order_relaxed);
    }
    g_by_address[place].store(static_cast<uint16_t>(i + 1), std::memory_order_relaxed);
  }
  g_by_address_count.store(sorted, std::memory_order_relaxed);
  g_by_address_version.fetch_add(1, std::memory_order_release);
}

// The last module that begins at or before `pc`, 0 where there is none.
uint32_t FindByAddress(uint64_t pc) {
  uint32_t low = 0;
  uint32_t high = g_by_address_count.load(std::memory_order_relaxed);
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (StartOf(middle) <= pc) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? 0 : NumberAt(low - 1);
}

void Compare() {
  const uint32_t count = g_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    if (!g_entries[i].seen) g_entries[i].gone.store(true, std::memory_order_relaxed);
    g_entries[i].seen = false;
  }
  SortByAddress();
  for (uint32_t i = 0; i < count; ++i) {
    if (!g_entries[i].fresh) continue;
    g_entries[i].fresh = false;
    const Module& module = g_entries[i].module;
    if (!ReplacesUsedCode(module)) continue;
    if (!IsInRange(module.start, false) || !IsInRange(module.end - 1, false)) AddRange(module.start, module.end, false);
    g_epoch.fetch_add(1, std::memory_order_release);
  }
}

struct Words {
  const uint64_t* at[LoaderWords::kMax];
  uint64_t sum = 0;
  uint32_t count = 0;
};

// Both the count of loads and that of what is loaded are wanted, and before the first unloading they are equal. So
// without a second word there is no telling which of them was found.
bool Suffices(uint32_t count, uint32_t loads) { return loads != 0 && (g_unloads != 0 || count >= 2); }

Words SearchVariables() {
  Words found;
  const uint64_t* variables = g_variables.load(std::memory_order_relaxed);
  const uint64_t count = g_variable_count.load(std::memory_order_relaxed);
  uint32_t loads = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t value = __atomic_load_n(variables + i, __ATOMIC_RELAXED);
    if (value != g_loads && value != g_loads - g_unloads) continue;
    if (found.count == LoaderWords::kMax) return {};
    if (value == g_loads) ++loads;
    found.at[found.count++] = variables + i;
    found.sum += value;
  }
  return Suffices(found.count, loads) ? found : Words{};
}

// A sum that no words have: ask at every event.
constexpr uint64_t kAlwaysAsk = UINT64_MAX;

void Publish(const Words& words) {
  g_loader.sum.store(kAlwaysAsk, std::memory_order_relaxed);
  for (uint32_t i = 0; i < LoaderWords::kMax; ++i) {
    g_loader.words[i].store(i < words.count ? words.at[i] : &kNoWord, std::memory_order_relaxed);
  }
  g_loader.sum.store(words.count == 0 ? kAlwaysAsk : words.sum, std::memory_order_relaxed);
}

}  // namespace

constinit LoaderWords g_loader{{&kNoWord, &kNoWord, &kNoWord, &kNoWord}, kAlwaysAsk};
constinit std::atomic<uint32_t> g_range_count;

void Prepare() {
  void* variables = FindInLoaded("ld-", "_rtld_global");
  Dl_info info;
  const ElfW(Sym)* symbol = nullptr;
  if (variables != nullptr && dladdr1 != nullptr &&
      dladdr1(variables, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) != 0 &&
      symbol != nullptr) {
    g_variables.store(static_cast<const uint64_t*>(variables), std::memory_order_relaxed);
    g_variable_count.store(symbol->st_size / sizeof(uint64_t), std::memory_order_relaxed);
  }
  Look();
}

bool Look() {
  if (!Lock()) return false;
  Walk walk;
  const uint64_t now_ns = MonotonicNs();
  loader::Iterate(&Visit, &walk);
  if (!walk.unchanged) Compare();
  g_looked_ns = now_ns;
  Publish(SearchVariables());  // not found where something is loaded meanwhile: the next event asks
  Unlock();
  return true;
}

uint32_t Count() { return g_count.load(std::memory_order_acquire); }

const Module& At(uint32_t number) { return g_entries[number - 1].module; }

uint32_t NumberOf(uint64_t pc) {
  for (int attempt = 0; attempt < kMaxWaits; ++attempt) {
    const uint32_t version = g_by_address_version.load(std::memory_order_acquire);
    const uint32_t number = version % 2 == 0 ? FindByAddress(pc) : 0;
    if (version % 2 != 0 || g_by_address_version.load(std::memory_order_relaxed) != version) continue;
    if (number == 0 || pc >= At(number).end) return 0;
    g_entries[number - 1].used.store(true, std::memory_order_relaxed);
    return number;
  }
  return 0;
}

uint64_t Epoch() { return g_epoch.load(std::memory_order_acquire); }

bool IsIrregular(uint64_t pc) { return IsInRange(pc, false); }

bool IsForeign(uint64_t pc) { return IsInRange(pc, true); }

bool NoteForeign(uint64_t pc) {
  if (IsForeign(pc) || !Lock()) return false;
  const uint64_t start = pc & ~(kForeignBytes - 1);
  const bool is_new = !IsForeign(pc);
  if (is_new) AddRange(start, start + kForeignBytes, true);
  Unlock();
  return is_new;
}

void ForgetInChild() { Unlock(); }

}  // namespace gpumemshim::modules
