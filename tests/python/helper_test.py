# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The recorder's part in the program's Python (shim/python/helper.py) and exceptions: its own failures are counted and never reach the program, what
the program raises while it runs goes through.

    python tests/python/helper_test.py [-v]
"""

import ctypes
import pathlib
import signal
import sys
import threading
import types
import unittest

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


def helper():
    """The helper's globals, as if it had just come into this program."""
    said = []
    record = types.SimpleNamespace(sys=sys, failed=lambda text, is_last: said.append((text.decode(), is_last)))
    scope = {"record": record, "__file__": FILE, "__name__": FILE, "said": said}
    source = "".join((ROOT / "shim" / "python" / name).read_text(encoding="utf-8") for name in ("helper.py", "trainer.py"))
    exec(compile(source, FILE, "exec"), scope)  # noqa: S102
    return types.SimpleNamespace(**scope, scope=scope)


def failing(text="no names here"):
    raise ValueError(text)


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def fail_unprintably():
    raise Unprintable


class HelperTest(unittest.TestCase):
    def test_a_method_of_the_program_that_fails_is_our_failure(self):
        h = helper()
        h.guarded(failing)
        self.assertEqual(h.said, [("ValueError in failing: no names here", False)])

    def test_an_own_exception_of_the_program_from_its_method_too(self):
        h = helper()
        h.guarded(fail_unprintably)
        self.assertEqual(h.said, [("Unprintable in fail_unprintably: ?", False)])

    def test_it_is_off_after_the_third(self):
        h = helper()
        calls = []
        for _ in range(5):
            h.guarded(lambda: (calls.append(1), failing()))
        self.assertEqual(len(calls), 3)
        self.assertEqual([last for _, last in h.said], [False, False, True])

    def test_what_a_signal_handler_raises_goes_through(self):
        before = signal.getsignal(signal.SIGUSR1)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        for handler in (raise_alarm, Handlers.method, Handlers().bound, Handlers()):
            h = helper()
            signal.signal(signal.SIGUSR1, handler)
            with self.subTest(handler=handler), self.assertRaises(Alarm):
                h.guarded(signal.raise_signal, signal.SIGUSR1)
            self.assertEqual(h.said, [])

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
        self.assertEqual(h.said, [])

    def test_an_interrupt_goes_through(self):
        h = helper()
        with self.assertRaises(KeyboardInterrupt):
            h.guarded(signal.raise_signal, signal.SIGINT)
        with self.assertRaises(SystemExit):
            h.guarded(sys.exit, 3)
        self.assertEqual(h.said, [])


if __name__ == "__main__":
    unittest.main()
