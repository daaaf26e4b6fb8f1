# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A decoder-only language model with rotary positions, RMS norms and a gated feed-forward layer: the exercise on which many have recorded a memory
history. Trains or infers a few steps on random tokens, records the last one, and takes a snapshot.

    simcuda/run python transformer_lm.py --size xl --context 128 --mode forward --grad off

Which tensor lives how long decides the history, so the functions keep what the exercise's reference keeps, and no more. Attention and norms are
written out in tensor operations; the only fused kernels are PyTorch's loss and optimizer, where --loss and --optimizer say so.
"""

import argparse
import contextlib
import math

import torch
from torch import nn

VOCABULARY = 10_000
# width, inner width of the feed-forward layer, layers, heads
SIZES = {"small": (768, 3072, 12, 12), "medium": (1024, 4096, 24, 16), "large": (1280, 5120, 36, 20), "xl": (2560, 10240, 32, 32)}


class Projection(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outer, inner))

    def forward(self, hidden):
        return torch.einsum("...i,oi->...o", hidden, self.weight)


class Embedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(VOCABULARY, width))

    def forward(self, tokens):
        return self.weight[tokens, :]


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, hidden):
        dtype = hidden.dtype
        hidden = hidden.to(torch.float32)
        scale = torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + 1e-5)
        hidden = hidden * scale
        return (self.weight * hidden).to(dtype)


class Rotation(nn.Module):
    """Turns each pair of a head's channels by an angle that grows with the position."""

    def __init__(self, context, channels):
        super().__init__()
        angles = torch.outer(torch.arange(context).float(), 10_000.0 ** -(torch.arange(0, channels, 2) / channels))
        self.register_buffer("turns", torch.stack((angles.cos(), angles.sin())), persistent=False)

    def forward(self, heads):
        first, second = heads.unflatten(-1, (-1, 2)).movedim(-1, 0).unbind(0)
        cosine, sine = self.turns[:, : heads.size(-2), :].unbind(0)
        turned_first = cosine * first - sine * second
        turned_second = sine * first + cosine * second
        return torch.concat((turned_first, turned_second), dim=-1)


def softmax(scores):
    shifted = scores - torch.max(scores, dim=-1, keepdim=True)[0]
    powers = torch.exp(shifted)
    return powers / torch.sum(powers, dim=-1, keepdim=True)


def attend(query, key, value, mask):
    scores = torch.einsum("...qd,...kd->...qk", query, key) / math.sqrt(key.shape[-1])
    scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores)
    return torch.einsum("...qk,...kd->...qd", weights, value)


class Attention(nn.Module):
    def __init__(self, width, heads, rotation):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (Projection(width, width) for _ in range(4))
        self.rotation = rotation

    def forward(self, hidden):
        query = self.query(hidden)
        key = self.key(hidden)
        value = self.value(hidden)
        query, key, value = (each.unflatten(-1, (self.heads, -1)).transpose(-3, -2) for each in (query, key, value))
        query = self.rotation(query)
        key = self.rotation(key)
        positions = torch.arange(hidden.size(-2), device=hidden.device)
        mask = positions[:, None] >= positions[None, :]
        mask = mask[None, ...]
        mixed = attend(query, key, value, mask)
        mixed = mixed.transpose(-3, -2).reshape(hidden.shape).contiguous()
        return self.out(mixed)


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.out, self.up = Projection(width, inner), Projection(inner, width), Projection(width, inner)

    def forward(self, hidden):
        return self.out(gated(self.gate(hidden)) * self.up(hidden))


def gated(hidden):
    return hidden * torch.sigmoid(hidden)


class Block(nn.Module):
    def __init__(self, width, inner, heads, rotation):
        super().__init__()
        self.attention = Attention(width, heads, rotation)
        self.feed_forward = FeedForward(width, inner)
        self.before_attention, self.before_feed_forward = Norm(width), Norm(width)

    def forward(self, hidden):
        attended = self.attention(self.before_attention(hidden))
        middle = hidden + attended
        fed = self.feed_forward(self.before_feed_forward(middle))
        return middle + fed


class LanguageModel(nn.Module):
    def __init__(self, size, context):
        super().__init__()
        width, inner, layers, heads = SIZES[size]
        self.embedding = Embedding(width)
        self.rotation = Rotation(context, width // heads)
        self.blocks = nn.ModuleList(Block(width, inner, heads, self.rotation) for _ in range(layers))
        self.norm = Norm(width)
        self.head = Projection(width, VOCABULARY)

    def forward(self, tokens):
        hidden = embedded = self.embedding(tokens)  # embedded lives until the end, as where it has a name of its own
        for block in self.blocks:
            hidden = block(hidden)
        hidden = self.norm(hidden)
        return self.head(hidden)


class PlainAdamW(torch.optim.Optimizer):
    """AdamW a parameter at a time, in plain tensor operations."""

    def __init__(self, parameters):
        super().__init__(parameters, {"rate": 1e-3, "betas": (0.9, 0.999), "decay": 0.01})

    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                gradient = parameter.grad.data
                state = self.state[parameter]
                rate = group["rate"]
                slow, slower = group["betas"]
                steps = state.get("steps", 1)
                corrected = rate * (math.sqrt(1 - slower**steps) / (1 - slow**steps))
                parameter.data -= rate * group["decay"] * parameter.data
                before = state.get("mean", torch.zeros_like(gradient))
                before_square = state.get("square", torch.zeros_like(gradient))
                mean = slow * before + ((1 - slow) * gradient)
                square = slower * before_square + ((1 - slower) * torch.square(gradient))
                parameter.data -= corrected * mean / (torch.sqrt(square) + 1e-8)
                state["mean"] = mean
                state["square"] = square
                state["steps"] = steps + 1


def plain_loss(logits, targets):
    negative = -log_softmax(logits)
    return torch.mean(torch.gather(negative, -1, targets.unsqueeze(-1)))


def log_softmax(logits):
    highest = torch.max(logits, dim=-1, keepdim=True)[0]
    logits = logits - highest
    return logits - torch.log(torch.sum(torch.exp(logits), dim=-1, keepdim=True))


def torch_loss(logits, targets):
    return nn.functional.cross_entropy(logits.float().reshape(-1, VOCABULARY), targets.reshape(-1))


def flat_loss(logits, targets):
    return plain_loss(logits.view(-1, VOCABULARY), targets.view(-1))


LOSSES = {"torch": torch_loss, "plain": plain_loss, "flat": flat_loss, "sum": lambda logits, _: logits.sum()}
OPTIMIZERS = {"torch": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3), "plain": PlainAdamW, "none": lambda _: None}


