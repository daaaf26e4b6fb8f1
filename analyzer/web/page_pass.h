// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PagePass: what a page shows of a trace beside the answers of other commands: the timeline's rows, its layers, and the
// pieces of memory with what they were for. Not thread-safe; the trace must outlive it.
//
//   PagePass pass(loaded, PageLimits());
//   GPUMEM_RETURN_IF_ERROR(ShowLives(loaded, &pass));
//   for (PageDevice& device : pass.devices()) ...

#ifndef GPUMEM_ANALYZER_WEB_PAGE_PASS_H_
#define GPUMEM_ANALYZER_WEB_PAGE_PASS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "ledger/stacks/lives.h"
#include "web/event_windows.h"
#include "web/layers.h"
#include "web/page_lives.h"
#include "web/time_rows.h"

namespace gpumem {

struct PageLimits {
  size_t rows = 8192;      // of a device's timeline
  size_t blocks = 40'000;  // named one by one
  size_t segments = 20'000;
  // Single events: of a run with at most so many changes all, else so many around peaks and failures and behind marks.
  size_t exact_rows = 0;
  uint64_t single_events = 0;
  EventRange asked;  // and these; from == until: none
};

// What the timeline can be stacked by.
enum class PageLayer : uint8_t { kCategory, kModule, kLine, kStream };
inline constexpr size_t kPageLayers = 4;
absl::string_view PageLayerName(PageLayer layer);  // "category"

struct PageDevice {
  int device = 0;
  TimeRows rows;
  std::array<Layers, kPageLayers> layers;
};

class PagePass final : public LifeReceiver {
 public:
  PagePass(LoadedTrace* loaded, const PageLimits& limits);
  PagePass(const PagePass&) = delete;
  PagePass& operator=(const PagePass&) = delete;

  bool WantsTotals() const override { return true; }
  void Totals(uint64_t event, uint64_t time_ns, uint32_t slot, const MeasureValues& values) override;
  void Begin(const LivesFacts& facts) override;
  bool IsWanted(const Life& life) const override;
  void Lived(const Life& life, const AttributedUse& use) override;
  void Ended(const LivesFacts& facts) override;

  // Once all is shown. Those on which something was allocated, by number.
  std::vector<PageDevice>& devices() { return devices_; }
  const PageLives& blocks() const { return blocks_; }
  const PageLives& segments() const { return segments_; }
  uint64_t events() const { return facts_.events; }
  uint64_t end_event() const { return facts_.end_event; }  // the last of the program's own code
  // Where every change of a total is a row, and what began or ended is named.
  std::vector<EventRange> SingleEvents() const;
  // What PageLife::module and ::line, and the keys of layers, are numbers of; "" = not known.
  std::string KeyText(PageLayer by, uint32_t key);
  // The key of PageLife::stream.
  uint32_t StreamNumber(uint64_t stream);

 private:
  PageDevice* DeviceOf(uint32_t slot);
  uint32_t LineOf(uint64_t stack_id);
  void ChooseWindows();
  PageLives::Use UseOf(const Life& life) const;
  void AddLayers(const PageLife& life);

  LoadedTrace* loaded_;
  PageLimits limits_;
  std::vector<uint64_t> peaks_;  // events
  EventWindows windows_;
  std::vector<uint64_t> mark_times_;
  size_t next_mark_ = 0;
  std::vector<PageDevice> devices_;
  PageLives blocks_, segments_;
  absl::flat_hash_map<uint64_t, uint32_t> line_of_stack_, stream_numbers_;
  absl::flat_hash_map<std::string, uint32_t> line_numbers_;
  std::vector<std::string> lines_{""};
  std::vector<uint64_t> streams_{0};
  LivesFacts facts_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_PAGE_PASS_H_
