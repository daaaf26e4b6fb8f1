# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Sound servers, caches, simulations and samplers of thirty kinds: nothing of them grows. Written after the code; docs/claims.md says what their first run was told."""

import asyncio
import collections
import concurrent.futures
import functools
import itertools
import queue
import random
import threading
import time
import weakref

import torch
from torch import nn

from registry import main, program


def network(width=128, outputs=64):
    return nn.Sequential(nn.Linear(width, 256), nn.GELU(), nn.Linear(256, outputs)).cuda().eval()


def x(rows=32, width=128):
    return torch.randn(rows, width, device="cuda")


@program()
def requests_and_a_long_rest():
    model = network()
    with torch.inference_mode():
        for _ in range(40):
            model(x(random.randint(1, 64))).cpu()
        for _ in range(15):
            time.sleep(0.01)
            model(x(1)).cpu()


@program()
def answers_of_the_last_thirty_users():
    model, answers = network(), collections.OrderedDict()
    with torch.inference_mode():
        for request in range(300):
            user = random.randrange(90)
            answers[user] = model(x(random.choice([8, 16, 64])))
            answers.move_to_end(user)
            if len(answers) > 30:
                answers.popitem(last=False)


@program()
def a_cache_by_bytes():
    """It lets go of the oldest entries until it holds at most 4 MiB."""
    model, cache, held = network(), collections.OrderedDict(), 0
    with torch.inference_mode():
        for request in range(250):
            features = model(x(random.randint(16, 900)))
            cache[request] = features
            held += features.nbytes
            while held > 4 << 20:
                held -= cache.popitem(last=False)[1].nbytes


@program()
def positions_of_all_lengths_up_to_a_limit():
    @functools.lru_cache(maxsize=None)
    def positions(length):
        return torch.arange(length, device="cuda").float()[:, None].repeat(1, 64)

    model = nn.Linear(64, 64).cuda()
    with torch.inference_mode():
        for _ in range(400):
            model(positions(random.choice(range(16, 336, 16)))).sum().item()


@program()
def beams_with_keys_and_values_for_each_request():
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4)).cuda()
    with torch.inference_mode():
        for _ in range(12):
            hidden, keys = torch.randn(4, 1, 64, device="cuda"), [torch.zeros(4, 0, 64, device="cuda") for _ in layers]
            for _ in range(random.randint(8, 40)):
                order = torch.tensor([0, 0, 1, 2]).cuda()
                for i, layer in enumerate(layers):
                    hidden = layer(hidden)
                    keys[i] = torch.cat([keys[i][order], hidden], 1)


@program()
def blocks_of_a_paged_cache():
    pool, free, model = torch.zeros(128, 16, 64, device="cuda"), list(range(128)), network(64, 64)
    running = collections.deque()
    with torch.inference_mode():
        for request in range(120):
            blocks = [free.pop() for _ in range(random.randint(1, 8))]
            for block in blocks:
                pool[block] = model(x(16, 64))
            running.append(blocks)
            if len(running) > 12:
                free.extend(running.popleft())


@program()
def a_graph_that_is_captured_once():
    model, static = network(), x(16)
    with torch.no_grad():
        model(static)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            answer = model(static)
        for _ in range(60):
            static.copy_(torch.randn(16, 128))
            graph.replay()
            answer.cpu()


@program()
def four_streams_in_turns():
    model, streams = network(), [torch.cuda.Stream() for _ in range(4)]
    with torch.inference_mode():
        for request in range(100):
            with torch.cuda.stream(streams[request % 4]):
                model(x(random.choice([16, 64])))
        torch.cuda.synchronize()


@program()
def staging_through_three_pinned_buffers():
    model, buffers = network(), [torch.empty(64, 128, pin_memory=True) for _ in range(3)]
    with torch.inference_mode():
        for buffer in itertools.islice(itertools.cycle(buffers), 60):
            buffer.normal_()
            model(buffer.to("cuda", non_blocking=True)).to("cpu", non_blocking=True)


