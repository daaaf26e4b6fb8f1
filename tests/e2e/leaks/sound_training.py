# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Sound trainings of thirty kinds: nothing of them grows. Written after the code; docs/claims.md says what their first run was told."""

import collections
import contextlib
import copy
import gc
import io
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from registry import main, program


def network(width=128, outputs=10):
    return nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, outputs)).cuda()


def x(rows=64, width=128):
    return torch.randn(rows, width, device="cuda")


def adam(*models, **options):
    return torch.optim.AdamW([parameter for model in models for parameter in model.parameters() if parameter.requires_grad], **options)


def step(model, optimizer, batch, scale=1.0):
    optimizer.zero_grad()
    loss = model(batch).square().mean() * scale
    loss.backward()
    optimizer.step()
    return loss


@program()
def an_evaluation_each_epoch_that_keeps_its_predictions_until_it_ends():
    model = network()
    optimizer = adam(model)
    for _ in range(8):
        for _ in range(10):
            step(model, optimizer, x())
        with torch.no_grad():
            predictions = [model(x(256)) for _ in range(12)]
            torch.cat(predictions).argmax(-1)
            predictions.clear()


@program()
def stochastic_weight_averaging_from_the_second_half():
    model = network()
    optimizer, average = adam(model), torch.optim.swa_utils.AveragedModel(model)
    for epoch in range(12):
        for _ in range(6):
            step(model, optimizer, x())
        if epoch >= 6:
            average.update_parameters(model)
    torch.optim.swa_utils.update_bn([x() for _ in range(5)], average)


@program()
def moving_averages_by_foreach():
    model = network()
    optimizer, shadow = adam(model), [parameter.detach().clone() for parameter in model.parameters()]
    for _ in range(60):
        step(model, optimizer, x())
        torch._foreach_lerp_(shadow, [parameter.detach() for parameter in model.parameters()], 0.01)


@program()
def gradients_of_eight_micro_batches_with_clipping():
    model = network()
    optimizer = adam(model)
    for _ in range(20):
        for _ in range(8):
            (model(x(random.choice([16, 32, 48]))).square().mean() / 8).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


@program()
def bfloat16_with_autocast():
    model = network()
    optimizer = adam(model)
    for _ in range(50):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x()).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@program()
def a_gan_whose_critic_begins_alone():
    generator, critic = network(64, 128), network(128, 1)
    first, second = adam(generator), adam(critic)
    for turn in range(50):
        second.zero_grad()
        critic(generator(x(width=64)).detach()).mean().backward()
        second.step()
        if turn >= 15:
            first.zero_grad()
            critic(generator(x(width=64))).mean().backward()
            first.step()


@program()
def ten_folds_whose_scores_are_numbers():
    scores = []
    for _ in range(10):
        model = network()
        optimizer = adam(model)
        for _ in range(6):
            step(model, optimizer, x())
        with torch.no_grad():
            scores.append(model(x(512)).mean().item())


@program()
def lengths_of_speech_that_vary():
    model, head = nn.GRU(40, 64, batch_first=True).cuda(), nn.Linear(64, 30).cuda()
    optimizer = adam(model, head)
    for _ in range(60):
        length = int(random.lognormvariate(4, 0.6)) % 400 + 10
        out, _ = model(torch.randn(8, length, 40, device="cuda"))
        optimizer.zero_grad()
        head(out).mean().backward()
        optimizer.step()


@program()
def resolutions_that_grow_and_stop():
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10)).cuda()
    optimizer = adam(model)
    for epoch in range(16):
        size = min(32 + 16 * epoch, 128)
        for _ in range(5):
            step(model, optimizer, torch.randn(4, 3, size, size, device="cuda"))


@program()
def batches_that_grow_until_the_end():
    """The largest batch comes last: sizes, not growth."""
    model = network()
    optimizer = adam(model)
    for rows in range(16, 16 + 50 * 16, 16):
        step(model, optimizer, x(rows))


