/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The gpumemshim authors

   Files as bytes of the program: font.h. */
        .section .rodata
        .global gpumem_font_regular_begin, gpumem_font_regular_end, gpumem_font_bold_begin, gpumem_font_bold_end
gpumem_font_regular_begin:
        .incbin GPUMEM_FONT_REGULAR
gpumem_font_regular_end:
gpumem_font_bold_begin:
        .incbin GPUMEM_FONT_BOLD
gpumem_font_bold_end:
        .section .note.GNU-stack, "", @progbits
