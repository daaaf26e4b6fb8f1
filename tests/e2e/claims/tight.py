# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs on a GPU that is nearly full, or too small: free memory in pieces, caches, limits, and requests that fail. Written after the code; docs/claims.md says what their first run was told."""

import random

import torch
from torch import nn

from registry import main, program

MIB = 1 << 20


def room(mebibytes):
    return torch.empty(mebibytes * MIB, dtype=torch.uint8, device="cuda")


def dense(width=1024, depth=4):
    return nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(depth)]).cuda()


def step(model, optimizer, rows):
    optimizer.zero_grad()
    model(torch.randn(rows, model[0].in_features, device="cuda")).square().mean().backward()
    optimizer.step()


# Nearly full.


@program("fragmented", cause="expandable_segments", also="(allocator)", capacity_mb=3000)
def batches_that_get_a_little_longer():
    sizes = (150, 170, 190, 210, 230, 250, 270, 290, 310, 330)
    for size in (*sizes, *random.choices(sizes, k=40)):
        batch = room(size)
        del batch


@program("fragmented", cause="expandable_segments", also=("(allocator)", "return torch.empty("), keeper="RESULT", capacity_mb=1550)
def results_that_lie_in_what_was_free():
    """Each result is cut from the large segment that a temporary left, which is then too small for the next one."""
    results = []
    for size in range(60, 140, 8):
        temporary = room(size)
        del temporary
        results.append(room(4))
    for _ in range(40):
        room(56)
    return results


@program("sound", capacity_mb=1500)
def a_training_whose_batches_fill_the_device():
    model = dense(1024, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(12):
        step(model, optimizer, 15000)


@program("sound", capacity_mb=1900)
def a_large_table_that_is_let_go_of_before_the_training():
    """What it left is cached, in one piece, and serves all that follows."""
    table = room(1300)
    del table
    model = dense(1024, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(12):
        step(model, optimizer, 4096)


@program("sound", capacity_mb=1160)
def a_pool_that_takes_all_at_once():
    pool = room(560)
    model = dense(256, 2).eval()
    with torch.no_grad():
        for request in range(40):
            pool[request * MIB : (request + 1) * MIB] = 1
            model(torch.randn(64, 256, device="cuda"))


# Too small.


@program("oom", line="answers.append(", keeper="answers", cause="grow|answers", never="fragmentation:|checkpoint", capacity_mb=1200)
def answers_until_none_fits():
    model, answers = dense(1024, 2).eval(), []
    with torch.no_grad():
        while True:
            answers.append(model(torch.randn(4096, 1024, device="cuda")))


@program("oom", cause="limit", never="fragmentation:|other processes", capacity_mb=4000)
def a_limit_of_the_program_s_own():
    torch.cuda.set_per_process_memory_fraction(0.25)
    model = dense(1024, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for rows in (8192, 16384, 32768, 65536):
        step(model, optimizer, rows)


@program("oom", cause="optimizer", never="fragmentation:|checkpoint|smaller batch", capacity_mb=1300)
def states_of_a_first_step():
    model = dense(2048, 16)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(4):
        step(model, optimizer, 64)


@program("oom", cause="recompute|activations|checkpoint", never="fragmentation:", capacity_mb=1700)
def activations_of_a_large_batch():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024, bias=False), nn.GELU()) for _ in range(12)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for rows in (1024, 2048, 16384):
        optimizer.zero_grad()
        model(torch.randn(rows, 1024, device="cuda")).square().mean().backward()
        optimizer.step()


@program("oom", cause="live|weights|parameter|smaller", never="fragmentation:|checkpoint", capacity_mb=1024)
def a_model_that_does_not_fit():
    layers = nn.ModuleList()
    for _ in range(40):
        layers.append(nn.Linear(2048, 2048, bias=False, device="cuda"))


@program("oom", line="failed.append(", keeper="failed __traceback__", cause="traceback|exception|attempt", never="checkpoint|fragmentation:", capacity_mb=1100)
def errors_that_are_kept_until_the_end(mended):
    failed = []

    def attempt(rows):
        x = torch.randn(rows, 4096, device="cuda")
        return torch.cat([x, x, x])

    for rows in (24000, 12000, 9000, 7000):
        try:
            attempt(rows)
        except torch.cuda.OutOfMemoryError as error:
            failed.append(str(error) if mended else error)
    return failed


if __name__ == "__main__":
    main()
