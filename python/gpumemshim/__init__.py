# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""gpumemshim, the recorder of GPU memory, from Python: what a program says about itself, recording parts of it, and what traces say.

    import gpumemshim

    for batch in loader:
        gpumemshim.step()
        with gpumemshim.stage("forward"):
            loss = model(batch)
        gpumemshim.mark("loss known", loss=loss.item())
    gpumemshim.snapshot("trained")

Then `gpumemshim steps`, `gpumemshim stages`, `gpumemshim at trained`. Where libgpumemshim.so is not loaded each of these calls is a test of one variable, and does
nothing. None of them raises for what the recorder does or does not do; every call may be made from any thread. Functions that torch.compile compiles are
left where one of these is called in them: call them around.

    with gpumemshim.record() as recording:      # also without LD_PRELOAD
        train()
    print(recording, recording.peak().categories)

    gpumemshim.report("run.gmtrace")["verdict"]
    gpumemshim.steps("run.gmtrace").to_pandas()

    gpumemshim.on_forecast(lambda forecast: print(forecast.sentence))      # when memory is about to run out

These ask the program `gpumemshim`, and raise GpumemError where there is no answer. Nothing is imported but the standard library, and of this second half
nothing before it is used.
"""

import importlib

from gpumemshim._live import GradientStats, LiveTensor, gradients, tensors
from gpumemshim._annotations import mark, pause, recording, resume, snapshot, stage, step, tag
from gpumemshim._attach import attach
from gpumemshim._error import GpumemError
from gpumemshim._watch import Change, watch

_LATER = {
    "_answers": ("Peak", "diff", "html", "leaks", "peak", "report", "sql", "steps"),
    "_forwards": ("forwards",),
    "_forecast": ("Forecast", "ForecastWatch", "on_forecast"),
    "_record": ("Recording", "record"),
    "_tables": ("Table",),
}
_PLACES = {name: module for module, names in _LATER.items() for name in names}

__all__ = ["Change", "GpumemError", "GradientStats", "LiveTensor", "attach", "gradients", "mark", "pause", "recording", "resume", "snapshot", "stage", "step", "tag", "tensors", "watch", *sorted(_PLACES)]
__version__ = "0.1.0"


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError(f"module 'gpumemshim' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"gpumemshim.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_PLACES})


def load_ipython_extension(shell):
    """`%load_ext gpumemshim` gives IPython and Jupyter the magics %gpumemshim and %%gpumemshim."""
    from gpumemshim import _notebook

    _notebook.load(shell)
