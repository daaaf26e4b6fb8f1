# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What `gpumemshim sweep` is tried on. Each run adds a JSON line to $RUNS that says how it finds itself.

    python swept.py [CASE] --batch-size N [--width W] [--double]
"""

import argparse
import json
import os
import signal
import sys
import time

import torch
from torch import nn

import swept_parts

if os.environ.get("AWKWARD"):
    import awkward_import  # noqa: F401


def note(**words):
    if "RUNS" in os.environ:
        with open(os.environ["RUNS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(words) + "\n")


def find_itself(arguments):
    main = sys.modules["__main__"]
    note(
        batch_size=arguments.batch_size,
        parent=os.getppid(),
        argv=sys.argv,
        main=main.__name__,
        file=main.__file__,
        here=main is sys.modules[__name__],
        path=sys.path[0],
        imported_with=swept_parts.WORDS,
        directory=os.getcwd(),
        group=os.getpgid(0) == os.getpid(),
        own_variables=sorted(name for name in os.environ if name.startswith("GPUMEMSHIM_SWEEP")),
        standard_input=sys.stdin.read(),
        colour=os.environ.get("COLOUR"),
        initialized=torch.cuda.is_initialized(),
    )


def train(arguments):
    width = arguments.width * (2 if arguments.double else 1)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(50):
        model(torch.randn(arguments.batch_size, width, device="cuda")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def mixed(arguments):
    """The batch size says what becomes of it."""
    if arguments.batch_size == 1:
        raise ValueError("a batch of one is not a batch")
    if arguments.batch_size == 2:
        torch.zeros(1, device="cuda")
        os.kill(os.getpid(), signal.SIGSEGV)
    if arguments.batch_size == 3:
        torch.zeros(1, device="cuda")
        while True:
            time.sleep(1)
    if arguments.batch_size == 4:
        wanted = torch.zeros(1, device="cuda")
        while not wanted.item():
            pass
    if arguments.batch_size == 5:
        return
    train(arguments)


def workers(arguments):
    """Batches come from other processes."""
    data = torch.utils.data.TensorDataset(torch.zeros(64, arguments.width))
    model = nn.Linear(arguments.width, arguments.width).cuda()
    optimizer = torch.optim.SGD(model.parameters())
    for _ in range(4):
        for (batch,) in torch.utils.data.DataLoader(data, batch_size=arguments.batch_size, num_workers=2):
            model(batch.cuda()).sum().backward()
        optimizer.step()


def held(arguments):
    """Large batches wait for the file $HELD."""
    torch.zeros(1, device="cuda")
    while arguments.batch_size > 3 and not os.path.exists(os.environ["HELD"]):
        time.sleep(0.02)
    train(arguments)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("case", nargs="?", default="train")
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--token")
    arguments = parser.parse_args()
    find_itself(arguments)
    {"train": train, "mixed": mixed, "workers": workers, "held": held}[arguments.case](arguments)
