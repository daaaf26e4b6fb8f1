/* SPDX-License-Identifier: Apache-2.0
   SPDX-FileCopyrightText: The gpumemshim authors

   Files as bytes of the program: embedded.h. */
        .macro embed name, path
        .global gpumem_plan_\name\()_begin, gpumem_plan_\name\()_end
gpumem_plan_\name\()_begin:
        .incbin "\path"
gpumem_plan_\name\()_end:
        .endm

        .section .rodata
        embed devices, GPUMEM_PLAN_DEVICES
        embed injected_script, GPUMEM_PLAN_INJECTED_SCRIPT
        embed fork_server, GPUMEM_PLAN_FORK_SERVER
        embed fake_ranks, GPUMEM_PLAN_FAKE_RANKS
        embed launchers, GPUMEM_PLAN_LAUNCHERS
        embed values, GPUMEM_PLAN_VALUES
        embed device_bytes, GPUMEM_PLAN_DEVICE_BYTES
        embed observed_operators, GPUMEM_PLAN_OBSERVED_OPERATORS
        embed truths, GPUMEM_PLAN_TRUTHS
        embed draws, GPUMEM_PLAN_DRAWS
        embed routing, GPUMEM_PLAN_ROUTING
        embed decisions, GPUMEM_PLAN_DECISIONS
        embed compared, GPUMEM_PLAN_COMPARED
        embed loop_bounds, GPUMEM_PLAN_LOOP_BOUNDS
        embed changes, GPUMEM_PLAN_CHANGES
        embed change, GPUMEM_PLAN_CHANGE
        embed optimizer_changes, GPUMEM_PLAN_OPTIMIZER_CHANGES
        embed accumulation, GPUMEM_PLAN_ACCUMULATION
        embed checkpointing, GPUMEM_PLAN_CHECKPOINTING
        embed chunked_loss, GPUMEM_PLAN_CHUNKED_LOSS
        embed inference_changes, GPUMEM_PLAN_INFERENCE_CHANGES
        embed offload, GPUMEM_PLAN_OFFLOAD
        .section .note.GNU-stack, "", @progbits
