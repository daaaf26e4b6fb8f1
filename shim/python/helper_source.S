/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * helper.py and trainer.py, one behind the other, as a string of the library.
 */
        .section .rodata
        .hidden gpumem_helper_source
        .globl  gpumem_helper_source
gpumem_helper_source:
        .incbin GPUMEM_HELPER
        .incbin GPUMEM_HELPER_TRAINER
        .byte   0
        .section .note.GNU-stack, "", @progbits
