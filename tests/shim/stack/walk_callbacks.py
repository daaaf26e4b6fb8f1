# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""More shapes: where C code calls Python back."""

import copy
import ctypes
import functools
import gc
import itertools
import json
import operator
import re
import signal
import sys
import threading
import weakref

from walk_shapes import shape

library = None  # the probe; set by walk_test


def décoré(function):
    @functools.wraps(function)
    def 包装(*arguments):
        return function(*arguments)

    return 包装


@shape
def decorated(inner):
    @décoré
    @functools.lru_cache(maxsize=None)
    @décoré
    def decorated_twice():
        return inner()

    decorated_twice()


@shape
def sort_key(inner):
    sorted([2, 1], key=lambda x: (inner(), x)[1])


class Compared:
    def __init__(self, inner):
        self.inner = inner

    def __lt__(self, other):
        self.inner()
        return True

    def __eq__(self, other):
        self.inner()
        return True

    def __hash__(self):
        self.inner()
        return 1

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.inner()

    def __getitem__(self, index):
        if index:
            raise IndexError
        return self.inner()

    def __add__(self, other):
        return self.inner()

    def __call__(self, *_):
        return self.inner()

    def __bool__(self):
        self.inner()
        return True

    def __str__(self):
        self.inner()
        return ""

    def __deepcopy__(self, memo):
        self.inner()
        return self

    @property
    def prop(self):
        return self.inner()


@shape
def operators(inner):
    value = Compared(inner)
    value + value
    value == value
    value < value
    value()


@shape
def implicit_calls(inner):
    value = Compared(inner)
    f"{value}"
    {value: 1}
    list(value)
    if value:
        value.prop


@shape
def attribute(inner):
    getattr(Compared(inner), "absent")
    operator.attrgetter("other")(Compared(inner))


@shape
def deep_copy(inner):
    copy.deepcopy([Compared(inner)])


@shape
def functools_reduce(inner):
    functools.reduce(lambda a, b: inner(), range(2))


@shape
def mapped(inner):
    list(map(lambda _: inner(), range(1)))
    list(filter(lambda _: inner(), range(1)))


@shape
def iterators(inner):
    list(itertools.starmap(lambda a, b: inner(), [(1, 2)]))
    functools.partial(lambda a: inner(), 1)()


@shape
def regular_expression(inner):
    re.sub("a", lambda _: str(inner()), "a")


@shape
def json_hook(inner):
    json.loads('{"a": 1}', object_hook=lambda _: inner())


@shape
def ctypes_callback(inner):
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    library.CallBack(prototype(lambda value: inner() and value), 1)


@shape
def holding_the_gil(inner):
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int)
    ctypes.PyDLL(library._name).CallBack(prototype(lambda value: inner() and value), 1)


@shape
def class_body(inner):
    class Meta(type):
        def __new__(cls, name, bases, namespace):
            inner()
            return super().__new__(cls, name, bases, namespace)

    class Base(metaclass=Meta):
        inner()

        def __init_subclass__(cls, **_):
            inner()

        class Within:
            inner()

    class Derived(Base):
        pass


@shape
def finalizer(inner):
    class Dropped:
        def __del__(self):
            inner()

    Dropped()


@shape
def collected(inner):
    class Cycle:
        def __del__(self):
            inner()

    cycle = Cycle()
    cycle.self = cycle
    del cycle
    gc.collect(0)


@shape
def weak_callback(inner):
    class Referent:
        pass

    referent = Referent()
    reference = weakref.ref(referent, lambda _: inner())
    del referent
    return reference


@shape
def signal_handler(inner):
    if threading.current_thread() is not threading.main_thread():
        return inner()
    before = signal.signal(signal.SIGUSR1, lambda *_: inner())
    signal.raise_signal(signal.SIGUSR1)
    for _ in range(10):
        pass
    signal.signal(signal.SIGUSR1, before)


def traced_with(set_function, inner):
    def tracer(frame, event, argument):
        if frame.f_code is traced.__code__:
            set_function(None)
            inner()
        return tracer

    def traced():
        return 1

    set_function(tracer)
    traced()
    set_function(None)


@shape
def trace_function(inner):
    traced_with(sys.settrace, inner)


@shape
def profile_function(inner):
    traced_with(sys.setprofile, inner)


@shape
def while_traced(inner):
    sys.settrace(lambda *_: None)
    try:
        inner()
    finally:
        sys.settrace(None)
