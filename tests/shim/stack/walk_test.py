# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The shim's own walk against sys._getframe: equal in function, file, first line and instruction, at many points.

usage: walk_test.py <libshim_stack_walk_probe.so>
"""
import asyncio
import ctypes
import functools
import sys
import threading

probe = ctypes.CDLL(sys.argv[1])
BUFFER = ctypes.create_string_buffer(1 << 20)
QUALIFIED = sys.version_info >= (3, 11)
checks = 0
stacks_by_hash = {}


def ours():
    local = ctypes.create_string_buffer(1 << 20)
    size = probe.WalkInto(local, len(local))
    return local.raw[:size].decode()


def theirs(frame):
    rows = []
    while frame is not None:
        code = frame.f_code
        name = code.co_qualname if QUALIFIED else code.co_name
        rows.append((name, code.co_filename, code.co_firstlineno, frame.f_lasti))
        frame = frame.f_back
    return rows


def check():
    global checks
    text = ours()
    assert not text.startswith("REFUSED"), text
    got = []
    stack_hash, _, text = text.partition("\n")
    # One hash never names two stacks. (One stack may have two hashes: its code objects may have been made twice.)
    assert stacks_by_hash.setdefault(stack_hash, text) == text, stack_hash
    for row in text.splitlines():
        name, filename, first_line, instruction = row.split("\t")
        got.append((name, filename, int(first_line), int(instruction)))
    got = got[1:]  # ours() itself
    want = theirs(sys._getframe())
    # check() has gone on since: only its function counts. All frames outside of it stand still.
    assert got[0][:3] == want[0][:3], (got[0], want[0])
    # PyPy-like delays aside, an offset may stand anywhere within one instruction and its inline cache.
    for mine, other in zip(got[1:], want[1:]):
        assert mine[:3] == other[:3], (mine, other)
        assert mine[3] == other[3], (mine, other)
    assert len(got) == len(want), (len(got), len(want))
    checks += 1
    return True


def recurse(depth):
    return check() if depth == 0 else recurse(depth - 1)


def generator():
    for _ in range(3):
        check()
        yield from inner_generator()


def inner_generator():
    check()
    yield 1


async def coroutine(depth):
    check()
    if depth:
        await asyncio.sleep(0)
        await coroutine(depth - 1)


class Thing:
    def __init__(self):
        check()

    @property
    def value(self):
        return check()

    def __enter__(self):
        check()
        return self

    def __exit__(self, *_):
        check()

    def __lt__(self, other):
        return check()

    def __del__(self):
        check()

    @staticmethod
    def nested():
        return (lambda: [check() for _ in range(2)])()


def décoré(function):
    @functools.wraps(function)
    def 包装(*args):
        check()
        return function(*args)
    return 包装


@décoré
def decorated(x):
    return check() and x


def exceptions():
    try:
        raise ValueError
    except ValueError:
        check()
    finally:
        check()


def code_objects_at_reused_addresses():
    """Each is freed before the next is made, and runs in the frame that the one before ran in."""
    hashes_before = len(stacks_by_hash)
    addresses = set()
    for i in range(300):
        code = compile(f"def f{i}(): return check()\nresult = f{i}()", "again", "exec")
        addresses.add(id(code.co_consts[0]))
        names = {"check": check}
        exec(code, names)
        del code, names
    assert len(addresses) < 300, "no address was used twice: nothing was tested"
    assert len(stacks_by_hash) == hashes_before + 300


def resume_at_other_depths():
    def steps():
        while True:
            yield check()

    def step_at(depth, generator):
        return next(generator) if depth == 0 else step_at(depth - 1, generator)

    hashes_before = len(stacks_by_hash)
    generator = steps()
    for _ in range(3):
        for depth in range(10):
            step_at(depth, generator)
    # Each depth its own; a call may also stand at another instruction once the interpreter has specialized it.
    met = list(stacks_by_hash.values())[hashes_before:]
    assert len(met) == len(set(met)) >= 10


def main():
    for depth in (0, 1, 5, 50, 150):
        recurse(depth)
    list(generator())
    asyncio.run(coroutine(4))
    with Thing() as thing:
        thing.value
        thing.nested()
        sorted([thing, Thing(), Thing()])
    del thing
    exceptions()
    decorated(1)
    list(map(lambda _: check(), range(10)))
    functools.reduce(lambda a, b: check(), range(5))
    max([1, 2], key=lambda _: check())
    eval("check()")
    for name in ("latin1 é", "ucs2 包", "ucs4 😀"):
        exec(compile("def f():\n  return check()\nf()", name, "exec"), globals())
    code_objects_at_reused_addresses()
    resume_at_other_depths()
    threads = [threading.Thread(target=recurse, args=(20,)) for _ in range(4)]
    for thread in threads:
        thread.start()
        thread.join()
    print(f"python {sys.version_info[0]}.{sys.version_info[1]}: {checks} stacks equal")
    assert checks > 50


main()