@program()
def checkpoints_that_are_saved_each_epoch():
    model = network()
    optimizer = adam(model)
    for _ in range(10):
        for _ in range(5):
            step(model, optimizer, x())
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, io.BytesIO())


@program()
def the_best_checkpoint_on_the_host():
    model, best = network(), {}
    optimizer = adam(model)
    for epoch in range(12):
        for _ in range(5):
            step(model, optimizer, x())
        if epoch % 3 == 0:
            best = {name: value.cpu() for name, value in model.state_dict().items()}
    model.load_state_dict(best)


@program()
def early_stopping_that_goes_back_to_its_best_weights():
    model = network()
    optimizer = adam(model)
    for epoch in range(18):
        for _ in range(4):
            step(model, optimizer, x())
        if epoch in (2, 5, 9):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)


@program()
def a_profiler_that_watches():
    model = network()
    optimizer = adam(model)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=torch.profiler.schedule(wait=2, warmup=2, active=4, repeat=2)) as profiler:
        for _ in range(40):
            step(model, optimizer, x())
            profiler.step()


@program()
def two_workers_that_load():
    loader = DataLoader(TensorDataset(torch.randn(256, 128)), batch_size=16, num_workers=2, shuffle=True)
    model = network()
    optimizer = adam(model)
    for _ in range(3):
        for (batch,) in loader:
            step(model, optimizer, batch.cuda())


@program()
def low_rank_adapters_of_a_frozen_model():
    base = nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)]).cuda().requires_grad_(False)
    adapters = nn.ModuleList(nn.Sequential(nn.Linear(256, 8, bias=False), nn.Linear(8, 256, bias=False)) for _ in range(4)).cuda()
    optimizer = adam(adapters)
    for _ in range(50):
        hidden = x(width=256)
        for layer, adapter in zip(base, adapters):
            hidden = torch.relu(layer(hidden) + adapter(hidden))
        optimizer.zero_grad()
        hidden.mean().backward()
        optimizer.step()


@program()
def layers_that_are_unfrozen_one_by_one():
    model = nn.Sequential(*[nn.Linear(128, 128) for _ in range(6)]).cuda().requires_grad_(False)
    for depth in range(1, 7):
        model[6 - depth].requires_grad_(True)
        optimizer = adam(model)
        for _ in range(8):
            step(model, optimizer, x())


@program()
def a_replay_buffer_that_fills_and_turns():
    policy, states = network(16, 4), torch.zeros(64, 16, device="cuda")
    optimizer = adam(policy)
    for episode in range(120):
        states[episode % 64] = torch.randn(16, device="cuda")
        step(policy, optimizer, states[torch.randint(0, 64, (32,), device="cuda")])


@program()
def transitions_in_a_deque_of_forty():
    policy, memory = network(16, 4), collections.deque(maxlen=40)
    optimizer = adam(policy)
    for _ in range(150):
        memory.append((torch.randn(256, 16, device="cuda"), torch.randn(256, device="cuda")))
        step(policy, optimizer, random.choice(memory)[0])


@program()
def rollouts_that_are_thrown_away():
    policy = network(32, 8)
    optimizer = adam(policy)
    for _ in range(20):
        with torch.no_grad():
            rollout = [(torch.randn(16, 32, device="cuda"), policy(torch.randn(16, 32, device="cuda"))) for _ in range(24)]
        states = torch.cat([state for state, _ in rollout])
        for _ in range(4):
            step(policy, optimizer, states[torch.randint(0, len(states), (64,), device="cuda")])


@program()
def metrics_that_are_reset_each_epoch():
    model, seen = network(), []
    optimizer = adam(model)
    for _ in range(10):
        for _ in range(8):
            seen.append((step(model, optimizer, x()).detach(), model(x(8)).detach()))
        torch.stack([loss for loss, _ in seen]).mean().item()
        seen = []


