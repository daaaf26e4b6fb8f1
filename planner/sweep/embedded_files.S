/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The gpumemshim authors

   Files as bytes of the program: spec.h. */
        .section .rodata
        .global gpumem_sweep_example_begin, gpumem_sweep_example_end
gpumem_sweep_example_begin:
        .incbin GPUMEM_SWEEP_EXAMPLE
gpumem_sweep_example_end:
        .section .note.GNU-stack, "", @progbits
