# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs with several optimizers, several kinds of request, and pinned memory. Written after the code that counts their rounds; docs/leaks.md has what the first run said."""

import collections
import itertools

import torch
from torch import nn

from registry import main, program


def network():
    return nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 8)).cuda()


def train(model, optimizer, rows=64):
    optimizer.zero_grad()
    model(torch.randn(rows, 128, device="cuda")).square().mean().backward()
    optimizer.step()


@program(iterations=40)
def five_folds_of_eight_steps():
    for _ in range(5):
        model = network()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(8):
            train(model, optimizer)


@program("scores.append(model(", iterations=40)
def five_folds_that_keep_their_scores():
    scores = []
    for _ in range(5):
        model = network()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(8):
            train(model, optimizer)
            scores.append(model(torch.randn(512, 128, device="cuda")).detach())  # LEAK


@program(iterations=30)
def an_optimizer_for_each_inner_loop():
    model = network()
    outer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(30):
        task = network()
        inner = torch.optim.SGD(task.parameters(), lr=0.1)
        for _ in range(3):
            train(task, inner)
        train(model, outer)


@program(iterations=30)
def a_generator_and_five_steps_of_its_critic():
    generator, critic = network(), nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    of_generator, of_critic = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(30):
        of_generator.zero_grad()
        critic(generator(torch.randn(64, 128, device="cuda"))).mean().backward()
        of_generator.step()
        for _ in range(5):
            of_critic.zero_grad()
            critic(generator(torch.randn(64, 128, device="cuda")).detach()).mean().backward()
            of_critic.step()


class Server:
    """Three kinds of request, each in a branch of its own."""

    def __init__(self, most):
        self.image, self.text, self.speech = network().eval(), network().eval(), network().eval()
        self.answers, self.most = collections.OrderedDict(), most

    @torch.inference_mode()
    def handle(self, number):
        if number % 7 in (0, 3, 5):
            answer = self.image(torch.rand(16 * (1 + number % 3), 128, device="cuda"))
        elif number % 7 in (1, 2):
            answer = self.text(torch.rand(512, 128, device="cuda"))
        else:
            answer = self.speech(torch.rand(64 * (1 + number % 2), 128, device="cuda"))
        self.answers[number] = answer
        if len(self.answers) > self.most:
            self.answers.popitem(last=False)


@program()
def three_kinds_of_request_and_a_cache_of_twenty():
    server = Server(20)
    for number in range(300):
        server.handle(number)


@program("answer = self.image(", "answer = self.text(", "answer = self.speech(")
def three_kinds_of_request_whose_answers_stay():
    server = Server(1 << 30)
    for number in range(300):
        server.handle(number)


@program("host = torch.empty(256, 1024, pin_memory=True)")
def pinned_batches_that_an_audit_keeps():
    model, audit = network(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(40):
        host = torch.empty(256, 1024, pin_memory=True)  # LEAK
        train(model, optimizer, host[:, :128].to("cuda", non_blocking=True).shape[0])
        audit.append(host)


@program()
def a_ring_of_four_pinned_buffers():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for buffer in itertools.islice(itertools.cycle([torch.empty(256, 1024, pin_memory=True) for _ in range(4)]), 40):
        train(model, optimizer, buffer.to("cuda", non_blocking=True).shape[0])


if __name__ == "__main__":
    main()
