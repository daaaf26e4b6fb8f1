# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""For Lightning's Trainer; of `lightning` and of `pytorch_lightning`, whichever is there."""

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from gpumemshim.integrations._scalars import StepScalars


class GpuMemoryCallback(Callback):
    """Peak, end and growth of GPU memory every so many steps, to the Trainer's loggers and to sinks.

        trainer = Trainer(callbacks=[GpuMemoryCallback()])

    every: optimizer steps; default: the Trainer's log_every_n_steps. output, optional: as of StepScalars.
    """

    def __init__(self, every=None, to=(), output=None, optional=False):
        self.every, self.to, self.output, self.optional, self.scalars, self.last = every, list(to), output, optional, None, 0

    def on_train_start(self, trainer, module):
        def into_loggers(step, scalars):
            for logger in trainer.loggers:
                logger.log_metrics(scalars, step=step)

        self.scalars, self.last = StepScalars(self.every or trainer.log_every_n_steps or 50, [into_loggers, *self.to], self.output, self.optional), trainer.global_step

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if self.scalars is not None and trainer.global_step != self.last:
            self.last = trainer.global_step
            self.scalars.step(trainer.global_step)

    def on_train_end(self, trainer, module):
        self.close()

    def on_exception(self, trainer, module, exception):
        self.close()

    def close(self):
        if self.scalars is not None:
            self.scalars.close()
            self.scalars = None
