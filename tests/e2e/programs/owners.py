# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Keeps GPU memory in many ways, each in a line of its own, a tensor an iteration; and says after the recorder's look whether anything changed by it."""

import atexit
import collections
import functools
import gc
import json
import os
import sys
import threading
import time
import weakref

BEFORE = {}


class Tomb:
    """Whoever collects garbage, or lets go of it, runs this."""

    dead = 0

    def __init__(self):
        self.me = self

    def __del__(self):
        Tomb.dead += 1


def state():
    return {
        "references": [sys.getrefcount(each) for each in (in_list, in_dict, in_deque, NODES, ERRORS, in_list[0], in_dict[0], NODES[0].tensor)],
        "collector": [gc.isenabled(), gc.get_threshold(), gc.get_debug(), [each["collections"] for each in gc.get_stats()], len(gc.garbage)],
        "modules": sorted(sys.modules),
        "dead": Tomb.dead,
        "trace": [sys.gettrace() is None, sys.getprofile() is None],
        "switch": sys.getswitchinterval(),
    }


def report():
    """Registered before the first use of CUDA, so it runs after the recorder's."""
    print(json.dumps({"before": BEFORE, "after": state()}))


atexit.register(report)

import torch  # noqa: E402

SIZE = 16 << 10  # elements
ON = {"device": "cuda"}


class Node:
    __slots__ = ("tensor", "name")


class Plain:
    def __init__(self, value):
        self.value = value


class Registry:
    items = []


class Cell(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = x * 2
        ctx.out = out
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad


in_list, in_dict, in_deque, in_set = [], {}, collections.deque(), set()
NODES, PLAINS, ERRORS, WAITING, WEAK = [], [], [], [], []
leaf = torch.zeros(SIZE, device="cuda", requires_grad=True)


def keeps_in_list(n):
    in_list.append(torch.zeros(SIZE, **ON))


def keeps_in_dict(n):
    in_dict[n] = torch.zeros(SIZE, **ON)


def keeps_in_deque(n):
    in_deque.append(torch.zeros(SIZE, **ON))


def keeps_in_set(n):
    in_set.add(torch.zeros(SIZE, **ON))


def keeps_in_slot(n):
    node = Node()
    node.tensor = torch.zeros(SIZE, **ON)
    NODES.append(node)


def keeps_in_attribute(n):
    PLAINS.append(Plain({"x": torch.zeros(SIZE, **ON)}))


def keeps_in_class(n):
    Registry.items.append(torch.zeros(SIZE, **ON))


def keeps_in_default(n, cache=[]):  # noqa: B006
    cache.append(torch.zeros(SIZE, **ON))


def make():
    seen = []

    def keeps_in_closure(n):
        seen.append(torch.zeros(SIZE, **ON))

    return keeps_in_closure


keeps_in_closure = make()


@functools.lru_cache(maxsize=None)
def keeps_in_cache(n):
    return torch.zeros(SIZE, **ON)


def keeps_in_traceback(n):
    batch = torch.zeros(SIZE, **ON)
    try:
        raise ValueError(n)
    except ValueError as error:
        ERRORS.append(error)


def keeps_in_generator(n):
    def stream():
        value = torch.zeros(SIZE, **ON)
        yield 1
        yield value

    waiting = stream()
    next(waiting)
    WAITING.append(waiting)


def keeps_in_ctx(n):
    Cell.apply(leaf)


def keeps_in_cycle(n):
    one = Plain(torch.zeros(SIZE, **ON))
    one.other = Plain(one)


def keeps_in_graph_of_gradients(n):
    weight = torch.nn.Parameter(torch.zeros(SIZE, **ON))
    (weight * weight).sum().backward(create_graph=True)


def keeps_nothing(n):
    WEAK.append(weakref.ref(torch.zeros(SIZE, **ON)))


def worker(stop):
    mine = []
    for _ in range(40):
        keeps_in_thread(mine)
        time.sleep(0.001)
    stop.wait()


def keeps_in_thread(mine):
    mine.append(torch.zeros(SIZE, **ON))


def main():
    gc.disable()  # cycles stay
    Tomb()
    stop = threading.Event()
    if os.environ.get("OWNERS_THREAD"):
        threading.Thread(target=worker, args=(stop,), daemon=True).start()
    ways = [value for name, value in list(globals().items()) if name.startswith("keeps_") and name != "keeps_in_thread"]
    for n in range(40):
        step = torch.zeros(1, device="cuda")
        for way in ways:
            way(n)
        time.sleep(0.01)
        del step


main()
BEFORE.update(state())
