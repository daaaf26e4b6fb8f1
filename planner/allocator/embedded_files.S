/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The gpumemshim authors

   The driver as bytes of the program: replayer.cc. */
        .section .rodata
        .global gpumem_replay_driver_begin, gpumem_replay_driver_end
gpumem_replay_driver_begin:
        .incbin GPUMEM_REPLAY_DRIVER
gpumem_replay_driver_end:
        .section .note.GNU-stack, "", @progbits
