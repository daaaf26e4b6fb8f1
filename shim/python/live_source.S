/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * The package's _holders.py and _live.py, and what else `gpumemshim ctl` may ask behind it, as a string of the library.
 */
        .section .rodata
        .hidden gpumem_live_source
        .globl  gpumem_live_source
gpumem_live_source:
        .incbin GPUMEM_HOLDERS
        .incbin GPUMEM_LIVE
        .incbin GPUMEM_CONSOLE
        .byte   0
        .section .note.GNU-stack, "", @progbits
