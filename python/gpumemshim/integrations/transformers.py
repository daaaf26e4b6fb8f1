# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""For the Trainer of Hugging Face's Transformers, and TRL's, which are its children."""

from transformers import TrainerCallback

from gpumemshim.integrations._scalars import StepScalars


class GpuMemoryCallback(TrainerCallback):
    """Peak, end and growth of GPU memory every so many steps, to sinks and into state.log_history as "gpu0/peak_bytes" and so on.

        trainer = Trainer(..., callbacks=[GpuMemoryCallback(to=[tensorboard("runs/memory")])])

    every: steps; default: the Trainer's logging_steps. output, optional: as of StepScalars.
    """

    def __init__(self, every=None, to=(), output=None, optional=False):
        self.every, self.to, self.output, self.optional, self.scalars = every, list(to), output, optional, None

    def on_train_begin(self, args, state, control, **_):
        every = self.every or (int(args.logging_steps) if args.logging_steps >= 1 else 100)

        def into_history(step, scalars):
            state.log_history.append({"step": step, **scalars})

        self.scalars = StepScalars(every, [into_history, *self.to], self.output, self.optional)

    def on_step_end(self, args, state, control, **_):
        if self.scalars is not None:
            self.scalars.step(state.global_step)

    def on_train_end(self, args, state, control, **_):
        if self.scalars is not None:
            self.scalars.close()
            self.scalars = None
