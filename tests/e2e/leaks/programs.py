# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs that leak GPU memory, and programs that do not: what `gpumemshim leaks` is examined with (docs/leaks.md).

    python programs.py NAME      runs one
    python programs.py           lists them as JSON
"""

import collections
import gc
import random
import threading

import torch
from torch import nn

from registry import main, program


def batch(rows=32, width=128, classes=10):
    return torch.randn(rows, width, device="cuda"), torch.zeros(rows, dtype=torch.long, device="cuda")


def perceptron(width=128, classes=10):
    return nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, classes)).cuda()


def train_steps(model, steps, on_step=None, optimizer=torch.optim.AdamW, rows=lambda step: 32):
    optimizer = optimizer(model.parameters(), lr=1e-3)
    for step in range(steps):
        x, y = batch(rows(step))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if on_step:
            on_step(step, x, loss)


# Sound programs.


@program()
def plain_training():
    train_steps(perceptron(), 60)


@program()
def batches_of_all_sizes():
    train_steps(perceptron(), 80, rows=lambda step: random.randint(8, 256))


@program()
def curriculum():
    """Sequences get longer and longer; the loop's variables hold the last ones."""
    model = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).cuda()
    head = nn.Linear(64, 100).cuda()
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    for step in range(60):
        x = torch.randn(4, 8 + step, 64, device="cuda")
        logits = head(model(x))
        loss = logits.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@program()
def average_of_weights_from_step_20():
    model, average = perceptron(), {}

    def update(step, x, loss):
        if step == 20:
            average.update({name: value.detach().clone() for name, value in model.state_dict().items()})
        elif step > 20:
            for name, value in model.state_dict().items():
                average[name].mul_(0.99).add_(value, alpha=0.01)

    train_steps(model, 70, update)


@program()
def evaluation_each_ten_steps():
    model = perceptron()

    def evaluate(step, x, loss):
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                outputs = [model(batch(64)[0]) for _ in range(5)]
                torch.cat(outputs).mean().item()
            model.train()

    train_steps(model, 100, evaluate)


@program()
def cache_by_length_that_settles():
    positions = {}

    def positions_of(length):
        if length not in positions:
            positions[length] = torch.arange(length, device="cuda").float().repeat(16)
        return positions[length]

    model = nn.Linear(16, 16).cuda()
    for _ in range(150):
        length = random.choice(range(100, 112))
        with torch.no_grad():
            model(positions_of(length).view(length, 16)).sum().item()


@program()
def cache_of_a_fixed_size():
    model, cache = perceptron(), collections.OrderedDict()
    for request in range(120):
        with torch.no_grad():
            cache[request] = model(torch.randn(16, 128, device="cuda")).clone()
        if len(cache) > 12:
            cache.popitem(last=False)


@program()
def metrics_cleared_each_epoch():
    kept = []

    def keep(step, x, loss):
        kept.append(loss.detach().clone())
        if step % 15 == 14:
            torch.stack(kept).mean().item()
            kept.clear()

    train_steps(perceptron(), 120, keep)


@program()
def server_with_requests_of_all_sizes():
    model = perceptron().eval()
    for _ in range(100):
        with torch.inference_mode():
            model(torch.randn(random.randint(1, 64), 128, device="cuda")).cpu()


@program()
def generation_with_a_cache_a_request():
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3)).cuda()
    with torch.no_grad():
        for _ in range(12):
            keys = [torch.empty(1, 0, 64, device="cuda") for _ in layers]
            x = torch.randn(1, 1, 64, device="cuda")
            for _ in range(random.randint(10, 30)):
                for i, layer in enumerate(layers):
                    x = layer(x)
                    keys[i] = torch.cat((keys[i], x), 1)


@program()
def two_optimizers():
    generator, critic = perceptron(128, 128), perceptron()
    first, second = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(50):
        x, y = batch()
        critic(generator(x).detach()).mean().backward()
        second.step()
        second.zero_grad()
        nn.functional.cross_entropy(critic(generator(x)), y).backward()
        first.step()
        first.zero_grad()
        second.zero_grad()


@program()
def accumulation_of_gradients():
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for step in range(80):
        x, y = batch()
        (nn.functional.cross_entropy(model(x), y) / 4).backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


@program()
def losses_summed_after_backward():
    """The sum keeps graphs whose tensors backward has freed: no GPU memory stays."""
    total = torch.zeros((), device="cuda")

    def add(step, x, loss):
        nonlocal total
        total += loss.detach()

    train_steps(perceptron(), 60, add)


