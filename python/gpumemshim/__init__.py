# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a program says to gpumemshim, the recorder of GPU memory, about itself.

Where libgpumemshim.so is not preloaded each call is a test of one variable, and does nothing. Nothing is imported but the standard library; no call
raises for what the recorder does or does not do; every call may be made from any thread.

    import gpumemshim

    for batch in loader:
        gpumemshim.step()
        with gpumemshim.stage("forward"):
            loss = model(batch)
        gpumemshim.mark("loss known", loss=loss.item())
    gpumemshim.snapshot("trained")

Then `gpumem steps`, `gpumem stages`, `gpumem at trained`. Functions that torch.compile compiles are left where one of these is called in them: call
them around.
"""

from gpumemshim._live import GradientStats, LiveTensor, gradients, tensors
from gpumemshim._annotations import mark, pause, recording, resume, snapshot, stage, step, tag
from gpumemshim._attach import attach
from gpumemshim._watch import Change, watch

__all__ = ["Change", "GradientStats", "LiveTensor", "attach", "gradients", "mark", "pause", "recording", "resume", "snapshot", "stage", "step", "tag", "tensors", "watch"]
__version__ = "0.1.0"
