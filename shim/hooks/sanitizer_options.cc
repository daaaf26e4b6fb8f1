// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// AddressSanitizer as a shared library insists on being the first one in its process, since what stands before it might
// take malloc away from it, and ends the program where a preload comes first. We define nothing that it intercepts, so
// our place does no harm, and this hook of its own says so. A program with hooks of its own keeps them; ASAN_OPTIONS
// come after both. Nobody else asks for this name.
//
// Thread-safety: constant data. Called before we are relocated, perhaps: touches nothing else.

extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();

const char* __asan_default_options() { return "verify_asan_link_order=0"; }
