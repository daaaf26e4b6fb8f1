# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""PyTorch runs out of memory in the ways in which programs do, and `gpumemshim oom` says what PyTorch's own message says, number for number.

    python tests/e2e/oom_test.py --build build/release
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import truth

SETUP = None
PROGRAM = truth.PROGRAMS / "oom_cases.py"
MIB = 1 << 20
MESSAGE = re.compile(
    r"Tried to allocate (?P<tried>[\d.]+ \w+)\. GPU (?P<device>\d+) has a total capacity of (?P<total>[\d.]+ \w+) of which (?P<free>[\d.]+ \w+) is free\."
    r".*Of the allocated memory (?P<allocated>[\d.]+ \w+) is allocated by PyTorch,.*?(?P<idle>[\d.]+ \w+) is reserved by PyTorch but unallocated",
    re.S,
)


def as_pytorch_writes(size):
    """A size as PyTorch's messages have it."""
    if size <= 1024:
        return f"{size} bytes"
    for unit, name in ((1 << 10, "KiB"), (1 << 20, "MiB")):
        if size <= unit << 10:
            return f"{size / unit:.2f} {name}"
    return f"{size / (1 << 30):.2f} GiB"


class OomTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-oom-")
        self.addCleanup(folder.cleanup)
        self.trace = pathlib.Path(folder.name) / "oom.gmtrace"

    def environment(self, devices=1, **more):
        environment = truth.environment_of(truth.Case("none", devices=devices), SETUP)
        return environment | {"SIMCUDA_CAPACITY_MB": "2048", "SIMCUDA_CTX_MB": "64", "GPUMEMSHIM_RING_DIRECTORY": str(self.trace.parent)} | more

    def oom(self, *options):
        return truth.run([SETUP.gpumem, "oom", *options, str(self.trace)], SETUP)

    def run_cases(self, *names, **settings):
        """Case -> the failures for good, as gpumemshim oom has them and as PyTorch told them; and both whole answers."""
        command = SETUP.recording(self.trace, *SETUP.command(PROGRAM), *names)
        reported = truth.last_json_line(truth.run(command, SETUP, self.environment(**settings)))
        answer = json.loads(self.oom("--json"))
        finals = [oom for oom in answer["ooms"] if oom["final"]]
        self.assertEqual(len(finals), sum(map(len, reported["messages"].values())))
        pairs, place = {}, 0
        for name in names:
            messages = reported["messages"][name]
            pairs[name] = list(zip(finals[place : place + len(messages)], messages))
            place += len(messages)
        return pairs, reported, answer

    def compare(self, oom, message, asked_cuda=True):
        reported = MESSAGE.search(message)
        self.assertIsNotNone(reported, message)
        self.assertEqual(oom["device"], int(reported["device"]))
        self.assertEqual(as_pytorch_writes(oom["capacity_bytes"]), reported["total"])
        self.assertEqual(as_pytorch_writes(oom["device_free_bytes"]), reported["free"])
        # PyTorch counts segments of private pools as allocated, blocks or not.
        if "private pools" not in message:
            self.assertEqual(as_pytorch_writes(oom["values"]["allocated_bytes"]), reported["allocated"])
            self.assertEqual(as_pytorch_writes(oom["values"]["reserved_bytes"] - oom["values"]["allocated_bytes"]), reported["idle"])
        self.assertEqual((oom["torch_allocated_bytes"], oom["torch_reserved_bytes"]), (oom["values"]["allocated_bytes"], oom["values"]["reserved_bytes"]))
        self.assertEqual(oom["layer"], "torch")
        if asked_cuda:
            self.assertEqual(as_pytorch_writes(oom["cuda_requested_bytes"]), reported["tried"])

    def one(self, pairs):
        ((oom, _message),) = pairs
        return oom


