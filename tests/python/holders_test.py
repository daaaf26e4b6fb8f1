# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Who holds an object, and the chain of references that leads to it: of containers, closures, classes, slots, generators, on every Python that is found here.

    python tests/python/holders_test.py [-v]
"""

import collections
import dataclasses
import functools
import gc
import pathlib
import subprocess
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "tests" / "lib"))
sys.dont_write_bytecode = True

from gpumemshim import _holders  # noqa: E402

MAIN = "the global __main__."


class Leaf:
    """In the place of a tensor."""


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("kept",)


class Module:
    """As an nn.Module keeps its parts."""

    def __init__(self, parameters, modules):
        self._parameters, self._buffers, self._modules = parameters, {}, modules


class Hostile(dict):
    """None of its code may run."""

    def fail(self, *_):
        raise AssertionError("code of the program was run")

    __len__ = __iter__ = __getitem__ = __contains__ = items = keys = values = get = __hash__ = __eq__ = __getattribute__ = fail


@dataclasses.dataclass
class Batch:
    images: object
    extra: dict


class WithAttribute:
    shared = Leaf()


Pair = collections.namedtuple("Pair", "left right")


def closure_of(leaf):
    def inner():
        return leaf

    return inner


def generator_of(leaf):
    yield leaf


def with_default(leaf=Leaf()):  # noqa: B008
    return leaf


def with_attribute():
    """A function with an attribute."""


def with_cache(leaf):
    return leaf


CACHE, LIST, ALONE, NESTED, QUEUE, STATES = {310: Leaf()}, [Leaf()], Leaf(), {"a": {"b": [Leaf()]}}, collections.deque([Leaf(), Leaf()]), collections.defaultdict(list)
STATES[7].append(Leaf())
OBJECT, BATCH, SLOTS = Plain(inner=Plain(deep=[Leaf()])), Batch(Leaf(), {"mask": Leaf()}), Slotted()
SLOTS.kept = Leaf()
INNER, GENERATOR, PARTIAL, PAIR = closure_of(Leaf()), generator_of(Leaf()), functools.partial(print, Leaf()), Pair(1, Leaf())
next(GENERATOR)
with_attribute.memo = Leaf()
IN_A_SET = {(1, Leaf())}
MODEL = [Module({}, {"0": Module({"weight": Leaf()}, {})})]
KEYS = {Leaf(): 1}
HOSTILE = [Hostile()]
dict.__setitem__(HOSTILE[0], "key", Leaf())
sys.modules["made_up_settings"] = types.ModuleType("made_up_settings")
sys.modules["made_up_settings"].table = Leaf()


class HoldersTest(unittest.TestCase):
    def held(self, *leaves):
        objects = [each for each in gc.get_objects() if each is not leaves]  # our own
        found = _holders.holders_of(list(leaves), objects)
        return [found[id(leaf)] for leaf in leaves]

    def check(self, leaf, chain, holder=None):
        ((texts, found),) = self.held(leaf)
        self.assertEqual(found, chain)
        self.assertIn(holder or chain, texts)

    def test_containers(self):
        self.check(CACHE[310], MAIN + "CACHE[310]")
        self.check(LIST[0], MAIN + "LIST[0]")
        self.check(ALONE, MAIN + "ALONE")
        self.check(NESTED["a"]["b"][0], MAIN + "NESTED['a']['b'][0]")
        self.check(QUEUE[1], MAIN + "QUEUE[1]")
        self.check(STATES[7][0], MAIN + "STATES[7][0]")
        self.check(PAIR.right, MAIN + "PAIR[1]")
        self.check(next(iter(next(iter(IN_A_SET))[1:])), MAIN + "IN_A_SET{...}[1]")
        self.check(next(iter(KEYS)), MAIN + "KEYS.keys()")
        self.check(sys.modules["made_up_settings"].table, "the global made_up_settings.table")

    def test_objects(self):
        self.check(OBJECT.inner.deep[0], MAIN + "OBJECT.inner.deep[0]", "Plain.deep[0]")
        self.check(BATCH.images, MAIN + "BATCH.images", "Batch.images")
        self.check(BATCH.extra["mask"], MAIN + "BATCH.extra['mask']", "Batch.extra['mask']")
        self.check(SLOTS.kept, MAIN + "SLOTS.kept", "Slotted.kept")
        self.check(PARTIAL.args[0], MAIN + "PARTIAL.args[0]", "partial.args[0]")
        self.check(MODEL[0]._modules["0"]._parameters["weight"], MAIN + "MODEL[0].0.weight", "Module.weight")
        self.check(WithAttribute.shared, "the class WithAttribute.shared")

    def test_functions(self):
        self.check(INNER(), "the closure of closure_of.<locals>.inner.leaf")
        self.check(with_default(), "the defaults of with_default[0]")
        self.check(with_attribute.memo, "the function with_attribute.memo")
        leaf = next(each for each in (*gc.get_referents(GENERATOR), *gc.get_referents(*gc.get_referents(GENERATOR))) if type(each) is Leaf)
        if sys.version_info >= (3, 11):  # before, a frame is an object of its own, and frames are not looked at
            self.check(leaf, "the generator generator_of")

    def test_a_local_variable_has_no_chain(self):
        leaf = Leaf()
        self.assertEqual(self.held(leaf), [([], "")])
        kept = [leaf]
        self.assertEqual(self.held(leaf), [(["a list of 1"], "")])
        kept.append({"key": kept})  # around in a circle
        self.assertEqual(self.held(leaf), [(["a list of 2"], "")])

    def test_no_code_of_the_program_runs(self):
        leaf = dict.__getitem__(HOSTILE[0], "key")
        self.assertEqual(self.held(leaf), [([MAIN + "HOSTILE[0]['key']"], MAIN + "HOSTILE[0]['key']")])

    def test_many_in_one_container(self):
        """Each is looked up, none of them by a search."""
        leaves = [Leaf() for _ in range(4_000)]
        chains = [chain for _, chain in self.held(*leaves)]
        self.assertEqual(set(chains), {""})
        LIST[1:] = leaves
        try:
            self.assertEqual([chain for _, chain in self.held(*leaves)][-1], MAIN + "LIST[4000]")
        finally:
            del LIST[1:]


class EveryPython(unittest.TestCase):
    def test_each_that_is_found(self):
        import interpreters

        pythons = [python for python in interpreters.find() if python.path != sys.executable]
        print(f"  also {[python.version for python in pythons]}", file=sys.stderr)
        for python in pythons:
            with self.subTest(python=python.version):
                done = subprocess.run([python.path, "-S", __file__, *(f"HoldersTest.test_{name}" for name in ("containers", "objects", "functions"))], capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