@program()
def an_active_learner_whose_pool_is_on_the_host():
    pool, labelled = torch.randn(2000, 128), torch.randn(20, 128)
    for _ in range(8):
        model = network()
        optimizer = adam(model)
        for _ in range(6):
            step(model, optimizer, labelled[torch.randint(0, len(labelled), (32,))].cuda())
        with torch.no_grad():
            model(pool[:500].cuda()).max(-1).values.cpu()
        labelled = torch.cat([labelled, pool[:100]])


@program()
def graphs_of_all_sizes():
    first, second = nn.Linear(32, 64).cuda(), nn.Linear(64, 8).cuda()
    optimizer = adam(first, second)
    for _ in range(60):
        nodes, edges = random.randint(50, 800), random.randint(100, 3000)
        source, target = (torch.randint(0, nodes, (edges,)).cuda() for _ in range(2))
        hidden = torch.relu(first(torch.randn(nodes, 32, device="cuda")))
        gathered = torch.zeros_like(hidden).index_add(0, target, hidden[source])
        optimizer.zero_grad()
        second(gathered).mean().backward()
        optimizer.step()


@program()
def a_teacher_and_its_student():
    teacher, student = network().eval(), network()
    optimizer = adam(student)
    for _ in range(50):
        batch = x()
        with torch.no_grad():
            wanted = teacher(batch)
        optimizer.zero_grad()
        (student(batch) - wanted).square().mean().backward()
        optimizer.step()


@program()
def contrast_with_a_queue_of_keys():
    query, key = network(outputs=64), network(outputs=64)
    optimizer, queue = adam(query), torch.randn(512, 64, device="cuda")
    for turn in range(60):
        optimizer.zero_grad()
        positive, negative = query(x(32)), query(x(32)) @ queue.T
        (positive.mean() + negative.logsumexp(-1).mean()).backward()
        optimizer.step()
        with torch.no_grad():
            queue.view(16, 32, 64)[turn % 16] = key(x(32))
            for ours, theirs in zip(key.parameters(), query.parameters()):
                ours.mul_(0.99).add_(theirs, alpha=0.01)


@program()
def cycles_and_a_collector_that_is_called():
    class Record:
        def __init__(self, batch):
            self.batch, self.me = batch, self

    model = network()
    optimizer = adam(model)
    gc.disable()
    for turn in range(80):
        record = Record(x())
        step(model, optimizer, record.batch)
        if turn % 10 == 9:
            del record
            gc.collect()


@program()
def batches_that_fail_and_are_left_out():
    model = network()
    optimizer = adam(model)
    for turn in range(60):
        batch = x()
        with contextlib.suppress(ValueError):
            if turn % 7 == 3:
                raise ValueError(f"batch {turn} of {len(batch)} rows is broken")
            step(model, optimizer, batch)


@program()
def second_order_optimization():
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2, history_size=5)
    for _ in range(25):
        batch = x()

        def closure():
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)


@program()
def a_penalty_on_gradients():
    critic = network(128, 1)
    optimizer = adam(critic)
    for _ in range(40):
        batch = x().requires_grad_()
        (gradient,) = torch.autograd.grad(critic(batch).sum(), batch, create_graph=True)
        optimizer.zero_grad()
        (gradient.norm(dim=1) - 1).square().mean().backward()
        optimizer.step()


@program()
def meta_learning_with_inner_weights():
    model = network()
    outer = adam(model)
    for _ in range(25):
        weights = dict(model.named_parameters())
        for _ in range(3):
            loss = torch.func.functional_call(model, weights, x(16)).square().mean()
            weights = {name: value - 0.1 * gradient for (name, value), gradient in zip(weights.items(), torch.autograd.grad(loss, weights.values(), create_graph=True))}
        outer.zero_grad()
        torch.func.functional_call(model, weights, x(16)).square().mean().backward()
        outer.step()


if __name__ == "__main__":
    main()
