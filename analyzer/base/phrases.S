/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The gpumemshim authors

   The tables of phrases as bytes of the program. */
        .section .rodata
        .global gpumem_phrases_zh_begin, gpumem_phrases_zh_end
gpumem_phrases_zh_begin:
        .incbin GPUMEM_ZH_ANSWERS
        .incbin GPUMEM_ZH_CHECKS
        .incbin GPUMEM_ZH_HELP
        .incbin GPUMEM_ZH_PAGES
        .incbin GPUMEM_ZH_PLANS
        .incbin GPUMEM_ZH_RECORDER
gpumem_phrases_zh_end:
        .section .note.GNU-stack, "", @progbits
