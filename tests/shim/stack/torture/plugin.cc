// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A library that calls back from two frames. Built twice, with frames of different size and all else equal to the byte,
// so that the two have the same return addresses where they are loaded at the same place.

#ifndef PLUGIN_FRAME
#error "bytes of the frames: 8 more than a multiple of 16, and at least 136"
#endif

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

// The long form of sub and add whatever the number is, and tables that say where the caller's address is.
#define FRAME(name, call)                                                                                            \
  __asm__(".text\n.globl " name "\n.type " name ", @function\n" name                                                 \
          ":\n.cfi_startproc\n"                                                                                      \
          "sub $" TEXT(PLUGIN_FRAME) ", %rsp\n.cfi_adjust_cfa_offset " TEXT(PLUGIN_FRAME) "\n" call "\nadd $" TEXT(  \
              PLUGIN_FRAME) ", %rsp\n.cfi_adjust_cfa_offset -" TEXT(PLUGIN_FRAME) "\nret\n.cfi_endproc\n.size " name \
                                                                                  ", .-" name "\n")

FRAME("PluginInner", "call *%rdi");
FRAME("PluginOuter", "call PluginInner");
