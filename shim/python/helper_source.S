/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * The parts of the helper, one behind the other, as a string of the library.
 */
        .section .rodata
        .hidden gpumem_helper_source
        .globl  gpumem_helper_source
gpumem_helper_source:
        .incbin GPUMEM_PLAIN
        .incbin GPUMEM_MODEL
        .incbin GPUMEM_TRAINER
        .incbin GPUMEM_GROUPS
        .incbin GPUMEM_OPTIMIZERS
        .incbin GPUMEM_GRAPHS
        .incbin GPUMEM_COMPILED
        .incbin GPUMEM_EXISTING
        .incbin GPUMEM_HELPER
        .incbin GPUMEM_GUARD
        .byte   0
        .section .note.GNU-stack, "", @progbits
