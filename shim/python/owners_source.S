/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * Who owns GPU memory, as a string of the library: compiled in the program when it is needed.
 */
        .section .rodata
        .hidden gpumem_owners_source
        .globl  gpumem_owners_source
gpumem_owners_source:
        .incbin GPUMEM_PLAIN
        .incbin GPUMEM_OWNER_PATHS
        .incbin GPUMEM_OWNERS
        .byte   0
        .section .note.GNU-stack, "", @progbits
