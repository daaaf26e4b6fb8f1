/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * helper.py as a string of the library.
 */
        .section .rodata
        .hidden gpumem_helper_source
        .globl  gpumem_helper_source
gpumem_helper_source:
        .incbin GPUMEM_HELPER
        .byte   0
        .section .note.GNU-stack, "", @progbits
