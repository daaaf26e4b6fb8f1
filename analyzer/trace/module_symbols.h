// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ModuleSymbols: the names of addresses of one native module, as trace.proto's message of that name holds them. The
// same bytes are a definition in a trace, an entry of the cache of symbols, and the answer of the process that looked
// them up. Copyable value; not thread-safe while filled. Input of Parse may be hostile.
//
//   ModuleSymbols symbols;
//   symbols.Add(0x1f20, {{"Inlined(int)", "a.h", 12}, {"Caller()", "a.cc", 40}});
//   for (const NativeFunction& function : symbols.At(0x1f20)) ...   // innermost first

#ifndef GPUMEM_ANALYZER_TRACE_MODULE_SYMBOLS_H_
#define GPUMEM_ANALYZER_TRACE_MODULE_SYMBOLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// A function at an address.
struct NativeFunction {
  std::string function;  // full name, demangled; "" where not known
  std::string file;      // "" where not known
  uint32_t line = 0;     // 0 where not known
};

class ModuleSymbols {
 public:
  // Functions inlined into each other at one address; what is deeper is left out.
  static constexpr size_t kMaxFunctions = 256;

  // `address` is a return address as linked (Frame.pc - Module.load_bias). All functions but the last are inlined into
  // the next one. None: it was looked up, and nothing is known. What is there already stays.
  void Add(uint64_t address, const std::vector<NativeFunction>& functions);

  bool Has(uint64_t address) const { return places_.contains(address); }
  std::vector<NativeFunction> At(uint64_t address) const;  // empty where nothing is known
  size_t size() const { return places_.size(); }
  std::vector<uint64_t> Addresses() const;  // ascending

  // Takes in what is not there yet. DataLoss where the message is impossible; then nothing was taken.
  absl::Status Parse(absl::string_view serialized);
  void TakeFrom(const ModuleSymbols& other);

  std::string Serialize(uint32_t module_id = 0) const;

  // To keep it in a file and take it from there (ledger/saved/archive.h).
  template <typename Archive, typename Self>
  static void VisitFieldsOf(Archive& archive, Self& self) {
    archive(self.texts_, self.numbers_, self.functions_, self.places_);
  }

 private:
  struct Function {
    uint32_t function = 0, file = 0, line = 0;  // 1 + index of texts_, 0 = none

    template <typename Archive, typename Self>
    static void VisitFieldsOf(Archive& archive, Self& self) {
      archive(self.function, self.file, self.line);
    }
  };
  struct Place {
    uint32_t begin = 0, count = 0;  // of functions_

    template <typename Archive, typename Self>
    static void VisitFieldsOf(Archive& archive, Self& self) {
      archive(self.begin, self.count);
    }
  };
  uint32_t Number(absl::string_view raw);
  std::string Text(uint32_t number) const { return number == 0 ? "" : texts_[number - 1]; }

  std::vector<std::string> texts_;
  absl::flat_hash_map<std::string, uint32_t> numbers_;
  std::vector<Function> functions_;
  absl::flat_hash_map<uint64_t, Place> places_;  // by address
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_MODULE_SYMBOLS_H_