@program()
def layers_that_are_offloaded_after_use():
    layers = [nn.Linear(256, 256) for _ in range(8)]
    with torch.inference_mode():
        for _ in range(15):
            hidden = x(width=256)
            for layer in layers:
                hidden = torch.relu(layer.cuda()(hidden))
                layer.cpu()


@program()
def experts_of_which_three_are_on_the_device():
    experts, resident = [nn.Linear(256, 256) for _ in range(10)], collections.OrderedDict()
    with torch.inference_mode():
        for _ in range(150):
            wanted = random.randrange(10)
            if wanted not in resident:
                if len(resident) == 3:
                    resident.popitem(last=False)[1].cpu()
                resident[wanted] = experts[wanted].cuda()
            resident.move_to_end(wanted)
            resident[wanted](x(width=256))


@program()
def several_models_of_which_one_is_asked():
    models = {name: network(outputs=32 * (i + 1)) for i, name in enumerate(("image", "text", "speech"))}
    with torch.inference_mode():
        for _ in range(90):
            models[random.choice(list(models))](x(random.randint(1, 48))).argmax(-1).cpu()


@program()
def six_threads_with_requests():
    model, requests = network(), queue.Queue()

    def work():
        while (rows := requests.get()) is not None:
            with torch.inference_mode():
                model(x(rows)).cpu()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(120):
        requests.put(random.choice([8, 16, 32]))
    for _ in threads:
        requests.put(None)
    for thread in threads:
        thread.join()


@program()
def a_pool_of_threads_whose_answers_are_numbers():
    model = network()

    def answer(rows):
        with torch.inference_mode():
            return model(x(rows)).sum().item()

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        sum(pool.map(answer, [random.choice([16, 32, 64]) for _ in range(90)]))


@program()
def tasks_of_one_loop():
    model, waiting = network(), asyncio.Semaphore(4)

    async def handle(rows):
        async with waiting:
            with torch.inference_mode():
                answer = model(x(rows))
            await asyncio.sleep(0)
            return answer.mean().item()

    async def serve():
        for _ in range(20):
            await asyncio.gather(*(handle(random.choice([8, 24, 40])) for _ in range(6)))

    asyncio.run(serve())


@program()
def batches_from_a_generator():
    def batches():
        for _ in range(80):
            yield x(random.choice([16, 32]))

    model = network()
    with torch.inference_mode():
        for batch in batches():
            model(batch).amax().item()


@program()
def features_that_live_as_long_as_their_users():
    class Session:
        pass

    model, features, sessions = network(), weakref.WeakKeyDictionary(), collections.deque(maxlen=15)
    with torch.inference_mode():
        for _ in range(150):
            session = Session()
            features[session] = model(x())
            sessions.append(session)


@program()
def heat_in_a_plate():
    now = torch.rand(256, 256, device="cuda")
    for _ in range(150):
        padded = nn.functional.pad(now, (1, 1, 1, 1))
        now = now + 0.1 * (padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] - 4 * now)


@program()
def a_solver_whose_three_last_states_are_kept():
    states = [torch.rand(128, 128, device="cuda") for _ in range(3)]
    for _ in range(120):
        slope = torch.tanh(states[-1] @ states[-2])
        states.append(states[-1] + 0.01 * (1.5 * slope - 0.5 * states[-3]))
        del states[0]


@program()
def denoising_in_fifty_steps_for_each_picture():
    model = nn.Sequential(nn.Conv2d(4, 32, 3, padding=1), nn.SiLU(), nn.Conv2d(32, 4, 3, padding=1)).cuda()
    with torch.inference_mode():
        for size in (32, 48, 32, 64, 32):
            latent = torch.randn(2, 4, size, size, device="cuda")
            for _ in range(50):
                latent = latent - 0.02 * model(latent)
            latent.clamp(-1, 1).cpu()


