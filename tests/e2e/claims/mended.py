# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Runs a program with a remedy applied, as somebody would who was told of it, and prints PyTorch's own peaks as JSON.

    python mended.py REMEDY PROGRAM.py [ARGUMENT...]

Remedies have the names that answers give them (`kind` of remedies, `change` of what_if), for all programs alike. `own` runs a program as it mends itself: its last argument is "mended".
"""

import atexit
import json
import os
import runpy
import sys


def gradients_in_forward():
    """optimizer.zero_grad() right after each step."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(lambda optimizer, *_: optimizer.zero_grad())


def foreach_temporaries():
    """fused=True for each optimizer that has it."""
    for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad):

        def fused(self, *arguments, init=kind.__init__, **options):
            init(self, *arguments, **{"fused": True, **options})

        kind.__init__ = fused


def one_pool():
    """All graphs share one pool."""
    pool, init = torch.cuda.graph_pool_handle(), torch.cuda.graph.__init__
    torch.cuda.graph.__init__ = lambda self, graph, *_, **options: init(self, graph, **{**options, "pool": pool})


def one_stream():
    """Each line that takes a stream takes it once."""
    streams, Stream = {}, torch.cuda.Stream

    def taken(*arguments, **options):
        caller = sys._getframe(1)
        place = (caller.f_code.co_filename, caller.f_lineno)
        if place not in streams:
            streams[place] = Stream(*arguments, **options)
        return streams[place]

    torch.cuda.Stream = taken


def nothing():
    """The remedy is in the environment, or in the program."""


REMEDIES = {"none": nothing, "own": nothing, "expandable_segments": nothing, **{remedy.__name__: remedy for remedy in (gradients_in_forward, foreach_temporaries, one_pool, one_stream)}}


if __name__ == "__main__":
    remedy, program, *arguments = sys.argv[1:]
    if remedy == "expandable_segments":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    REMEDIES[remedy]()
    atexit.register(lambda: print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()})))
    sys.path.insert(0, os.path.dirname(program))
    sys.argv = [program, *arguments, *(["mended"] if remedy == "own" else [])]
    runpy.run_path(program, run_name="__main__")
