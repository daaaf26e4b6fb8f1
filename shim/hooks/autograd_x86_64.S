/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: The gpumemshim authors
 *
 * void torch::autograd::Engine::evaluate_function(std::shared_ptr<GraphTask>&, Node*, InputBuffer&,
 *                                                 const std::shared_ptr<ReadyQueue>&)
 *
 * Brackets the engine's evaluation of one node. Five pointers go through as they came. In assembly for two reasons: an
 * exception must pass through and end the bracket without a C++ runtime of ours (the personality routine below does no
 * more than that), and captured stacks end at a return address that is known, GpumemNodeReturn.
 *
 *   void* GpumemEnterNode(const void* node, uint32_t* before): the engine's function
 *   void GpumemLeaveNode(const uint32_t* before)
 */
        .text
        .globl  _ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE
        .type   _ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE, @function
        .hidden GpumemNodeReturn
        .globl  GpumemNodeReturn
        .hidden GpumemNodePersonality
        .p2align 4
_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE:
        .cfi_startproc
        .cfi_personality 0x1b, GpumemNodePersonality
        endbr64
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset 6, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register 6
        subq    $48, %rsp
        movq    %rdi, -8(%rbp)
        movq    %rsi, -16(%rbp)
        movq    %rdx, -24(%rbp)
        movq    %rcx, -32(%rbp)
        movq    %r8, -40(%rbp)
        movq    %rdx, %rdi
        leaq    -48(%rbp), %rsi
        call    GpumemEnterNode
        movq    -8(%rbp), %rdi
        movq    -16(%rbp), %rsi
        movq    -24(%rbp), %rdx
        movq    -32(%rbp), %rcx
        movq    -40(%rbp), %r8
        call    *%rax
GpumemNodeReturn:
        leaq    -48(%rbp), %rdi
        call    GpumemLeaveNode
        leave
        .cfi_def_cfa 7, 8
        ret
        .cfi_endproc
        .size   _ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE, . - _ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE

        .section .note.GNU-stack, "", @progbits
