/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * dlsym and dlvsym. A name that we do not wrap is passed on by a jump, not a call: the loader reads the return address
 * to know who asks (RTLD_NEXT, RTLD_DEFAULT), and it must see the true caller.
 *
 *   void* GpumemDlsymFilter(void* handle, const char* name, const char* version, const void* caller): where to jump to
 *   with the arguments as they came. That is the real dlsym, or our own answering function of the same signature.
 */
        .text

        .macro INTERPOSE name filter
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        movq    24(%rsp), %rcx
        call    \filter
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        jmpq    *%rax
        .cfi_endproc
        .size   \name, . - \name
        .endm

        INTERPOSE dlsym  GpumemDlsymFilter
        INTERPOSE dlvsym GpumemDlvsymFilter

        .section .note.GNU-stack, "", @progbits
