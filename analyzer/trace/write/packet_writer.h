// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Packets for a trace that is written anew from an old one. Pure functions.
//
//   for (const std::string& packet : SymbolPackets(module_id, symbols, sequence)) WriteAll(descriptor, packet);

#ifndef GPUMEM_ANALYZER_TRACE_WRITE_PACKET_WRITER_H_
#define GPUMEM_ANALYZER_TRACE_WRITE_PACKET_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gpumem/trace.pb.h"
#include "trace/module_symbols.h"

namespace gpumem {

namespace trace {
class Packet;
}

// The body of a Compressed packet that holds `packet` alone: a Trace without frames, as one LZ4 block.
std::string CompressedBody(const trace::Packet& packet);

// The names of a module as definitions: whole packets, compressed, numbered from `sequence` on. None for no addresses.
std::vector<std::string> SymbolPackets(uint32_t module_id, const ModuleSymbols& symbols, uint64_t sequence);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_WRITE_PACKET_WRITER_H_
