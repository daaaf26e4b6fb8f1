/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The gpumemshim authors

   The built page as bytes of the program. */
        .section .rodata
        .global gpumem_report_page_begin, gpumem_report_page_end
gpumem_report_page_begin:
        .incbin GPUMEM_REPORT_PAGE
gpumem_report_page_end:
        .section .note.GNU-stack, "", @progbits
