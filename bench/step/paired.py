# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""paired.py WHAT BATCH LENGTH SECONDS: trains the GPT of examples/train_gpt.py in blocks of steps, with something on in one of three blocks.

WHAT is `recorder` (the process runs under it: it records, or is paused) or `history` (PyTorch's own, with all stacks). The blocks of a round stand in
random order; the first steps of each are dropped, since they pay for the change. The last line is JSON: for each round the median step of the block
that had it on and of the two that had not, in milliseconds.
"""

import json
import pathlib
import random
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "python")]

import torch  # noqa: E402
import train_gpt  # noqa: E402

import gpumemshim  # noqa: E402

WARM_UP_STEPS = 10
DROPPED_STEPS = 2
BLOCK_S = 0.25
BLOCK_STEPS = (4, 30)  # at least and at most


def switch_recorder(on):
    (gpumemshim.resume if on else gpumemshim.pause)()
    if gpumemshim.recording() != on:
        sys.exit("paired.py: the recorder does not do as it is asked; is libgpumemshim.so preloaded?")


def switch_history(on):
    if on:
        torch.cuda.memory._record_memory_history(stacks="all", max_entries=1_000_000)
    else:
        torch.cuda.memory._record_memory_history(None)


SWITCHES = {"recorder": switch_recorder, "history": switch_history}


def training(batch, length):
    """A function that takes a step and waits for the device."""
    torch.manual_seed(0)
    config = train_gpt.Config(length=length)
    with torch.device("cuda"):
        model = train_gpt.GPT(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    inputs, targets = train_gpt.random_batch(config, batch, "cuda")

    def step():
        started = time.perf_counter()
        train_gpt.train_step(model, optimizer, inputs, targets)
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - started)

    return step


def block(step, switch, on, count):
    switch(on)
    for _ in range(DROPPED_STEPS):
        step()
    return statistics.median(step() for _ in range(count))


def main():
    what, (batch, length), seconds = sys.argv[1], map(int, sys.argv[2:4]), float(sys.argv[4])
    step, switch, order = training(batch, length), SWITCHES[what], random.Random(0)
    warm = [step() for _ in range(WARM_UP_STEPS)]
    least, most = BLOCK_STEPS
    count = max(least, min(most, int(1e3 * BLOCK_S / warm[-1])))
    rounds, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        means = {"on": [], "off": []}
        for mode in order.sample(["on", "off", "off"], 3):
            means[mode].append(block(step, switch, mode == "on", count))
        rounds.append({"on": means["on"][0], "off": means["off"]})
    print(json.dumps({"what": what, "device": torch.cuda.get_device_name(0), "steps_a_block": count, "rounds": rounds}))


if __name__ == "__main__":
    main()
