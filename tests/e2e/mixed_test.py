# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Mixed stacks of real PyTorch: the script's line, modules, operators, kernels and the allocator in the order in which they called each other.

    python tests/e2e/mixed_test.py --build build/release
"""

import json
import pathlib
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "mixed.py"


def name_of(frame):
    return f"{pathlib.Path(frame['file']).name}:{frame['function']}" if frame["python"] else frame["function"]


def is_mark(frame):
    return frame["function"].startswith("<backward of ")


def in_order(wanted, names):
    """Whether each of `wanted` is a part of a name that stands behind the one before it."""
    rest = iter(names)
    return all(any(part in name for name in rest) for part in wanted)


class Definitions:
    """What a trace defines, from `gpumemshim export packets --json`: for stacks that no report lists."""

    def __init__(self, packets):
        self.frames, self.codes, self.nodes = {}, {}, {}
        for packet in packets:
            definitions = packet["data"] if packet["type"] == "definitions" else {}
            self.frames.update((frame["id"], frame) for frame in definitions.get("frames", []))
            self.codes.update((code["id"], code) for code in definitions.get("python_codes", []))
            for nodes in definitions.get("stacks", []):
                for i, (parent, frame) in enumerate(zip(nodes["parent"], nodes["frame"])):
                    self.nodes[int(nodes["first_id"]) + i] = int(parent), frame

    def names(self, stack):
        """Innermost first: "file.py:function" for Python, "native" for the rest."""
        names = []
        while stack:
            stack, frame = self.nodes[stack]
            code = self.codes.get(self.frames[frame].get("python_code"))
            names.append(f"{pathlib.Path(code['filename']).name}:{code['name']}" if code else "native")
        return names


class StacksTest(unittest.TestCase):
    """A program, recorded once for each choice of native frames."""

    program = natives = None
    traces = {}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-mixed-")
        cls.addClassCleanup(folder.cleanup)
        cls.traces = {}
        for native in cls.natives:
            trace = pathlib.Path(folder.name) / f"{native}.gmtrace"
            environment = truth.environment_of(truth.Case("none"), SETUP)
            command = SETUP.recording(trace, *SETUP.command(cls.program), options=("--native", native))
            truth.run(command, SETUP, environment)
            cls.traces[native] = trace

    def stacks(self, native):
        """Every stack that held memory at the end, each a list of frames, innermost first. The program keeps what it allocates."""
        answer = json.loads(truth.run([SETUP.gpumem, "leaks", "--json", str(self.traces[native])], SETUP))
        found = []

        def collect(node):
            if isinstance(node, dict):
                if "frames" in node and "hash" in node:
                    found.append(node)
                for key, value in node.items():
                    if key != "growth":  # between two moments that are not the same in every run
                        collect(value)
            elif isinstance(node, list):
                for value in node:
                    collect(value)

        collect(answer)
        self.assertTrue(found, "no stacks in the answer")
        return found

    def assert_some_stack(self, native, wanted):
        for stack in self.stacks(native):
            names = [name_of(frame) for frame in stack["frames"]]
            if in_order(wanted, names):
                return names
        shown = "\n\n".join("\n".join(name_of(frame) for frame in stack["frames"]) for stack in self.stacks(native))
        self.fail(f"no stack with {wanted} in this order:\n{shown}")


class CompiledTest(StacksTest):
    program, natives = truth.PROGRAMS / "compiled.py", ("cut",)

    def test_code_that_was_made_at_run_time(self):
        self.assert_some_stack("cut", ("at::native::", "<eval_with_key>", "compiled.py:scaled", "compiled.py:<module>"))

    def test_its_backward(self):
        """Python again, on the thread of the backward pass."""
        self.assert_some_stack("cut", ("at::native::", "<eval_with_key>", "function.py:BackwardCFunction.apply"))


class MixedTest(StacksTest):
    program, natives = PROGRAM, ("cut", "full", "none")

    FORWARD = ("c10::cuda::CUDACachingAllocator", "at::native::", "at::_ops::linear::call", "linear.py:Linear.forward", "mixed.py:Block.forward", "mixed.py:<module>")

    def test_forward(self):
        for native in ("cut", "full"):
            with self.subTest(native):
                names = self.assert_some_stack(native, self.FORWARD)
                self.assertEqual([name for name in names if "_PyEval_EvalFrameDefault" in name], [], "the interpreter's loop stands for Python frames")

    def test_cut_has_no_native_frame_behind_python(self):
        for stack in self.stacks("cut"):
            python = [frame["python"] for frame in stack["frames"] if not is_mark(frame)]
            if any(python):
                self.assertTrue(all(python[python.index(True) :]), [name_of(frame) for frame in stack["frames"]])

    def test_full_begins_at_the_programs_start(self):
        names = self.assert_some_stack("full", self.FORWARD)
        self.assertTrue(in_order(("mixed.py:<module>", "main"), names), names)
        python = [name for name in names if ".py:" in name]
        self.assertEqual(python, [name for name in self.assert_some_stack("cut", self.FORWARD) if ".py:" in name])

    def test_none_has_python_alone(self):
        for stack in self.stacks("none"):
            self.assertTrue(all(frame["python"] or is_mark(frame) for frame in stack["frames"]))
        self.assert_some_stack("none", ("linear.py:Linear.forward", "mixed.py:Block.forward", "mixed.py:<module>"))

    def test_backward_goes_on_in_the_forward_pass(self):
        """The autograd thread runs no Python. In place of the engine's callers stands where the node was made."""
        forward = ("linear.py:Linear.forward", "mixed.py:Block.forward", "mixed.py:<module>")
        node = "<backward of AddmmBackward0>"
        for native in ("cut", "full"):
            with self.subTest(native):
                wanted = ("c10::cuda::CUDACachingAllocator", "at::_ops::mm::call", "AddmmBackward0::apply", "torch::autograd::Engine::evaluate_function", node, *forward)
                names = self.assert_some_stack(native, wanted)
                self.assertEqual([name for name in names if "Engine::thread_main" in name], [])
        self.assertEqual(self.assert_some_stack("none", (node, *forward))[0], node)

    def dump(self, native, what="packets"):
        lines = truth.run([SETUP.gpumem, "export", what, "--json", str(self.traces[native])], SETUP).splitlines()
        return [json.loads(line) for line in lines]

    def test_the_pinning_thread_of_a_loader(self):
        for native in ("cut", "full"):
            with self.subTest(native):
                definitions = Definitions(self.dump(native))
                pinned = {event["stack"] for event in self.dump(native, "events") if event["memory"] == "host_pinned" and event["kind"] == "alloc"}
                self.assertTrue(pinned, "nothing was pinned")
                for stack in pinned:
                    names = definitions.names(stack)
                    way = ("native", "native", "pin_memory.py:pin_memory", "pin_memory.py:_pin_memory_loop", "threading.py:Thread.run", "threading.py:Thread._bootstrap")
                    self.assertTrue(in_order(way, names), names)
                    self.assertEqual(names[-1] == "native", native == "full", names)

    def view(self, *command):
        return truth.run([SETUP.gpumem, *command, "--measure", "pinned", str(self.traces["cut"])], SETUP)

    def test_pinned_memory_is_a_view_of_its_own(self):
        answer = json.loads(self.view("tree", "--json"))
        self.assertEqual([(device["device"], device["measure"]) for device in answer["view"]["devices"]], [(None, "pinned")])
        peak = json.loads(truth.run([SETUP.gpumem, "report", "--json", str(self.traces["cut"])], SETUP))["host_pinned"]["peak_bytes"]
        self.assertGreater(peak, 0)
        self.assertEqual(answer["view"]["bytes"], peak)
        functions = {node.get("function") for node in answer["nodes"]}
        self.assertLessEqual({"_pin_memory_loop", "pin_memory"}, functions)
        self.assertIn("Peak of pinned host memory: ", self.view("table"))
        flame = json.loads(self.view("flame", "--json"))
        self.assertEqual(flame["devices"], ["the process"])
        moments = {view["mode"]: view["moments"][0]["text"] for view in flame["views"]}
        self.assertTrue(moments["peak"].startswith("Peak of pinned host memory: "), moments)
        self.assertIn("(pinned host memory)", moments["total"])

    def test_hashes_are_those_of_another_run(self):
        first = {stack["hash"] for stack in self.stacks("cut")}
        self.assertNotIn(None, first)
        with tempfile.TemporaryDirectory() as folder:
            again = dict(self.traces)
            self.traces = {"cut": pathlib.Path(folder) / "again.gmtrace"}
            environment = truth.environment_of(truth.Case("none"), SETUP)
            truth.run(SETUP.recording(self.traces["cut"], *SETUP.command(PROGRAM)), SETUP, environment)
            second = {stack["hash"] for stack in self.stacks("cut")}
            self.traces = again
        self.assertGreater(len(first & second), 0.9 * len(first))


if __name__ == "__main__":
    truth.run_tests(globals())
