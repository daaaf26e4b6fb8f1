# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A third set of programs, written after the second: docs/leaks.md says what their first run found."""

import collections
import copy
import functools
import random

import torch
from torch import nn

from registry import main, program


def classifier():
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10)).cuda()


def images(count=8):
    return torch.zeros(count, 3, 32, 32, device="cuda")


def train(model, steps, after=lambda step, out: None, accumulate=1):
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        out = model(images())
        out.logsumexp(1).mean().backward()
        if (step + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
        after(step, out)


@program("answers.append(torch.empty(300", iterations=400)
def requests_of_all_sizes_whose_answers_stay():
    """PyTorch takes new segments now and then, which are no iterations."""
    answers = []
    for _ in range(400):
        request = torch.empty(random.randint(20, 60) << 18, device="cuda")
        answers.append(torch.empty(300 << 10, device="cuda"))  # LEAK
        del request


@program("out = model(images())")
def a_forward_hook_that_keeps_outputs():
    model, outputs = classifier(), []
    model[0].register_forward_hook(lambda module, given, out: outputs.append(out))
    train(model, 40)


@program("predictions.append(model(images()))")
def predictions_of_each_evaluation():
    model, predictions = classifier(), []

    def evaluate(step, _):
        if step % 10 != 9:
            return
        model.eval()
        with torch.no_grad():
            for _ in range(4):
                predictions.append(model(images()))  # LEAK
        model.train()

    train(model, 120, evaluate)


@program()
def the_last_five_states():
    model, states = nn.GRU(64, 128, 2, batch_first=True).cuda(), collections.deque(maxlen=5)
    optimizer = torch.optim.RMSprop(model.parameters())
    for step in range(60):
        out, state = model(torch.zeros(16, 20, 64, device="cuda"))
        out.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 3 == 0:
            states.append(state.detach().clone())


@program("return torch.zeros(length, 512")
def an_unbounded_function_cache():
    @functools.lru_cache(maxsize=None)
    def mask(length, request):
        return torch.zeros(length, 512, device="cuda")  # LEAK

    model = nn.Linear(512, 512).cuda()
    with torch.inference_mode():
        for request in range(120):
            model(mask(random.randint(4, 64), request)).sum()


@program()
def a_function_cache_of_32():
    @functools.lru_cache(maxsize=32)
    def mask(length, request):
        return torch.zeros(length, 512, device="cuda")

    model = nn.Linear(512, 512).cuda()
    with torch.inference_mode():
        for request in range(300):
            model(mask(32, request)).sum()


@program("scratch = torch.zeros(64, 256")
def errors_that_keep_their_frames():
    """An exception keeps its traceback, that its frames, those their locals."""
    errors, model = [], nn.Linear(256, 256).cuda()

    def serve(request):
        scratch = torch.zeros(64, 256, device="cuda")  # LEAK
        if request % 3 == 0:
            raise ValueError(f"request {request} of {len(scratch)} rows")
        return model(scratch).sum()

    with torch.inference_mode():
        for request in range(120):
            try:
                serve(request)
            except ValueError as error:
                errors.append(error)


@program("rows = torch.zeros(32, 128")
def generators_that_nobody_ends():
    pending, model = [], nn.Linear(128, 128).cuda()

    def stream():
        rows = torch.zeros(32, 128, device="cuda")  # LEAK
        for row in rows:
            yield model(row)

    with torch.inference_mode():
        for _ in range(100):
            answers = stream()
            next(answers)
            pending.append(answers)


@program()
def two_models_take_turns():
    models = [classifier().cpu() for _ in range(2)]
    for turn in range(24):
        model = models[turn % 2].cuda()
        with torch.no_grad():
            model(images())
        model.cpu()


@program()
def a_cache_of_keys_for_each_answer():
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4)).cuda()
    with torch.inference_mode():
        for _ in range(40):
            cache = [torch.zeros(0, 64, device="cuda") for _ in layers]
            for _ in range(random.randint(5, 40)):
                x = torch.zeros(1, 64, device="cuda")
                for i, layer in enumerate(layers):
                    x = layer(x)
                    cache[i] = torch.cat([cache[i], x])


@program()
def gradients_over_eight_batches():
    train(classifier(), 96, accumulate=8)


@program("weights.append(copy.deepcopy")
def the_weights_of_each_epoch():
    model, weights = classifier(), []

    def end_of_epoch(step, _):
        if step % 5 == 4:
            weights.append(copy.deepcopy(model.state_dict()))  # LEAK

    train(model, 80, end_of_epoch)


@program()
def the_weights_of_the_best_three():
    model, best = classifier(), collections.deque(maxlen=3)

    def end_of_epoch(step, _):
        if step % 5 == 4:
            best.append(copy.deepcopy(model.state_dict()))

    train(model, 120, end_of_epoch)


@program("self.seen.append(grad * 2)")
def a_gradient_hook_that_keeps():
    class Watch:
        def __init__(self):
            self.seen = []

        def __call__(self, grad):
            self.seen.append(grad * 2)  # LEAK

    model, watch = classifier(), Watch()
    model[-1].weight.register_hook(watch)
    train(model, 50)


@program("self.window = torch.cat")
def a_metric_that_grows_by_cat():
    """One tensor that is made anew, larger each time."""

    class Metric:
        def __init__(self):
            self.window = torch.zeros(0, 10, device="cuda")

        def update(self, out):
            self.window = torch.cat([self.window, out.detach()])  # LEAK

    metric = Metric()
    train(classifier(), 80, lambda step, out: metric.update(out))


@program()
def batches_that_grow_and_start_again():
    """A curriculum: lengths rise within each epoch."""
    model = nn.Linear(128, 128).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(6):
        for length in range(8, 128, 8):
            model(torch.zeros(length, 128, device="cuda")).mean().backward()
            optimizer.step()
            optimizer.zero_grad()


@program()
def one_long_answer():
    """Its keys and values grow with each token, by torch.cat."""
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4)).cuda()
    with torch.inference_mode():
        cache = [torch.zeros(0, 64, device="cuda") for _ in layers]
        for _ in range(300):
            x = torch.zeros(1, 64, device="cuda")
            for i, layer in enumerate(layers):
                x = layer(x)
                cache[i] = torch.cat([cache[i], x])


@program()
def batches_sorted_by_length():
    model = nn.Linear(128, 128).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for length in sorted(int(random.lognormvariate(4, 0.5)) for _ in range(100)):
        batch = torch.zeros(length, 128, device="cuda")
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
