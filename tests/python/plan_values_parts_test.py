# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Parts of what `gpumemshim plan` runs in a program, without PyTorch: numbers that know what they are compared with (compared.py), and how long loops are (loop_bounds.py).

    python tests/python/plan_values_parts_test.py
"""

import json
import pathlib
import pickle
import sys
import tempfile
import types
import unittest

LAUNCH = pathlib.Path(__file__).resolve().parents[2] / "planner" / "launch"


def part(name):
    path = LAUNCH / f"{name}.py"
    scope = {"__name__": f"gpumem_{name}", "__file__": str(path)}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    return scope


class Compared(unittest.TestCase):
    def number(self, other="flip", at="", value=64, natural=0, most=None):
        self.notes = {}
        decisions = types.SimpleNamespace(run=types.SimpleNamespace(notes=self.notes), other=other, at=at, gives_another=lambda frame: not at)
        self.comparisons = part("compared")["Comparisons"](decisions)
        return self.comparisons.watched(value, natural, most)

    def test_each_comparison_goes_the_other_way(self):
        token = self.number()
        self.assertTrue(token == 7)
        self.assertTrue(7 == token)
        self.assertFalse(token < 5)
        self.assertTrue(token % 10 + 1 == 8)
        self.assertTrue(token in (7, 9))
        self.assertTrue(bool(token))
        self.assertTrue(-token & 7 == 3)
        self.assertTrue(round(token / 3) == 5)
        self.assertEqual(len(self.notes["compared"]), 8)

    def test_ranges_that_both_ends_miss(self):
        for mode, between, below in (("true", True, True), ("false", False, False)):
            loss = self.number(mode, value=1e4, natural=0.0)
            self.assertIs(0.3 < loss < 0.7, between)
            self.assertIs(loss < -1, below)

    def test_one_place_alone(self):
        def chosen(token):
            return "five" if token == 5 else "six" if token == 6 else "none"

        chosen(self.number("false"))
        places = list(self.notes["compared"])
        self.assertEqual(len(places), 2)
        self.assertEqual([chosen(self.number(at=place)) for place in places], ["five", "six"])

    def test_a_position_is_never_beyond_its_range(self):
        best = self.number(value=7, natural=0, most=8)
        self.assertFalse(best < 0)
        self.assertTrue(best < 8)
        self.assertFalse(best == -1)
        self.assertEqual(self.notes, {})

    def test_what_is_looked_up_or_made_plain_is_open(self):
        self.assertIsNone({3: 1}.get(self.number()))
        self.assertIn("compared_open", self.notes)
        plain = int(self.number())
        self.assertEqual(plain == 64, "compared_open" in self.notes)
        kind = int(self.number())
        self.assertFalse(kind.dtype == 3 if hasattr(kind, "dtype") else False)
        self.assertNotIn("compared_open", self.notes)
        repr(int(self.number()))
        self.assertNotIn("compared_open", self.notes)

    def test_a_loop_that_waits_for_it_ends(self):
        token, turns = self.number("true"), 0
        while token == 5:
            turns += 1
            self.assertLess(turns, 5000)
        self.assertGreaterEqual(turns, 1000)
        self.assertIn("compared_open", self.notes)

    def test_it_is_a_number_to_whoever_gets_it(self):
        loss = self.number(value=2.5, natural=0.0)
        self.assertEqual((f"{loss:.1f}", json.dumps(loss), type(pickle.loads(pickle.dumps(loss)))), ("2.5", "2.5", float))
        self.assertIsInstance(loss, float)
        self.assertEqual(type(sum([loss, loss]).__reduce__()[1][0]), float)
        self.assertEqual(loss / self.number() != 0, False)  # 0 / 0 in the simulation
        self.assertEqual(self.number() is None, False)


class LoopBounds(unittest.TestCase):
    def setUp(self):
        self.most = part("loop_bounds")["most_turns"]
        self.names = {"most": lambda: self.most(sys._getframe(1)), "__name__": "__main__"}

    def turns(self, text):
        """What is known inside of the loops of a program of that text."""
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
            file.write(text)
        self.addCleanup(pathlib.Path(file.name).unlink)
        exec(compile(text, file.name, "exec"), self.names)
        return self.names["found"]

    def test_of_ranges_lists_and_limits(self):
        self.assertEqual(self.turns("for step in range(200):\n    found = most()\n"), 200)
        self.assertEqual(self.turns("n = 3\nfor epoch in range(n):\n    for i, b in enumerate([1, 2]):\n        found = most()\n"), 6)
        self.assertEqual(self.turns("s = 0\nwhile s <= 4:\n    found = most()\n    s += 1\n"), 5)
        self.assertEqual(self.turns("rows = list(range(9))\nfor k in range(0, len(rows) // 4 * 4, 4):\n    found = most()\n"), 2)
        self.assertEqual(self.turns("found = most()\n"), 1)

    def test_of_functions_that_call_each_other(self):
        text = "def one():\n    for b in zip(range(5), 'abc'):\n        result = most()\n    return result\n\ndef all():\n    for e in range(4):\n        result = one()\n    return result\nfound = all()\n"
        self.assertEqual(self.turns(text), 12)

    def test_what_is_not_understood_has_none(self):
        for text in (
            "while True:\n    found = most()\n    break\n",
            "for b in map(str, range(3)):\n    found = most()\n",
            "def rows():\n    yield 1\nfor b in rows():\n    found = most()\n",
            "class Own:\n    def __len__(self):\n        raise SystemExit\n    def __iter__(self):\n        return iter([1])\nfor b in Own():\n    found = most()\n",
        ):
            with self.subTest(text=text):
                self.assertIsNone(self.turns(text))


if __name__ == "__main__":
    unittest.main()
