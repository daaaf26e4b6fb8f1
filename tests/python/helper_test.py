# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The recorder's part in the program's Python (shim/python/helper.py) and exceptions: its own failures are counted and never reach the program, what
the program raises while it runs goes through.

    python tests/python/helper_test.py [-v]
"""

import ctypes
import gc
import pathlib
import random
import signal
import sys
import threading
import types
import unittest
import weakref

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = "<gpumemshim>"  # as shim/python/api.cc names it


class Alarm(Exception):
    """The program's own, from a signal handler."""


def raise_alarm(*_):
    raise Alarm


class Handlers:
    method = staticmethod(raise_alarm)

    def bound(self, number, frame):
        raise_alarm()

    def __call__(self, number, frame):
        raise Alarm


class Record:
    """What shim/python/inject.cc and objects.cc are to the helper, as far as it needs them here."""

    Exception = Exception
    address, is_a = staticmethod(id), staticmethod(lambda thing, kind: any(base is kind for base in type.__dict__["__mro__"].__get__(type(thing))))
    modules, generation = staticmethod(lambda: sys.modules), staticmethod(lambda: 1)
    code = staticmethod(lambda function: function.__code__ if type(function) is types.FunctionType else None)
    callers = staticmethod(lambda: [frame.f_code for frame in traceback_frames()])
    instances = staticmethod(lambda kind: [each for each in gc.get_objects() if kind in type(each).__mro__])
    reference = staticmethod(lambda thing, number, ended: weakref.ref(thing))

    def __init__(self, reported):
        self.reported, self.ticks, self.tick_ns = reported, 0, 0

    def failed(self, text, is_last):
        self.reported.append((text.decode(), is_last))

    def clock(self):
        self.ticks += self.tick_ns
        return self.ticks


def traceback_frames():
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def helper():
    """The helper's globals, as if it had just come into this program."""
    reported = []
    scope = {"record": Record(reported), "__file__": FILE, "__name__": FILE, "reported": reported}
    source = "".join((ROOT / "shim" / "python" / f"{name}.py").read_text(encoding="utf-8") for name in ("plain", "model", "trainer", "helper", "guard"))
    scope["__code__"] = compile(source, FILE, "exec")
    exec(scope["__code__"], scope)  # noqa: S102
    return types.SimpleNamespace(**scope, scope=scope)


def as_ours(source, **names):
    """A function of the helper's own file."""
    exec(compile(source, FILE, "exec"), names)  # noqa: S102
    return names["function"]


failing = as_ours("def function(text='no names here'):\n    raise ValueError(text)")


class Unprintable(str):
    def __str__(self):
        raise SystemExit

    __repr__ = __format__ = encode = __str__


fail_unprintably = as_ours("def function():\n    raise RuntimeError(text)", text=Unprintable("no text"))


def call_of_the_program():
    raise ValueError("of the program")


class HelperTest(unittest.TestCase):
    def test_what_fails_in_our_own_code_is_our_failure(self):
        h = helper()
        h.guarded(failing)
        self.assertEqual(h.reported, [("ValueError in function: no names here", False)])

    def test_texts_of_errors_run_no_code(self):
        h = helper()
        h.guarded(fail_unprintably)
        self.assertEqual(h.reported, [("RuntimeError in function: no text", False)])

    def test_what_a_function_of_the_program_raises_goes_through(self):
        h = helper()
        with self.assertRaises(ValueError):
            h.guarded(call_of_the_program)
        for kind in (TimeoutError, Alarm, StopIteration, BlockingIOError):  # of no kind that our code raises: thrown in
            with self.assertRaises(kind):
                h.guarded(as_ours("def function():\n    raise kind", kind=kind))
        self.assertEqual(h.reported, [])

    def test_near_the_recursion_limit_it_is_tried_again(self):
        h = helper()
        for _ in range(5):
            h.guarded(as_ours("def function():\n    raise RecursionError('too deep')"))
        self.assertEqual(h.reported, [("RecursionError in function: too deep", False)])
        calls = []
        h.guarded(calls.append, 1)
        self.assertEqual(calls, [1])

    def test_it_is_off_after_the_third(self):
        h = helper()
        calls = []
        for _ in range(5):
            h.guarded(as_ours("def function():\n    calls.append(1)\n    raise ValueError", calls=calls))
        self.assertEqual(len(calls), 3)
        self.assertEqual([last for _, last in h.reported], [False, False, True])

    def test_what_a_signal_handler_raises_goes_through(self):
        before = signal.getsignal(signal.SIGUSR1)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        for handler in (raise_alarm, Handlers.method, Handlers().bound, Handlers()):
            h = helper()
            signal.signal(signal.SIGUSR1, handler)
            with self.subTest(handler=handler), self.assertRaises(Alarm):
                h.guarded(signal.raise_signal, signal.SIGUSR1)
            self.assertEqual(h.reported, [])

    def test_what_is_thrown_into_the_thread_goes_through(self):
        h = helper()
        throw = ctypes.pythonapi.PyThreadState_SetAsyncExc

        def wait():  # as a function of ours: its code bears our file's name
            scope = {}
            exec(compile("def wait():\n    for _ in range(10**9): pass\n", FILE, "exec"), scope)  # noqa: S102
            return scope["wait"]

        timer = threading.Timer(0.05, throw, (ctypes.c_ulong(threading.get_ident()), ctypes.py_object(Alarm)))
        timer.start()
        with self.assertRaises(Alarm):
            h.guarded(wait())
        timer.join()
        self.assertEqual(h.reported, [])

    def test_an_interrupt_goes_through(self):
        h = helper()
        with self.assertRaises(KeyboardInterrupt):
            h.guarded(signal.raise_signal, signal.SIGINT)
        with self.assertRaises(SystemExit):
            h.guarded(sys.exit, 3)
        self.assertEqual(h.reported, [])


