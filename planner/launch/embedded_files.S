/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The gpumemshim authors

   Files as bytes of the program: embedded.h. */
        .section .rodata
        .global gpumem_plan_devices_begin, gpumem_plan_devices_end
        .global gpumem_plan_injected_script_begin, gpumem_plan_injected_script_end
        .global gpumem_plan_fake_ranks_begin, gpumem_plan_fake_ranks_end
gpumem_plan_devices_begin:
        .incbin GPUMEM_PLAN_DEVICES
gpumem_plan_devices_end:
gpumem_plan_injected_script_begin:
        .incbin GPUMEM_PLAN_INJECTED_SCRIPT
gpumem_plan_injected_script_end:
gpumem_plan_fake_ranks_begin:
        .incbin GPUMEM_PLAN_FAKE_RANKS
gpumem_plan_fake_ranks_end:
        .global gpumem_plan_fork_server_begin, gpumem_plan_fork_server_end
gpumem_plan_fork_server_begin:
        .incbin GPUMEM_PLAN_FORK_SERVER
gpumem_plan_fork_server_end:
        .global gpumem_plan_values_begin, gpumem_plan_values_end
gpumem_plan_values_begin:
        .incbin GPUMEM_PLAN_VALUES
gpumem_plan_values_end:
        .global gpumem_plan_changes_begin, gpumem_plan_changes_end
gpumem_plan_changes_begin:
        .incbin GPUMEM_PLAN_CHANGES
gpumem_plan_changes_end:
        .global gpumem_plan_chunked_loss_begin, gpumem_plan_chunked_loss_end
gpumem_plan_chunked_loss_begin:
        .incbin GPUMEM_PLAN_CHUNKED_LOSS
gpumem_plan_chunked_loss_end:
        .section .note.GNU-stack, "", @progbits
