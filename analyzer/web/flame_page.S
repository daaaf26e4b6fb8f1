/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The gpumemshim authors

   The built page as bytes of the program. */
        .section .rodata
        .global gpumem_flame_page_begin, gpumem_flame_page_end
gpumem_flame_page_begin:
        .incbin GPUMEM_FLAME_PAGE
gpumem_flame_page_end:
        .section .note.GNU-stack, "", @progbits
