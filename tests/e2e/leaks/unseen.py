# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""More programs, written after the code was done: docs/leaks.md says what their first run found."""

import ctypes
import math
import random
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from registry import main, program


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Language(nn.Module):
    def __init__(self, width=64, depth=3, words=200):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, words)
        self.probes = {}

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Trainer:
    def __init__(self, model, epochs=4):
        self.model, self.epochs = model.cuda(), epochs
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 3e-4)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1 / math.sqrt(step + 1))
        self.log, self.callbacks = {}, []

    def loss_of(self, tokens):
        logits = self.model(tokens[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def step(self, tokens):
        loss = self.loss_of(tokens)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        for callback in self.callbacks:
            callback(self, tokens, loss)

    def fit(self, loader):
        for _ in range(self.epochs):
            for (tokens,) in loader:
                self.step(tokens.cuda(non_blocking=True))


def words(count=128, length=24, rows=8):
    return DataLoader(TensorDataset(torch.randint(0, 200, (count, length))), batch_size=rows, shuffle=True, drop_last=True)


@program()
def a_trainer_class():
    Trainer(Language()).fit(words())


@program()
def checkpointed_blocks():
    class Checkpointed(Language):
        def forward(self, tokens):
            x = self.words(tokens)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return self.head(x)

    Trainer(Checkpointed()).fit(words())


@program()
def mixed_precision_with_a_scaler():
    model = Language().cuda()
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
    for _ in range(50):
        tokens = torch.zeros(4, 20, dtype=torch.long, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(tokens).float().logsumexp(-1).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@program()
def a_best_model_kept_once_in_a_while():
    """The newest of three replaces the one before."""
    best = {}

    def keep(trainer, tokens, loss):
        trainer.count = getattr(trainer, "count", 0) + 1
        if trainer.count % 20 == 0:
            best["state"] = {name: value.clone() for name, value in trainer.model.state_dict().items()}

    trainer = Trainer(Language())
    trainer.callbacks.append(keep)
    trainer.fit(words())


@program()
def truncated_backpropagation():
    cell, head = nn.LSTM(32, 64, batch_first=True).cuda(), nn.Linear(64, 1).cuda()
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
    state = None
    for _ in range(60):
        outputs, state = cell(torch.randn(4, 10, 32, device="cuda"), state)
        state = tuple(part.detach() for part in state)
        head(outputs).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@program()
def a_ring_of_recent_features():
    queue, place = torch.zeros(1024, 64, device="cuda"), 0
    model = Language().cuda().eval()
    with torch.no_grad():
        for _ in range(80):
            features = model.words(torch.zeros(16, 4, dtype=torch.long, device="cuda")).mean(1)
            queue[place : place + 16] = features
            place = (place + 16) % 1024


@program()
def inference_in_growing_batches():
    model = Language().cuda().eval()
    with torch.inference_mode():
        for rows in range(1, 60):
            model(torch.zeros(rows, 16, dtype=torch.long, device="cuda")).argmax(-1).cpu()


@program()
def warm_up_of_lengths_then_requests():
    model, masks = Language().cuda().eval(), {}
    with torch.inference_mode():
        for _ in range(120):
            length = random.choice((16, 32, 64, 128))
            if length not in masks:
                masks[length] = torch.ones(length, length, device="cuda").tril()
            (model(torch.zeros(2, length, dtype=torch.long, device="cuda")).mean() + masks[length].mean()).cpu()


@program("trainer.log.setdefault")
def a_log_of_tensors():
    def log(trainer, tokens, loss):
        trainer.log.setdefault("loss", []).append(loss.detach().exp())  # LEAK

    trainer = Trainer(Language())
    trainer.callbacks.append(log)
    trainer.fit(words())


@program("self.probes[len(self.probes)] = x")
def probes_in_the_model():
    class Probed(Language):
        def forward(self, tokens):
            x = self.words(tokens)
            for block in self.blocks:
                x = block(x)
            self.probes[len(self.probes)] = x.detach().mean(1)  # LEAK: self.probes[len(self.probes)] = x
            return self.head(x)

    Trainer(Probed()).fit(words())


@program("running = running + ")
def a_running_loss_with_its_graph():
    model = Language().cuda().eval()
    running = 0
    for _ in range(50):
        tokens = torch.zeros(4, 20, dtype=torch.long, device="cuda")
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        running = running + loss / 50  # LEAK
    print(float(running) == 0)


@program("outputs, state = cell")
def a_state_that_is_never_detached():
    """The graph of all steps hangs on the state; backward keeps it."""
    cell, head = nn.GRU(32, 64, batch_first=True).cuda(), nn.Linear(64, 1).cuda()
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], 0.1)
    state = None
    for _ in range(40):
        outputs, state = cell(torch.randn(4, 10, 32, device="cuda"), state)  # LEAK
        head(outputs).mean().backward(retain_graph=True)
        optimizer.zero_grad()


@program("trials.append(Language")
def a_model_a_trial():
    trials = []
    for trial in range(14):
        trials.append(Language(width=32 + trial % 2).cuda())  # LEAK
        with torch.no_grad():
            for _ in range(5):
                trials[-1](torch.zeros(4, 16, dtype=torch.long, device="cuda"))


@program("copy = tokens.repeat", also=("handle(model, torch.zeros",))
def failures_with_their_frames():
    failures = []

    def handle(model, tokens):
        copy = tokens.repeat(1, 64)  # LEAK
        if random.random() < 0.5:
            raise ValueError("refused")
        return model(tokens), copy.shape

    model = Language().cuda().eval()
    for _ in range(80):
        try:
            with torch.no_grad():
                handle(model, torch.zeros(2, 16, dtype=torch.long, device="cuda"))
        except ValueError as failure:
            failures.append(failure)


@program("runtime.cudaMalloc")
def memory_of_the_runtime():
    torch.zeros(1, device="cuda")
    runtime = ctypes.CDLL("libcudart.so.13" if torch.version.cuda.startswith("13") else "libcudart.so.12")
    model, pointers = Language().cuda().eval(), []
    for _ in range(40):
        with torch.no_grad():
            model(torch.zeros(2, 16, dtype=torch.long, device="cuda"))
        pointer = ctypes.c_void_p()
        runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(1 << 20))  # LEAK
        pointers.append(pointer)


