// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/hta.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "ledger/load/input.h"
#include "ledger/stacks/lives.h"
#include "replay/state/accounts.h"

namespace gpumem {
namespace {

// Numbers of torch.profiler._memory_profiler.Action.
enum class Action : int { kPreexisting = 1, kCreate = 2, kDestroy = 4 };

// Places in torch.profiler._memory_profiler._CATEGORY_TO_INDEX, and in Holistic Trace Analysis's list. Its "unknown"
// takes what it has no name for: buffers, the KV cache, workspaces, buckets.
int PlaceOf(Category category) {
  switch (category) {
    case Category::kParameter:
      return 0;
    case Category::kOptimizerState:
      return 1;
    case Category::kInput:
      return 2;
    case Category::kTemporary:
      return 3;
    case Category::kActivation:
      return 4;
    case Category::kGradient:
      return 5;
    default:
      return 7;  // 6 is autograd's own detail, which is in activations here
  }
}

// What each of PyTorch's blocks was for, by the event that allocated it. A category is only known when a block's life
// is over, and the export writes its allocation first. One byte an event.
class BlockCategories final : public LifeReceiver {
 public:
  bool IsWanted(const Life& life) const override { return life.kind == LifeKind::kBlock; }
  void Lived(const Life& life, const AttributedUse& use) override {
    if (life.born >= by_event_.size()) by_event_.resize(life.born + 1, Category::kUnknown);
    by_event_[life.born] = use.category;
  }
  Category Of(uint64_t alloc_event) const {
    return alloc_event < by_event_.size() ? by_event_[alloc_event] : Category::kUnknown;
  }

 private:
  std::vector<Category> by_event_;
};

class HtaExporter final : public Exporter {
 public:
  HtaExporter(const BlockCategories* categories, uint32_t slot, uint64_t start_realtime_ns, TextSink sink)
      : categories_(categories),
        slot_(slot),
        start_realtime_ns_(start_realtime_ns),
        gzip_(std::move(sink)),
        out_([this](absl::string_view text) { gzip_.Write(text); }) {}

  void Begin() override { absl::StrAppend(out_.text(), "["); }
  void Skip(const ExportedEvent& event) override { Apply(event, false); }
  void Take(const ExportedEvent& event) override {
    if (!has_begun_) AddPreexisting();
    has_begun_ = true;
    Apply(event, true);
    Correct(event);
    out_.MaybeFlush();
  }
  void End(const LiveState&) override {
    absl::StrAppend(out_.text(), "]\n");
    out_.Flush();
    gzip_.Finish();
  }

 private:
  struct Block {
    uint64_t size = 0;
    Category category = Category::kUnknown;
  };

  void Apply(const ExportedEvent& event, bool is_wanted) {
    const EventRow& row = event.row;
    for (const TorchBlock& block : event.dropped) Free(block.address, event, is_wanted);
    if (event.slot != slot_ || row.layer != trace::TORCH) return;
    if (row.kind == trace::ALLOC) {
      const Block block{row.size, categories_->Of(event.index)};
      live_[row.address] = block;
      if (is_wanted) Add(TimeOf(event), Action::kCreate, static_cast<int64_t>(block.size), block.category);
    } else if (event.freed != nullptr) {
      Free(row.address, event, is_wanted);
    }
  }

  void Free(uint64_t address, const ExportedEvent& event, bool is_wanted) {
    const auto found = live_.find(address);
    if (found == live_.end()) return;
    const Block block = found->second;
    live_.erase(found);
    if (is_wanted) Add(TimeOf(event), Action::kDestroy, -static_cast<int64_t>(block.size), block.category);
  }

  void AddPreexisting() {
    for (const auto& [address, block] : live_)
      Add("-1", Action::kPreexisting, static_cast<int64_t>(block.size), block.category);
  }

  // What became known or unknown in another way than by a block's own events: memory from before the recording, gaps.
  void Correct(const ExportedEvent& event) {
    if (event.state.slots() <= slot_) return;
    const auto allocated = static_cast<int64_t>(event.state.values(slot_).allocated);
    if (const int64_t missing = allocated - sum_; missing != 0)
      Add(TimeOf(event), missing > 0 ? Action::kCreate : Action::kDestroy, missing, Category::kUnknown);
  }

  std::string TimeOf(const ExportedEvent& event) const { return absl::StrCat(start_realtime_ns_ + event.since_ns); }

  void Add(absl::string_view time, Action action, int64_t bytes, Category category) {
    absl::StrAppend(out_.text(), entries_++ == 0 ? "[" : ", [", time, ", ", static_cast<int>(action), ", ", bytes,
                    ", ");
    absl::StrAppend(out_.text(), PlaceOf(category), "]");
    sum_ += bytes;
  }

  const BlockCategories* categories_;
  uint32_t slot_;
  uint64_t start_realtime_ns_;
  GzipText gzip_;
  ChunkedText out_;
  absl::flat_hash_map<uint64_t, Block> live_;  // by address
  int64_t sum_ = 0;                            // of what was written
  uint64_t entries_ = 0;
  bool has_begun_ = false;
};

}  // namespace

absl::StatusOr<ExportResult> ExportHta(const ExportRequest& request, LoadedTrace* loaded, TextSink sink,
                                       const std::function<bool()>& more) {
  BlockCategories categories;
  GPUMEM_RETURN_IF_ERROR(ShowLives(loaded, &categories));
  const DeviceAnalysis* const largest = LargestDevice(loaded->analysis);
  ExportRequest of_device = request;
  if (of_device.device < 0) of_device.device = largest == nullptr ? 0 : largest->device;
  HtaExporter exporter(&categories, SlotOfDevice(of_device.device), loaded->input.StartRealtime(), std::move(sink));
  return RunExport(of_device, loaded, &exporter, more);
}

namespace {

constexpr size_t kChunk = size_t{1} << 18;
constexpr int kGzip = 16;  // added to the window's bits: with gzip's header

}  // namespace

struct GzipText::Stream {
  z_stream zlib{};
  std::string out = std::string(kChunk, '\0');
};

GzipText::GzipText(TextSink sink) : sink_(std::move(sink)), stream_(std::make_unique<Stream>()) {
  const int made =
      deflateInit2(&stream_->zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY);
  if (made != Z_OK) std::abort();  // no memory, or a library that is not the header's
}

GzipText::~GzipText() { deflateEnd(&stream_->zlib); }

void GzipText::Deflate(absl::string_view text, bool is_last) {
  z_stream& zlib = stream_->zlib;
  do {
    const absl::string_view part = text.substr(0, kChunk);
    text.remove_prefix(part.size());
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    zlib.avail_in = static_cast<uInt>(part.size());
    do {
      zlib.next_out = reinterpret_cast<Bytef*>(stream_->out.data());
      zlib.avail_out = static_cast<uInt>(kChunk);
      deflate(&zlib, is_last && text.empty() ? Z_FINISH : Z_NO_FLUSH);
      const size_t made = kChunk - zlib.avail_out;
      if (made > 0) sink_(absl::string_view(stream_->out).substr(0, made));
    } while (zlib.avail_out == 0);
  } while (!text.empty());
}

}  // namespace gpumem