@program()
def cycles_that_the_collector_finds():
    class Node:
        pass

    def cycle(step, x, loss):
        node = Node()
        node.self, node.data = node, torch.randn(1000, device="cuda")
        if step % 8 == 7:
            gc.collect()

    train_steps(perceptron(), 100, cycle)


# Leaks.


@program("kept.append(x")
def activations_in_a_list():
    kept = []

    def keep(step, x, loss):
        kept.append(x * 2)  # LEAK

    train_steps(perceptron(), 60, keep)


@program("slow.append(torch.zeros(1")
def half_a_kilobyte_beside_much_noise():
    slow = []

    def keep(step, x, loss):
        slow.append(torch.zeros(1, device="cuda"))  # LEAK

    train_steps(perceptron(), 120, keep, rows=lambda step: random.randint(8, 512))


@program("self.answers[number] = ")
def answers_kept_by_a_server():
    class Server:
        def __init__(self):
            self.model, self.answers = perceptron().eval(), {}

        @torch.no_grad()
        def handle(self, number):
            hidden = self.model(torch.randn(random.randint(1, 64), 128, device="cuda"))
            self.answers[number] = hidden.mean(0) + 1  # LEAK
            return hidden

    server = Server()
    for number in range(90):
        server.handle(number)


@program("best.append(model(x)")
def evaluation_keeps_its_outputs():
    model, best = perceptron(), []

    def evaluate(step, x, loss):
        if step % 8 == 7:
            with torch.no_grad():
                best.append(model(x)[:, :5].contiguous())  # LEAK

    train_steps(model, 120, evaluate)


@program("total += loss")
def losses_summed_in_an_evaluation_with_graphs():
    model, total = perceptron(), 0
    for _ in range(60):
        x, y = batch()
        loss = nn.functional.cross_entropy(model(x), y)
        total += loss  # LEAK
    return total.item()


@program("outputs.append(output)")
def outputs_kept_with_graphs():
    def predict(model, batches):
        outputs = []
        for _ in range(batches):
            x, _ = batch()
            output = model(x)
            outputs.append(output)  # LEAK
        return outputs

    predict(perceptron(), 50)


@program("hook_outputs.append")
def a_hook_that_keeps():
    model, hook_outputs = perceptron(), []

    def hook(module, inputs, output):
        hook_outputs.append(output.detach() + 0)  # LEAK

    model[0].register_forward_hook(hook)
    train_steps(model, 50)


@program("memory.append((state")
def replay_memory_without_a_limit():
    memory, policy = [], perceptron()
    optimizer = torch.optim.Adam(policy.parameters())
    for _ in range(60):
        state = torch.randn(1, 128, device="cuda")
        memory.append((state + 1, random.random()))  # LEAK
        sample = torch.cat([random.choice(memory)[0] for _ in range(16)])
        policy(sample).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@program("late.append")
def a_leak_from_half_of_the_run():
    late = []

    def keep(step, x, loss):
        if step >= 50:
            late.append(torch.empty(4096, device="cuda"))  # LEAK

    train_steps(perceptron(), 100, keep)


@program("every_fifth.append")
def a_leak_each_fifth_step():
    every_fifth = []

    def keep(step, x, loss):
        if step % 5 == 0:
            every_fifth.append(torch.empty(4096, device="cuda"))  # LEAK

    train_steps(perceptron(), 100, keep)


@program("tests.append(model(x)")
def a_test_after_the_training():
    model, tests = perceptron(), []
    train_steps(model, 40)
    with torch.no_grad():
        for _ in range(60):
            x, _ = batch()
            tests.append(model(x).softmax(1) * 1)  # LEAK


@program("node.data = torch.randn")
def cycles_without_the_collector():
    gc.disable()

    class Node:
        pass

    def cycle(step, x, loss):
        node = Node()
        node.self = node
        node.data = torch.randn(1000, device="cuda")  # LEAK

    train_steps(perceptron(), 60, cycle)


@program("small.extend")
def very_many_small_tensors():
    small = []

    def keep(step, x, loss):
        small.extend(torch.empty(4, device="cuda") for _ in range(500))  # LEAK

    train_steps(perceptron(), 40, keep)


@program("results.append(outcome")
def a_thread_that_keeps():
    results = []

    def work():
        model = perceptron()
        for _ in range(50):
            with torch.no_grad():
                outcome = model(batch()[0])
                results.append(outcome * 2)  # LEAK

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@program("first.append", "second.append")
def two_leaks():
    first, second = [], []

    def keep(step, x, loss):
        first.append(torch.empty(1 << 16, device="cuda"))  # LEAK
        if step % 3 == 0:
            second.append(torch.empty(1 << 10, device="cuda"))  # LEAK

    train_steps(perceptron(), 75, keep)


if __name__ == "__main__":
    main()
