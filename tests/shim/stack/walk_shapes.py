# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Ways in which Python runs Python. Each shape takes `inner`, a function without arguments, and calls it once or twice in its own way."""

import asyncio
import contextlib
import itertools
import threading

SHAPES = []


def shape(function):
    SHAPES.append(function)
    return function


@shape
def plain(inner):
    inner()


@shape
def many_lines(inner):
    values = [
        1,
        inner(),
        2,
    ]
    return dict(
        a=values,
        b=inner(
        ),
    )


@shape
def recursion(inner, depth=6):
    return recursion(inner, depth - 1) if depth else inner()


@shape
def closure(inner):
    cell = 1

    def nested(a, *rest, b=2, **more):
        return (lambda: (cell, inner()))()

    nested(1, 2, c=3)


@shape
def comprehensions(inner):
    [inner() for _ in range(1)]
    {inner(): _ for _ in range(1)}


@shape
def generator_expression(inner):
    sum(inner() or 0 for _ in range(1))


@shape
def nested_comprehension(inner):
    [[inner() for _ in range(1)] for _ in [y for y in range(1)]]


@shape
def generator(inner):
    def numbers():
        try:
            yield 1
            inner()
            yield 2
        finally:
            inner()

    for _ in numbers():
        pass


@shape
def resumed_elsewhere(inner):
    def steps():
        while True:
            yield
            inner()

    def step(depth):
        return next(running) if depth == 0 else step(depth - 1)

    running = steps()
    next(running)
    step(0)
    step(3)
    running.close()


@shape
def yield_from(inner):
    def leaf():
        received = yield 1
        inner()
        return received

    def branch():
        return (yield from leaf())

    running = branch()
    next(running)
    with contextlib.suppress(StopIteration):
        running.send(5)


@shape
def thrown_into(inner):
    def waits():
        try:
            yield
        except KeyError:
            inner()

    running = waits()
    next(running)
    with contextlib.suppress(StopIteration):
        running.throw(KeyError("thrown"))


def run(coroutine):
    """Without a loop, so that it works inside of another one."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value


@shape
def coroutine(inner):
    class Pause:
        def __await__(self):
            yield

    async def leaf():
        await Pause()
        inner()

    async def branch():
        await leaf()

    run(branch())


@shape
def asynchronous_generator(inner):
    async def numbers():
        yield 1
        inner()
        yield 2

    class Manager:
        async def __aenter__(self):
            inner()

        async def __aexit__(self, *_):
            pass

    async def reads():
        async with Manager():
            return [number async for number in numbers()]

    run(reads())


@shape
def event_loop(inner):
    """In a thread of its own: loops do not nest."""

    async def leaf():
        await asyncio.sleep(0)
        inner()

    async def both():
        await asyncio.gather(leaf(), leaf())

    in_thread(lambda: asyncio.run(both()))


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@shape
def thread(inner):
    in_thread(inner)


@shape
def exception_in_flight(inner):
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            inner()
            raise KeyError from error
    except KeyError:
        inner()


@shape
def finally_while_unwinding(inner):
    def raises():
        try:
            raise ValueError
        finally:
            inner()

    with contextlib.suppress(ValueError):
        raises()


@shape
def with_statement(inner):
    class Manager:
        def __enter__(self):
            inner()

        def __exit__(self, *_):
            inner()

    with Manager():
        pass


@shape
def context_manager(inner):
    @contextlib.contextmanager
    def managed():
        inner()
        yield
        inner()

    with managed():
        pass


ODD_FILES = ["", "<string>", "<eval_with_key>.17", "tab\tline\nquote'\"", "é", "包", "😀.py", "\udcff lone", "very " * 400 + "long"]


def odd_names():
    return ["f", "é", "包装", "x" * 700, "_" * 300 + "é" * 300, "𝔘𝔫𝔦"]


@shape
def executed(inner, counter=itertools.count()):
    """Each time another pair of odd names."""
    number = next(counter)
    names = {"inner": inner}
    function = odd_names()[number % len(odd_names())]
    source = f"{chr(10) * (number % 300)}def {function}():\n\n  return (lambda: inner())()\n{function}()\n"
    exec(compile(source, ODD_FILES[number % len(ODD_FILES)], "exec"), names)
    eval(compile("inner()", ODD_FILES[-number % len(ODD_FILES)], "eval"), names)


@shape
def huge_function(inner, made={}):
    """Long line table, far jumps, lines that go back."""
    if not made:
        body = "".join(f"  x{i} = {i}\n" + "\n" * (i % 200) for i in range(300))
        loop = "".join(f"   x{i} = x{i + 1} = inner if False else {i}\n" for i in range(300))
        source = f"def huge(inner):\n{body}  for _ in range(1):\n{loop}\n   inner(\n   )\n  return (inner(),\n\n" + " 1,\n" * 300 + "inner())\n"
        exec(compile(source, "huge.py", "exec"), made)
    made["huge"](inner)


def newer(source):
    """Syntax that older versions do not have; the shape is left out where it cannot be compiled."""
    try:
        names = {}
        exec(compile(source, "newer.py", "exec"), names)
    except SyntaxError:
        return
    SHAPES.append(names["newer"])


newer("def newer(inner):\n match inner():\n  case 1 if inner(): pass\n  case _:\n   inner()\n")
newer("def newer(inner):\n try:\n  raise ExceptionGroup('g', [ValueError()])\n except* ValueError:\n  inner()\n")
newer("def newer[T](inner: T):\n type A = inner()\n A.__value__\n")
newer("def newer(inner):\n f'''{\n inner()\n }'''\n")

try:
    import greenlet
except ImportError:
    greenlet = None

if greenlet:

    @shape
    def switched(inner):
        def first():
            inner()
            other.switch()
            inner()

        def second():
            inner()
            one.switch()

        one, other = greenlet.greenlet(first), greenlet.greenlet(second)
        one.switch()