@program("windows.append(chunk")
def a_batch_window_that_only_grows():
    model, windows = Language().cuda(), []
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(60):
        chunk = torch.zeros(2, 16, dtype=torch.long, device="cuda")
        windows.append(chunk + step)  # LEAK: windows.append(chunk
        loss = model(torch.cat(windows[-4:])).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@program("cached = torch.zeros")
def a_cache_by_request_in_a_closure():
    def make_server():
        cache = {}

        def serve(request, length):
            key = (request, length)
            if key not in cache:
                cached = torch.zeros(length, 256, device="cuda")  # LEAK
                cache[key] = cached
            return model(torch.zeros(1, length, dtype=torch.long, device="cuda")).sum() + cache[key].sum()

        return serve

    model = Language().cuda().eval()
    serve = make_server()
    with torch.inference_mode():
        for request in range(100):
            serve(request, random.randint(4, 40))


@program("held.append(features[:1]")
def a_view_that_keeps_the_whole():
    """A slice of one row keeps all rows."""
    model, held = Language().cuda().eval(), []
    with torch.no_grad():
        for _ in range(60):
            features = model.words(torch.zeros(64, 16, dtype=torch.long, device="cuda"))
            held.append(features[:1])  # LEAK


@program("optimizer.step()")
def an_optimizer_an_epoch():
    """Each epoch makes an optimizer; the old ones keep their states."""
    model, old_optimizers = Language().cuda(), []
    for _ in range(12):
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(4):
            model(torch.zeros(4, 16, dtype=torch.long, device="cuda")).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        old_optimizers.append(optimizer)  # LEAK, of what optimizer.step() allocates


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    main()
