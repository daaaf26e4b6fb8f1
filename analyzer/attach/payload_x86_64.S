/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * What `gpumemshim attach` writes behind the code of one of the program's objects (stopped_thread.h). Position-independent. Nothing in it is
 * written to when it runs, since it lies in code; nobody has to come back for it, since it ends by itself.
 *
 *   entry:   a thread of the program, stopped at a safe point, goes on here: keeps all registers, makes a thread, goes on where it was
 *   thread:  dlopen(library), then gpumemshim_attach_v1(settings)
 */
        .section .rodata
        .globl  gpumem_payload_start, gpumem_payload_entry, gpumem_payload_texts
        .hidden gpumem_payload_start, gpumem_payload_entry, gpumem_payload_texts
        .balign 16
gpumem_payload_start:
resume:         .quad 0         /* where the thread goes on */
create:         .quad 0         /* pthread_create, pthread_self, pthread_detach, dlopen, dlsym */
self:           .quad 0
detach:         .quad 0
open:           .quad 0
symbol:         .quad 0
state_bytes:    .quad 0         /* of XSAVE's area */
library:        .quad 0         /* addresses of the texts below */
settings:       .quad 0
all_signals:    .quad -1
entry_name:     .asciz "gpumemshim_attach_v1"

        .balign 16
gpumem_payload_entry:
        lea     -128(%rsp), %rsp        /* the red zone */
        pushfq
        push    %rax
        push    %rcx
        push    %rdx
        push    %rbx
        push    %rbp
        push    %rsi
        push    %rdi
        push    %r8
        push    %r9
        push    %r10
        push    %r11
        push    %r12
        push    %r13
        push    %r14
        push    %r15
        mov     %rsp, %rbp
        cld
        sub     state_bytes(%rip), %rsp
        and     $-64, %rsp
        mov     %rsp, %rbx
        lea     512(%rbx), %rdi         /* XSAVE's header must be zero */
        xor     %eax, %eax
        mov     $8, %ecx
        rep stosq
        mov     $-1, %eax
        mov     $-1, %edx
        xsave64 (%rbx)
        sub     $16, %rsp               /* the old mask of signals, and the thread */
        xor     %edi, %edi              /* SIG_BLOCK; the new thread begins with it */
        lea     all_signals(%rip), %rsi
        mov     %rsp, %rdx
        mov     $8, %r10d
        mov     $14, %eax               /* rt_sigprocmask */
        syscall
        lea     8(%rsp), %rdi
        xor     %esi, %esi
        lea     thread(%rip), %rdx
        xor     %ecx, %ecx
        call    *create(%rip)
        mov     $2, %edi                /* SIG_SETMASK */
        mov     %rsp, %rsi
        xor     %edx, %edx
        mov     $8, %r10d
        mov     $14, %eax
        syscall
        mov     $-1, %eax
        mov     $-1, %edx
        xrstor64 (%rbx)
        mov     %rbp, %rsp
        pop     %r15
        pop     %r14
        pop     %r13
        pop     %r12
        pop     %r11
        pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
        pop     %rsi
        pop     %rbp
        pop     %rbx
        pop     %rdx
        pop     %rcx
        pop     %rax
        popfq
        lea     128(%rsp), %rsp
        jmp     *resume(%rip)

        .balign 16
thread:
        endbr64
        push    %rbx
        call    *self(%rip)
        mov     %rax, %rdi
        call    *detach(%rip)
        mov     library(%rip), %rdi
        mov     $2, %esi                /* RTLD_NOW */
        call    *open(%rip)
        test    %rax, %rax
        jz      1f
        mov     %rax, %rdi
        lea     entry_name(%rip), %rsi
        call    *symbol(%rip)
        test    %rax, %rax
        jz      1f
        mov     settings(%rip), %rdi
        call    *%rax
1:      xor     %eax, %eax
        pop     %rbx
        ret
        .balign 8
gpumem_payload_texts:
        .section .note.GNU-stack, "", @progbits
