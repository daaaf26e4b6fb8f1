# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Memory of code that torch.compile generated has the line and the module of the program that it computes; a line that the program has no more is none.

    python tests/e2e/compiled_regions_test.py --build build/release
"""

import argparse
import json
import pathlib
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "compiled_regions.py"


def line_of(text):
    lines = PROGRAM.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"  # TRUTH of {text}"))


class CompiledRegionsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-compiled-")
        cls.addClassCleanup(folder.cleanup)
        cls.trace = str(pathlib.Path(folder.name) / "run.gmtrace")
        environment = truth.environment_of(truth.Case("none"), SETUP)
        truth.run(SETUP.recording(pathlib.Path(cls.trace), *SETUP.command(PROGRAM), "40"), SETUP, environment)

    def ask(self, command, *rest):
        return truth.run([SETUP.gpumem, command, self.trace, *rest], SETUP)

    def blocks(self, size):
        statement = f"select distinct line, module, category, evidence from blocks where layer = 'torch' and size = {size} and kept"
        rows = json.loads(self.ask("sql", statement, "--json"))["rows"]
        return [{**row, "line": row["line"].rpartition("/")[2]} for row in rows]

    def test_a_line_and_the_module_around_all_that_it_may_be(self):
        line = f"compiled_regions.py:{line_of('buf0 and buf1')} Block.forward"
        for size in (1024 * 512 * 4, 1024 * 256 * 4):
            with self.subTest(size):
                rows = [row for row in self.blocks(size) if row["line"] == line]
                self.assertEqual({row["module"] for row in rows}, {"layers"})
                self.assertIn(("kept", "rule"), {(row["category"], row["evidence"]) for row in rows})

    def test_a_line_that_the_program_has_no_more(self):
        lines = {row["line"] for row in self.blocks(1024 * 4)}
        self.assertEqual(lines, {f"compiled_regions.py:{line_of('buf2')} Net.forward"})

    def test_what_grows_is_the_programs(self):
        growth = self.ask("leaks")
        self.assertIn(f"compiled_regions.py:{line_of('buf0 and buf1')} Block.forward", growth)
        for text in growth.splitlines():
            self.assertNotRegex(text, "^ .*[0-9] .*compiled code", "generated code is no line")


class CompiledGraphsTest(unittest.TestCase):
    """Of backends that run the graph of torch.fx as it is: what is kept has the line and the module that made it, not the first line of what was compiled."""

    def lines(self, backend):
        program = truth.PROGRAMS / "compiled_graphs.py"
        with tempfile.TemporaryDirectory(prefix="gpumemshim-graphs-") as folder:
            trace = pathlib.Path(folder) / "run.gmtrace"
            truth.run(SETUP.recording(trace, *SETUP.command(program), backend), SETUP, truth.environment_of(truth.Case("none"), SETUP))
            statement = f"select line, module, count(*) as count from blocks where layer = 'torch' and size = {3000 * 512 * 4} group by all"
            rows = json.loads(truth.run([SETUP.gpumem, "sql", str(trace), statement, "--json"], SETUP))["rows"]
        return {(row["line"].rpartition("/")[2], row["module"]): row["count"] for row in rows}

    def test_every_block_has_its_line(self):
        program = (truth.PROGRAMS / "compiled_graphs.py").read_text().splitlines()
        line = lambda text: next(number for number, each in enumerate(program, 1) if each.endswith(f"  # TRUTH of {text}"))
        for backend in ("eager", "aot_eager"):
            with self.subTest(backend):
                lines = self.lines(backend)
                self.assertIn((f"compiled_graphs.py:{line('the product')} Block.forward", "layers"), lines)
                self.assertIn((f"compiled_graphs.py:{line('relu')} Block.forward", "layers"), lines)
                # Four outputs that are kept, and what the backward pass makes of their gradients.
                self.assertEqual(lines[(f"compiled_graphs.py:{line('the output')} Net.forward", "(OptimizedModule)")], 8, lines)
                self.assertNotIn("(GraphModule)", {module for _, module in lines})


if __name__ == "__main__":
    SETUP, _, (program, *rest) = truth.setup_of_tests(argparse.ArgumentParser())
    unittest.main(argv=[program, *rest])
