# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""GPU memory in the tools that trainings log to: callbacks for Transformers and Lightning, and sinks for TensorBoard, W&B, MLflow, OpenTelemetry, Accelerate.

    from gpumemshim.integrations.transformers import GpuMemoryCallback
    trainer = Trainer(..., callbacks=[GpuMemoryCallback(to=[tensorboard("runs/memory")])])

    from gpumemshim.integrations import StepScalars, wandb
    with StepScalars(every=100, to=[wandb()]) as memory:
        for step, batch in enumerate(loader):
            train(batch)
            memory.step(step)

Every so many steps the sinks get the peak, the end and the growth of that stretch, for each GPU: exact, from the trace. gpumemshim works it out beside the
training, in a process of its own. Nothing waits for it; where it is far behind, stretches become longer.
"""

from gpumemshim.integrations._scalars import StepScalars
from gpumemshim.integrations._sinks import accelerate, mlflow, open_telemetry, tensorboard, wandb

__all__ = ["StepScalars", "accelerate", "mlflow", "open_telemetry", "tensorboard", "wandb"]