class Node:
    """A module, to the walk: the plain dictionaries are what counts."""

    def __init__(self, children=(), parameters=(), buffers=()):
        self._modules, self._parameters, self._buffers = dict(children), dict(parameters), dict(buffers)


class Leaf:
    """A tensor."""


def walk(h, root):
    torch = types.SimpleNamespace(Module=Node, Tensor=Leaf, c={})
    return h.Walk(torch, root)


def named(root, prefix=""):
    """nn.Module.named_modules(remove_duplicate=False)."""
    yield prefix, root
    for name, child in root._modules.items():
        if child is not None:
            yield from named(child, prefix + ("." if prefix else "") + name)


def names_of(pairs):
    found = {}
    for name, thing in pairs:
        found.setdefault(id(thing), []).append(name)
    return {key: names[:9] for key, names in found.items()}


class WalkTest(unittest.TestCase):
    def test_names_are_those_of_nn_module(self):
        h = helper()
        for seed in range(200):
            choose = random.Random(seed)
            tensors = [Leaf() for _ in range(6)]
            nodes = []
            for _ in range(choose.randint(1, 14)):  # children are older: no cycles, many shared
                some = {f"c{i}": choose.choice([*nodes, None]) for i in range(choose.randint(0, 3))}
                nodes.append(Node(some, {f"p{i}": choose.choice([*tensors, None]) for i in range(2)}, {"b": choose.choice(tensors)}))
            root, found = nodes[-1], walk(h, nodes[-1])
            self.assertEqual({key: names for key, (_, names) in found.modules.items()}, names_of(named(root)))
            self.assertEqual(list(found.modules), list(names_of(named(root))))
            for ours, kind in ((found.parameters, "_parameters"), (found.buffers, "_buffers")):
                pairs = [(f"{prefix}.{name}".lstrip("."), tensor) for prefix, node in named(root) for name, tensor in getattr(node, kind).items() if tensor is not None]
                self.assertEqual({key: names for key, (_, names) in ours.items()}, names_of(pairs))
            self.assertEqual(found.cut, "")

    def test_what_never_ends(self):
        h = helper()
        itself = Node({"a": Node(parameters={"p": Leaf()})})
        itself._modules["a"]._modules["back"] = itself
        found = walk(h, itself)
        self.assertEqual([names for _, names in found.modules.values()], [[""], ["a"]])
        many = Node()
        for _ in range(60):
            many = Node({"left": many, "right": many})
        self.assertLess(walk(h, many).visits, 61 * 2 * 9 + 2)
        chain = Node()
        for _ in range(5000):
            chain = Node({"next": chain})
        found = walk(h, chain)
        self.assertLess(found.modules.__len__(), 300)
        self.assertIn("too deep", found.cut)

    def test_time_and_number_have_limits(self):
        h = helper()
        wide = Node({f"c{i}": Node() for i in range(1000)})
        h.record.tick_ns = 1_000_000_000
        found = walk(h, wide)
        self.assertIn("too long", found.cut)
        self.assertLess(found.visits, 300)
        h.scope["MOST_VISITS"], h.record.tick_ns = 100, 0
        found = walk(h, wide)
        self.assertIn("more modules", found.cut)
        self.assertEqual(found.visits, 101)

    def test_nothing_of_the_programs_is_called(self):
        def trap(*_, **__):
            raise SystemExit

        class Meta(type):
            __eq__ = __hash__ = __instancecheck__ = __subclasscheck__ = __getattribute__ = trap

        class Names(str):
            split = encode = __str__ = __add__ = __radd__ = __eq__ = trap
            __hash__ = str.__hash__

        class Held(dict):
            items = values = keys = get = __iter__ = __len__ = __getitem__ = __contains__ = trap

        class Hostile(Node, metaclass=Meta):
            __getattribute__ = __getattr__ = __eq__ = __hash__ = __bool__ = __len__ = __repr__ = trap
            __class__ = __dict__ = property(trap)
            __slots__ = ()

        root, child = Node(), object.__new__(Hostile)
        inner = Node.__dict__["__dict__"].__get__(child)
        inner.update(_modules=Held(), _parameters=Held({Names("p"): Leaf()}), _buffers=None)
        root._modules = Held({Names("child"): child, "none": None, "else": 3})
        found = walk(helper(), root)
        self.assertEqual([names for _, names in found.modules.values()], [[""], ["child"]])
        self.assertEqual([names for _, names in found.parameters.values()], [["child.p"]])
        self.assertIs(type(next(iter(found.parameters.values()))[1][0]), str)


class TrainerTest(unittest.TestCase):
    def test_counters_are_read_and_nothing_is_called(self):
        h = helper()

        class State:
            global_step = property(lambda self: 1 / 0)

        state, trainer = State(), State()
        trainer.__dict__["state"] = state
        state.__dict__.update(global_step=7, epoch=1.5)
        self.assertEqual(h.of_hugging_face(trainer), (8, 2))
        state.__dict__.update(global_step="7", epoch=float("inf"))
        self.assertEqual(h.of_hugging_face(trainer), (0, 1))
        self.assertEqual(h.of_lightning(trainer), (0, 0))
        state.__dict__.clear()
        self.assertEqual(h.of_hugging_face(trainer), (0, 1))  # a property
        trainer.__dict__["state"] = type("State", (), {"global_step": 0, "epoch": 2.5})()
        self.assertEqual(h.of_hugging_face(trainer), (1, 3))


if __name__ == "__main__":
    unittest.main()