@program()
def chains_that_are_thinned():
    """A Markov chain whose samples go to the host."""
    position, samples = torch.zeros(64, 32, device="cuda", requires_grad=True), []
    for turn in range(120):
        (gradient,) = torch.autograd.grad(-position.square().sum(), position)
        with torch.no_grad():
            position = (position + 0.05 * gradient + 0.3 * torch.randn_like(position)).requires_grad_()
        if turn % 5 == 0:
            samples.append(position.detach().cpu())


@program()
def particles_that_are_drawn_again():
    particles = torch.randn(4096, 6, device="cuda")
    for _ in range(100):
        weights = torch.softmax(-(particles + torch.randn_like(particles)).square().sum(1), 0)
        particles = particles[torch.multinomial(weights.nan_to_num(1 / 4096) + 1e-6, 4096, replacement=True)]


@program()
def tiles_of_one_large_picture():
    model, whole = nn.Conv2d(3, 8, 3, padding=1).cuda(), torch.zeros(8, 1024, 1024)
    with torch.inference_mode():
        for row in range(0, 1024, 256):
            for column in range(0, 1024, 256):
                whole[:, row : row + 256, column : column + 256] = model(torch.randn(3, 256, 256, device="cuda")).cpu()


@program()
def an_index_that_is_built_and_searched():
    """All vectors are put into one table of known size; then it is asked."""
    model, table = network(), torch.empty(60 * 32, 64, device="cuda")
    with torch.inference_mode():
        for i in range(60):
            table[i * 32 : (i + 1) * 32] = model(x())
        for _ in range(60):
            (model(x(4)) @ table.T).topk(5)


@program()
def an_index_of_parts_that_is_built_and_searched():
    """The parts grow while it is built; after that nothing does."""
    model, parts = network(), []
    with torch.inference_mode():
        for _ in range(40):
            parts.append(model(x(64)))
        table = torch.cat(parts)
        del parts
        for _ in range(120):
            (model(x(4)) @ table.T).topk(5)


@program()
def a_state_that_is_carried_and_detached():
    cell, state = nn.LSTM(32, 64, batch_first=True).cuda(), None
    with torch.no_grad():
        for _ in range(80):
            out, state = cell(torch.randn(8, 12, 32, device="cuda"), state)
            out.sum().item()


@program()
def a_scratch_buffer_that_grows_to_the_largest_request():
    model, scratch = network(), torch.empty(0, device="cuda")
    with torch.inference_mode():
        for _ in range(200):
            rows = random.choice(range(8, 264, 8))
            if scratch.numel() < rows * 128:
                scratch = torch.empty(rows * 128, device="cuda")
            model(scratch[: rows * 128].view(rows, 128)).sum().item()


@program()
def errors_that_are_caught_and_counted():
    model, failed = network(), collections.Counter()

    def serve(request):
        batch = x(64)
        if request % 4 == 1:
            raise RuntimeError(f"request {request} has {len(batch)} rows")
        return model(batch).sum().item()

    with torch.inference_mode():
        for request in range(100):
            try:
                serve(request)
            except RuntimeError as error:
                failed[type(error).__name__] += 1


@program()
def a_warm_up_of_all_shapes_and_then_requests():
    model, shapes = network(), [(rows, 128) for rows in range(256, 0, -16)]
    with torch.inference_mode():
        for shape in shapes * 2:
            model(torch.zeros(shape, device="cuda"))
        torch.cuda.synchronize()
        for _ in range(100):
            model(torch.zeros(random.choice(shapes), device="cuda")).cpu()


@program()
def a_transcript_of_one_hour_in_windows():
    """A window of the last eight parts slides over what is heard."""
    model, window = network(80, 64), collections.deque(maxlen=8)
    with torch.inference_mode():
        for _ in range(150):
            window.append(torch.randn(50, 80, device="cuda"))
            model(torch.cat(tuple(window))).argmax(-1).cpu()


if __name__ == "__main__":
    main()
