# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Records its beginning, before CUDA is used, and goes on; prints as a JSON line what that was and whether it is still recorded. With or without the
recorder preloaded."""

import json

import gpumemshim
import torch
from gpumemshim.integrations import StepScalars

MIB = 1 << 20
rows = []


def mib(count):
    return torch.empty(count * MIB, dtype=torch.uint8, device="cuda")


with gpumemshim.record("early.gmtrace", name="unused") as unused:
    pass
with StepScalars(every=1, to=[lambda step, scalars: rows.append([step, scalars["gpu0/peak_bytes"], scalars["gpu0/grown_bytes"]])]) as scalars:
    with gpumemshim.record(name="early") as early:
        kept = mib(16)
        mib(64)
    scalars.step(1)
after = gpumemshim.recording()
mib(256)
sizes = [early.start_bytes, early.peak_bytes, early.end_bytes]
print(json.dumps({"sizes": sizes, "rows": rows, "after": after, "unused": str(unused), "changes": [early.changes()[side]["allocated_bytes"] for side in "ab"]}))