class Trainer:
    """The steps of one kind, in the two ways in which people write them: a function a step, or a loop whose results live into the next step."""

    def __init__(self, chosen):
        self.chosen = chosen
        self.model = LanguageModel(chosen.size, chosen.context).to("cuda")
        if chosen.flow == "loop":
            self.warm, self.recorded = self.batches()
            if chosen.mode != "forward":
                self.warm_targets, self.recorded_targets = self.batches()
        else:
            self.inputs, self.targets = self.tokens(), None if chosen.no_targets else self.tokens()
        self.optimizer = OPTIMIZERS[chosen.optimizer](self.model.parameters())
        self.loss = LOSSES[chosen.loss]

    def tokens(self, *more):
        return torch.randint(VOCABULARY, (*more, self.chosen.batch, self.chosen.context), device="cuda")

    def batches(self):
        """For the steps before the recorded one, and for that: one batch for all, or one each."""
        if self.chosen.one_batch:
            batch = torch.randint(VOCABULARY, (self.chosen.batch, self.chosen.context)).to("cuda")
            return [batch] * self.chosen.warmup, [batch]
        return self.tokens(self.chosen.warmup), self.tokens(1)

    def precision(self):
        return torch.autocast("cuda", torch.bfloat16) if self.chosen.precision == "bf16" else contextlib.nullcontext()

    def no_gradients(self):
        return {"on": contextlib.nullcontext, "off": torch.no_grad, "inference": torch.inference_mode}[self.chosen.grad]()

    def step(self):
        """Everything is gone when the step ends but what gradients and optimizer keep."""
        if self.optimizer and self.chosen.mode != "forward":
            self.optimizer.zero_grad(set_to_none=True)
        with self.no_gradients(), self.precision():
            logits = self.model(self.inputs)
            if self.chosen.mode == "forward":
                return
            if self.chosen.loss_inside:
                loss = self.loss(logits, self.targets)
        if not self.chosen.loss_inside:
            loss = self.loss(logits, self.targets)
        loss.backward()
        if self.chosen.mode == "full":
            self.optimizer.step()

    def run_steps(self, record):
        for _ in range(self.chosen.warmup):
            self.step()
        if self.chosen.empty:
            self.optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
        record()
        self.step()

    def run_loop(self, record):
        """Logits and loss are variables of the loop."""
        for index in range(self.chosen.warmup):
            with self.precision():
                logits = self.model(self.warm[index])
                loss = self.loss(logits, self.warm_targets[index])
            loss.backward()
            if self.chosen.mode == "full":
                self.optimizer.step()
                self.optimizer.zero_grad()
        if self.chosen.mode == "full":
            del logits, loss
        record()
        with self.precision():
            logits = self.model(self.recorded[0])
            loss = self.loss(logits, self.recorded_targets[0])
        loss.backward()
        if self.chosen.mode == "full":
            self.optimizer.step()
        return logits, loss

    def infer_loop(self, record):
        with self.no_gradients():
            for index in range(self.chosen.warmup):
                with self.precision():
                    self.model(self.warm[index])
            record()
            with self.precision():
                self.model(self.recorded[0])


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=5, help="steps before the one that is recorded (%(default)s)")
    parser.add_argument("--mode", choices=("forward", "backward", "full"), required=True)
    parser.add_argument("--grad", choices=("on", "off", "inference"), default="on")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--loss", choices=LOSSES, default="torch")
    parser.add_argument("--loss-inside", action="store_true", help="the loss is computed under autocast, too")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="torch")
    parser.add_argument("--flow", choices=("step", "loop"), default="step", help="a function a step, or a loop whose results live on")
    parser.add_argument("--no-targets", action="store_true", help="only the inputs are on the device")
    parser.add_argument("--one-batch", action="store_true", help="with a loop: all steps have the same batch")
    parser.add_argument("--empty", action="store_true", help="the cache is emptied before the recorded step")
    parser.add_argument("--from-start", action="store_true", help="the steps before it are recorded, too")
    return parser.parse_args()


def main():
    chosen = parse()
    trainer = Trainer(chosen)

    def record():
        torch.cuda.synchronize()
        if not chosen.from_start:
            torch.cuda.memory._record_memory_history(max_entries=1_000_000)

    if chosen.from_start:
        torch.cuda.memory._record_memory_history(max_entries=1_000_000)
    run = trainer.run_steps if chosen.flow == "step" else trainer.infer_loop if chosen.mode == "forward" else trainer.run_loop
    kept = run(record)
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot("memory_snapshot.pickle")
    del kept


if __name__ == "__main__":
    main()
