# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Training programs for the forecast's test set: some leak, some look as if they did. One is run as `programs.py NAME SEED`; without arguments the names are
printed as JSON, with whether they run out of memory if they go on.

Sizes are real, values are not (simulated CUDA computes none): nothing here is decided by a tensor's values.
"""

import gc
import json
import random
import sys

PROGRAMS = {}


def program(runs_out):
    def register(function):
        PROGRAMS[function.__name__] = function
        function.runs_out = runs_out
        return function

    return register


class Training:
    """A small model, its optimizer, and batches of any shape."""

    def __init__(self, chance, width=64):
        import torch
        from torch import nn

        self.torch, self.chance, self.width = torch, chance, width
        self.model = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def step(self, rows):
        out = self.model(self.empty(rows, self.width))
        loss = out.square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return out, loss

    def evaluate(self, rows):
        with self.torch.no_grad():
            return self.model(self.empty(rows, self.width))

    def empty(self, *shape):
        return self.torch.empty(*shape, device="cuda")


@program(False)
def steady(training, steps):
    for _ in range(steps):
        training.step(4096)


@program(False)
def batches_of_all_sizes(training, steps):
    for _ in range(steps):
        training.step(training.chance.randint(2048, 8192))


@program(False)
def evaluations_with_larger_batches(training, steps):
    every = training.chance.randint(25, 60)
    for step in range(steps):
        training.step(4096)
        if step % every == every - 1:
            for _ in range(5):
                training.evaluate(65536)


@program(False)
def larger_batches_stage_by_stage_then_no_more(training, steps):
    stages, long = training.chance.randint(3, 6), training.chance.randint(15, 30)
    for step in range(steps):
        training.step(2048 * (1 + min(stages, step // long)))


@program(False)
def sequences_that_grow_to_their_full_length(training, steps):
    warm = steps * training.chance.uniform(0.2, 0.4)
    for step in range(steps):
        training.step(int(2048 + 6144 * min(1.0, step / warm)))


@program(False)
def cycles_that_the_collector_frees(training, steps):
    """What only itself refers to stays until Python's collector runs."""
    gc.disable()
    every, size = training.chance.randint(15, 70), training.chance.randint(128, 512) << 10
    for step in range(steps):
        training.step(4096)
        loop = [training.empty(size)]
        loop.append(loop)
        del loop
        if step % every == every - 1:
            gc.collect()


@program(False)
def cycles_and_pythons_own_collector(training, steps):
    """The same by Python's thresholds: how often it runs is up to all objects of the program."""
    gc.set_threshold(training.chance.randint(300, 900), 2, 2)
    made = []
    for step in range(steps):
        training.step(4096)
        loop = [training.empty(200_000)]
        loop.append(loop)
        del loop
        made = [[] for _ in range(40)] + made[:4000]


@program(False)
def a_cache_of_limited_size(training, steps):
    cache, most = {}, training.chance.randint(40, 90)
    for _ in range(steps):
        training.step(4096)
        key = training.chance.randint(0, 100_000)
        cache[key] = training.empty(training.chance.randint(64, 512) << 10)
        if len(cache) > most:
            del cache[next(iter(cache))]


@program(False)
def a_cache_by_length(training, steps):
    cache = {}
    for _ in range(steps):
        length = training.chance.randint(1, 200)
        if length not in cache:
            cache[length] = training.empty(length << 12)
        training.step(4096)


@program(False)
def a_replay_buffer_that_fills(training, steps):
    kept, most = [], int(steps * training.chance.uniform(0.3, 0.5))
    for step in range(steps):
        training.step(4096)
        if len(kept) < most:
            kept.append(training.empty(64 << 10))
        else:
            kept[step % most] = training.empty(64 << 10)


@program(False)
def blocks_of_all_sizes_that_live_on(training, steps):
    alive = []
    for _ in range(steps):
        training.step(training.chance.randint(2048, 6144))
        alive.append(training.empty(training.chance.randint(1, 64) << 14))
        while len(alive) > 30:
            alive.pop(training.chance.randrange(len(alive)))


@program(False)
def a_metric_kept_as_a_number(training, steps):
    """A few bytes a step: it grows for ever, and never matters."""
    losses = []
    for _ in range(steps):
        losses.append(training.step(4096)[1].detach())


@program(True)
def outputs_that_are_kept(training, steps):
    kept = []
    for _ in range(steps):
        kept.append(training.step(4096)[0].detach())


@program(True)
def losses_with_their_graphs(training, steps):
    total = 0
    for _ in range(steps):
        out = training.model(training.empty(1024, training.width))
        total = total + out.mean()
        training.step(4096)


@program(True)
def one_in_ten_is_kept(training, steps):
    kept = []
    for _ in range(steps):
        training.step(training.chance.randint(3500, 4500))
        if training.chance.random() < 0.1:
            kept.append(training.empty(4 << 20))


@program(True)
def predictions_of_each_evaluation(training, steps):
    kept, every = [], training.chance.randint(8, 15)
    for step in range(steps):
        training.step(4096)
        if step % every == every - 1:
            kept.extend(training.evaluate(4096) for _ in range(5))


@program(True)
def a_leak_beside_the_collector(training, steps):
    gc.disable()
    kept, every = [], training.chance.randint(10, 25)
    for step in range(steps):
        training.step(4096)
        kept.append(training.empty(256 << 10))
        loop = [training.empty(512 << 10)]
        loop.append(loop)
        del loop
        if step % every == every - 1:
            gc.collect()


@program(True)
def a_cache_without_a_limit(training, steps):
    cache = {}
    for step in range(steps):
        training.step(training.chance.randint(3000, 5000))
        cache[step, training.chance.random()] = training.empty(training.chance.randint(64, 512) << 10)


@program(True)
def sequences_that_grow_for_ever(training, steps):
    for step in range(steps):
        training.step(2048 + 64 * step)


@program(True)
def a_leak_that_begins_in_the_middle(training, steps):
    kept = []
    for step in range(steps):
        training.step(training.chance.randint(3900, 4100))
        if step > steps * 0.4:
            kept.append(training.empty(512 << 10))


@program(True)
def a_history_that_is_copied(training, steps):
    """The rate grows by the step: each keeps a little more than the one before."""
    kept = []
    for step in range(steps):
        training.step(4096)
        kept.append(training.empty((64 + 2 * step) << 10))


STEPS = 240


def main():
    if len(sys.argv) < 3:
        print(json.dumps({name: function.runs_out for name, function in PROGRAMS.items()}))
        return
    chance = random.Random(f"{sys.argv[1]} {sys.argv[2]}")
    PROGRAMS[sys.argv[1]](Training(chance), STEPS)


if __name__ == "__main__":
    main()