class Native(OomTest):
    CASES = ("plain", "fragmented", "mempool", "capture", "backward", "autograd", "search", "retries", "fraction")

    def test_every_number_of_pytorchs_message(self):
        pairs, reported, answer = self.run_cases(*self.CASES)
        self.assertEqual(sum(reported["ooms"]), sum(map(len, reported["messages"].values())))
        for name in self.CASES:
            with self.subTest(name=name):
                for oom, message in pairs[name]:
                    self.compare(oom, message, asked_cuda=name != "fraction")
                getattr(self, f"check_{name}")(pairs[name], reported, answer)

    def check_plain(self, pairs, _reported, _answer):
        oom = self.one(pairs)
        self.assertEqual([(step["step"], step["bytes"]) for step in oom["steps"]], [("failed", 4000 * MIB), ("released", 100 * MIB), ("failed", 4000 * MIB)])
        self.assertEqual(oom["steps"][2]["device_free_bytes"], oom["steps"][0]["device_free_bytes"] + 100 * MIB)
        self.assertEqual(oom["live"]["bytes"], 400 * MIB)
        self.assertIn("oom_cases.py", oom["site"])
        self.assertIn("larger than the device", oom["cause"])

    def check_fragmented(self, pairs, _reported, _answer):
        oom = self.one(pairs)
        self.assertGreaterEqual(oom["fit_in_one_piece_bytes"], 600 * MIB)
        self.assertLess(oom["would_have_fit_bytes"], 600 * MIB)
        self.assertTrue(any("expandable_segments" in action["action"] for action in oom["actions"]), oom["actions"])

    def check_mempool(self, pairs, _reported, _answer):
        oom = self.one(pairs)
        self.assertEqual((oom["whole_segments"], oom["whole_segment_bytes"]), (1, 300 * MIB))
        self.assertTrue(any("MemPool" in action["action"] for action in oom["actions"]), oom["actions"])

    def check_capture(self, pairs, _reported, _answer):
        self.assertEqual([step["step"] for step in self.one(pairs)["steps"]], ["failed"])

    def check_backward(self, pairs, _reported, _answer):
        self.assertIn("oom_cases.py", self.one(pairs)["site"])

    def check_autograd(self, pairs, _reported, _answer):
        """The thread runs no Python: behind the node stands the line that used the parameter."""
        oom = self.one(pairs)
        names = [frame["function"] for frame in oom["frames"]]
        mark = names.index("<backward of AccumulateGrad>")
        self.assertFalse(any(frame["python"] for frame in oom["frames"][:mark]), names)
        self.assertEqual(names[mark + 1], "autograd")
        self.assertIn("oom_cases.py", oom["site"])

    def check_search(self, pairs, _reported, _answer):
        self.assertEqual([oom["requested_bytes"] for oom, _ in pairs], [mib * MIB for mib in range(4000, 2800, -100)])

    def check_retries(self, pairs, reported, answer):
        self.assertEqual(pairs, [])
        # The other cases' failures are retries to PyTorch too, where it had something to give back.
        (retries,) = answer["served_retries"]
        self.assertEqual(retries["count"], 19)
        self.assertEqual(retries["released_bytes"], sum(range(1000, 1190, 10)) * MIB)
        text = self.oom()
        self.assertIn("19 requests were served only after", text)
        self.assertIn("17 requests for 600 MiB to 3.91 GiB", text)

    def check_fraction(self, pairs, _reported, _answer):
        oom = self.one(pairs)
        self.assertTrue(oom["limited"])
        self.assertEqual(oom["cuda_requested_bytes"], 0)
        self.assertIn("set_per_process_memory_fraction", oom["cause"])

    def fits(self, *cases, **settings):
        """Case -> the failure as gpumemshim oom has it, and the largest request that PyTorch served in that state."""
        command = SETUP.recording(self.trace, *SETUP.command(PROGRAM.with_name("oom_fits.py")), *cases)
        served = truth.last_json_line(truth.run(command, SETUP, self.environment(**settings)))
        answer = json.loads(self.oom("--json"))
        found = {}
        for name, (requested, largest) in served.items():
            # Of its size there is one: what is tried later is smaller, and the sizes of the cases differ.
            (oom,) = [oom for oom in answer["ooms"] if oom["requested_bytes"] == requested]
            found[name] = oom, largest
        return found

    def test_what_would_have_fit_is_what_pytorch_serves(self):
        """Without and with expandable segments, at a full device, a fragmented one, and at a limit; the estimate for the other way, too."""
        # A limit holds for the last of a run.
        runs = ("whole_blocks", "every_other", "pinned_segments", "fraction"), ("two_thirds", "odd_sizes", "nearly_nothing", "fraction_in_pieces")
        segments, expandable = ({}, {})
        for cases in runs:
            segments |= self.fits(*cases, PYTORCH_CUDA_ALLOC_CONF="")
            expandable |= self.fits(*cases, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
        self.assertEqual(len(segments), 8)
        for name in segments:
            with self.subTest(name=name):
                (oom, served), (oom_expandable, served_expandable) = segments[name], expandable[name]
                self.assertEqual(oom["would_have_fit_bytes"], served)
                self.assertEqual(oom_expandable["would_have_fit_bytes"], served_expandable)
                self.assertIsNone(oom_expandable["fit_expandable_bytes"])
                # A block may be up to 1 MiB larger than its request, which PyTorch does not report.
                slack = 50 * MIB if name == "odd_sizes" else 0
                self.assertLessEqual(abs(oom["fit_expandable_bytes"] - served_expandable), slack)
                advised = any("expandable_segments" in action["action"] for action in oom["actions"])
                self.assertEqual(advised, served_expandable > served)
        (pins,) = segments["pinned_segments"][0]["pin_lines"]
        self.assertEqual((pins["blocks"], pins["segments"], pins["returnable_bytes"]), (40, 40, 1200 * MIB))
        self.assertIn("oom_fits.py", pins["site"])
        self.assertEqual(segments["fraction"][0]["limit_bytes"], 1024 * MIB)

    def test_the_report_comes_behind_the_traceback(self):
        script = self.trace.parent / "train.py"
        script.write_text("import torch\nkept = torch.empty(400 << 20, dtype=torch.uint8, device='cuda')\ntorch.empty(4000 << 20, dtype=torch.uint8, device='cuda')\n")
        command = SETUP.recording(self.trace, *SETUP.command(script))
        done = subprocess.run(command, env=self.environment(GPUMEMSHIM_OOM_REPORT="1"), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertLess(done.stderr.index("torch.OutOfMemoryError"), done.stderr.index("OUT OF MEMORY  GPU 0"))
        self.assertIn("train.py:3", done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], r"^gpumemshim: .* events")


class Others(OomTest):
    """Run with --full: one start of PyTorch each."""

    def test_the_second_device(self):
        pairs, _, _ = self.run_cases("second_device", devices=2)
        self.compare(*pairs["second_device"][0])
        self.assertEqual(self.one(pairs["second_device"])["device"], 1)

    def test_expandable_segments(self):
        pairs, _, _ = self.run_cases("plain", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
        oom = self.one(pairs["plain"])
        self.compare(*pairs["plain"][0], asked_cuda=False)
        self.assertEqual(oom["released_bytes"], 100 * MIB, oom["steps"])
        self.assertFalse(oom["limited"])

    def test_malloc_async(self):
        pairs, _, _ = self.run_cases("plain", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
        ((oom, message),) = pairs["plain"]
        self.assertEqual((oom["api"], oom["requested_bytes"]), ("cudaMallocAsync", 4000 * MIB))
        self.assertIn("3.91 GiB", message)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="the rarer ways, instead of the everyday ones")
    global SETUP
    SETUP, arguments, (program, *rest) = truth.setup_of_tests(parser)
    unittest.main(argv=[program, "Others" if arguments.full else "Native", *rest])


if __name__ == "__main__":
    main()
