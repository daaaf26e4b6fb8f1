# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim import` on snapshots that PyTorch writes: of our own programs, against the trace that was recorded in the same run, byte by byte; and of
real GPUs where such files are at hand (--real, or ../shared/real-gpu), against a plain loop over the pickle."""

import argparse
import collections
import json
import os
import pathlib
import re
import pickle
import subprocess
import sys
import tempfile
import unittest

import history
import snapshot_facts
import truth

WITH_SNAPSHOT = truth.PROGRAMS / "with_snapshot.py"
COMMANDS = ("report", "peak", "leaks", "fragmentation", "table", "tree", "oom", "timeline", "stages", "steps", "info", "sizes")
EVERYDAY_FILES = 8
SETUP = None
REAL = None
FULL = False


def answer_of(path, command="report", *options):
    return json.loads(truth.run([SETUP.gpumem, command, "--json", *options, str(path)], SETUP, environment()))


def environment():
    return {**os.environ, "XDG_CACHE_HOME": str(CACHE)}


def stacks_of(device, kind):
    return device["at_peak"]["stacks"] if kind == "peak" else device["alive"]["torch"]["stacks"]


def line_of(stack, has_native_frames):
    """"train.py:12", or "backward of X", X as far as it is known."""
    for frame in stack["frames"]:
        if frame["function"].startswith("<backward of "):
            return frame["function"].strip("<>") if has_native_frames else "backward"
    site = stack["site"].removesuffix(" (autograd thread)")
    if site.endswith(" workspace"):  # of a library, which C++ frames tell: PyTorch's history has the line that called it
        nodes = re.findall(r"(\w+Backward\d*)::apply", " ".join(frame["function"] for frame in stack["frames"]))
        lines = [f"{frame['file']}:{frame['line']}" for frame in stack["frames"] if frame["python"] and "/site-packages/" not in frame["file"]]
        site = lines[0] if lines else f"backward of {nodes[0]}" if nodes else site
    if site.startswith("backward of "):
        return site
    if not any(frame["python"] for frame in stack["frames"]):
        return "backward"
    return "/".join(site.split(" ")[0].split("/")[-2:])  # as much of the path as both show


def lines_of(stacks, has_native_frames):
    """{line: [bytes, blocks]}"""
    lines = collections.defaultdict(lambda: [0, 0])
    for stack in stacks:
        if stack["layer"] == "torch":
            line = lines[line_of(stack, has_native_frames)]
            line[0] += stack["bytes"]
            line[1] += stack["count"]
    return dict(lines)


class RecordedTest(unittest.TestCase):
    """The same run, told by PyTorch and by the recorder."""

    maxDiff = None

    def record(self, name, stacks="python", context="all"):
        case = truth.CASES[name]
        trace, pickle = CACHE / f"{name}.{stacks}.{context}.gmtrace", CACHE / f"{name}.{stacks}.{context}.pickle"
        program = truth.PROGRAMS / case.program
        command = SETUP.recording(trace, *SETUP.command(WITH_SNAPSHOT), str(program), str(pickle), stacks, context)
        numbers = truth.last_json_line(truth.run(command, SETUP, truth.environment_of(case, SETUP)))
        return trace, pickle, numbers

    def compare(self, name, **modes):
        trace, pickle, numbers = self.record(name, **modes)
        recorded, imported = answer_of(trace), answer_of(pickle)
        facts = snapshot_facts.load(pickle)
        ours = {device["device"]: device for device in imported["devices"]}
        theirs = {device["device"]: device for device in recorded["devices"]}
        for device in numbers["devices"]:
            index = device["device"]
            with self.subTest(device=index):
                for word in ("allocated", "reserved"):
                    self.assertEqual(ours[index]["end"][f"{word}_bytes"], device[word], f"{word} at the end")
                    self.assertEqual(ours[index]["peak"][f"{word}_bytes"], device[f"peak_{word}"], f"peak of {word}")
                    self.assertEqual(ours[index]["peak"][f"{word}_bytes"], theirs[index]["peak"][f"{word}_bytes"])
                self.assertEqual(self.blocks(pickle, index), self.blocks(trace, index, snapshot_facts.requests_of(facts, index)))
        self.assertEqual(len(imported["ooms"]), len(recorded["ooms"]))
        if modes.get("context") != "none":
            self.compare_lines(trace, pickle, has_native_frames=modes.get("stacks") == "all")
        return recorded, imported

    def compare_lines(self, trace, pickle, has_native_frames):
        """What is alive at the peak and at the end, by line. PyTorch's history knows no line for what autograd's threads allocate; the recorder gives
        it the line of the forward pass, behind a frame `<backward of X>`. That is the one difference, and it is X that both know, if C++ frames are."""
        for command, kinds in (("report", ("peak", "end")), ("leaks", ("end",))):
            answers = [answer_of(path, command, "--top", "0") for path in (trace, pickle)]
            for ours, theirs in zip(*(answer["devices"] for answer in answers)):
                for kind in kinds:
                    with self.subTest(command=command, device=ours["device"], alive=kind):
                        expected = lines_of(stacks_of(ours, kind), has_native_frames)
                        self.assertEqual(lines_of(stacks_of(theirs, kind), has_native_frames), expected)
                        self.assertGreater(len(expected), 0)
        highest = [[device["plateaus"][0] for device in answer_of(path, "peak")["devices"]] for path in (trace, pickle)]
        self.assertEqual(*([(plateau["bytes"], plateau["count"]) for plateau in plateaus] for plateaus in highest))

    def blocks(self, path, device, requests=None):
        """[(kind, address, rounded size)] of PyTorch's blocks; of a recording as far as PyTorch's history goes."""
        readable = CACHE / (path.stem + ".imported.gmtrace") if path.suffix == ".pickle" else path
        if path.suffix == ".pickle" and not readable.exists():
            truth.run([SETUP.gpumem, "import", str(path), "-o", str(readable)], SETUP)
        found = history.torch_events(event for event in history.events_of(SETUP, readable) if event["kind"] != "free_completed")[device]
        found = found if requests is None else found[: len(requests)]
        return [(action, address, 0 if action == "oom" else size) for action, address, size in found]

    def test_training(self):
        recorded, imported = self.compare("gpt")
        self.assertEqual(imported["process"]["imported"]["recorder"], "PyTorch")
        self.assertIsNone(recorded["process"]["imported"])

    def test_native_stacks(self):
        _, imported = self.compare("gpt", stacks="all")
        frames = [frame for stack in imported["devices"][0]["at_peak"]["stacks"] for frame in stack["frames"]]
        self.assertTrue(any(not frame["python"] and "::" in frame["function"] for frame in frames), "no native frame has a name")

    def test_without_stacks(self):
        self.compare("gpt", context="none")

    def test_expandable_segments(self):
        self.compare("expandable")

    def test_two_devices(self):
        self.compare("two_devices")

    def test_out_of_memory(self):
        self.compare("oom_caught")

    def test_graphs_and_private_pools(self):
        self.compare("graphs")

    def test_given_back(self):
        self.compare("empty_cache")


class RealTest(unittest.TestCase):
    """Histories of real GPUs."""

    def files(self):
        files = sorted(REAL.glob("*/*.pickle")) if REAL.is_dir() else []
        if not files:
            self.skipTest(f"no histories of real GPUs in {REAL}")
        return files if FULL else files[:: max(1, len(files) // EVERYDAY_FILES)]

    def test_equal_a_plain_loop(self):
        for path in self.files():
            snapshot = snapshot_facts.load(path)
            answer = answer_of(path)
            devices = {device["device"]: device for device in answer["devices"]}
            for index in range(len(snapshot["device_traces"])):
                facts = snapshot_facts.facts_of(snapshot, index)
                if not facts["peak_reserved"]:
                    continue
                with self.subTest(file=path.name, device=index):
                    self.compare(facts, devices[index])
            oom = sum(entry["action"] == "oom" for trace in snapshot["device_traces"] for entry in trace)
            self.assertEqual(len(answer["ooms"]), oom, path)

    def compare(self, facts, device):
        self.assertEqual(device["end"]["reserved_bytes"], facts["end_reserved"])
        self.assertEqual(device["end"]["allocated_bytes"], facts["end_allocated"])
        self.assertEqual(device["peak"]["reserved_bytes"], facts["peak_reserved"])
        # Blocks are the requests rounded up: at most 1 MiB more each, where there is a request at all.
        self.assertGreaterEqual(device["peak"]["allocated_bytes"], facts["peak_requested"])
        self.assertLessEqual(device["peak"]["allocated_bytes"], facts["peak_reserved"])
        at_peak = device["at_peak"]
        self.assertEqual(at_peak["bytes"], device["peak"]["allocated_bytes"], "what was live at the peak is not all of it")
        self.assertEqual(at_peak["values"]["allocated_bytes"], device["peak"]["allocated_bytes"])

    def test_requests_are_in_order(self):
        words = {"alloc": "alloc", "free": "free_requested", "alloc_failed": "oom"}
        for path in self.files():
            snapshot, trace = snapshot_facts.load(path), CACHE / "real.gmtrace"
            truth.run([SETUP.gpumem, "import", "--force", str(path), "-o", str(trace)], SETUP)
            found = collections.defaultdict(list)
            actions = collections.defaultdict(collections.Counter)
            for event in history.events_of(SETUP, trace):
                if event["layer"] == "torch" and event["kind"] in words:
                    size = event["requested_bytes"] or event["size_bytes"]
                    found[event["device"]].append((words[event["kind"]], size, int(str(event["stream"]), 0)))
            for index in range(len(snapshot["device_traces"])):
                with self.subTest(file=path.name, device=index):
                    self.assertEqual(found[index], snapshot_facts.requests_of(snapshot, index))

    def test_every_command_answers(self):
        for path in self.files():
            for command in COMMANDS:
                with self.subTest(file=path.name, command=command):
                    done = subprocess.run([SETUP.gpumem, command, str(path)], env=environment(), capture_output=True, text=True, timeout=120)
                    self.assertEqual(done.returncode, 0, done.stderr)
            page = CACHE / "page.html"
            truth.run([SETUP.gpumem, "flame", str(path), "-o", str(page)], SETUP, environment())
            self.assertGreater(page.stat().st_size, 10000)


MIB = 1 << 20


class GroundTest(unittest.TestCase):
    """Made-up files of the kinds that people send: none says more than it can know."""

    def write(self, name, blocks, history, times=True):
        """One segment for each 100 MiB of `blocks` (active or not), and a history of (action, block, line)."""
        frames = {line: [{"filename": "/job/model.py", "line": line, "name": "forward"}, {"filename": "/job/train.py", "line": 9, "name": "<module>"}] for line in range(64)}
        size, base = 100 * MIB, 0x7F0000000000
        place = [base + i * 1024 * MIB for i in range(len(blocks))]
        segments = [{"device": 0, "address": place[i], "total_size": size, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "allocated_size": size * live,
                     "active_size": size * live, "requested_size": size * live, "frames": frames[0], "blocks": [{"address": place[i], "size": size, "requested_size": size * live,
                     "state": "active_allocated" if live else "inactive", "frames": frames[0]}]} for i, live in enumerate(blocks)]  # fmt: skip
        entries = []
        for number, (action, block, line) in enumerate(history):
            for kind in ("free_requested", "free_completed") if action == "free" else (action,):
                entries.append({"action": kind, "addr": place[block], "size": size, "stream": 0, "frames": frames[line], **({"time_us": 1_700_000_000_000_000 + 10 * number} if times else {})})
        path = pathlib.Path(self.folder.name) / name
        path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [entries], "allocator_settings": {}}, 4))
        return path

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gpumemshim-ground-")
        self.addCleanup(self.folder.cleanup)

    def run_command(self, *arguments):
        return subprocess.run([SETUP.gpumem, *map(str, arguments)], env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def test_one_moment(self):
        path = self.write("moment.pickle", [1] * 4 + [0] * 6, [])
        answer = answer_of(path)
        self.assertEqual((answer["ground"]["covers"], answer["ground"]["failures"], answer["verdict"]["kind"]), ("moment", False, "unknown"))
        text = self.run_command("report", path).stdout
        self.assertIn("one moment", text.splitlines()[0])
        self.assertIn("400 MiB allocated, 1000 MiB reserved when the snapshot was taken", text)
        for word in ("FRAGMENTED", "Peak", "over time", "at 0 s"):
            self.assertNotIn(word, text)
        for command in ("oom", "leaks"):
            self.assertEqual(self.run_command(command, "--check", path).returncode, 7, command)
        self.assertEqual(self.run_command("check", path, "--max-peak", "1TiB").returncode, 7)

    def test_empty(self):
        path = self.write("empty.pickle", [], [])
        self.assertEqual(answer_of(path)["ground"]["covers"], "nothing")
        self.assertIn("empty", self.run_command("report", path).stdout.splitlines()[0])

    def test_times_that_are_not_there(self):
        text = self.run_command("report", self.write("untimed.pickle", [1, 0], [("alloc", 1, 3), ("free", 1, 3)], times=False)).stdout
        self.assertIn("200 MiB allocated, 200 MiB reserved at event 1", text)
        self.assertNotIn(" ms", text)

    def test_what_was_there_before_is_there_at_the_peak(self):
        """The peak is the beginning: nothing is allocated afterwards."""
        path = self.write("before.pickle", [1, 1, 0], [("free", 2, 3)])
        rows = json.loads(self.run_command("sql", path, "SELECT count(*) AS blocks, sum(size) AS bytes FROM live_at('peak')", "--format", "json").stdout)
        self.assertEqual([(int(row["blocks"]), int(row["bytes"])) for row in (rows["rows"] if isinstance(rows, dict) else rows)], [(3, 300 * MIB)])
        at = json.loads(self.run_command("at", "peak", "--json", path).stdout)
        self.assertNotIn("nothing was live", self.run_command("at", "peak", path).stdout)
        self.assertEqual(sum(stack["bytes"] for stack in at["stacks"]), 300 * MIB)

    def test_a_low_moment_between_high_ones_is_no_fragmentation(self):
        history = [("alloc", i, 3) for i in range(4, 10)] + [("free", i, 3) for i in range(4, 10)]
        answer = answer_of(self.write("plateau.pickle", [1] * 4 + [0] * 6, history))
        self.assertEqual((answer["ground"]["covers"], answer["verdict"]["kind"], answer["what_if"]), ("window", "fits", None))

    def test_layers_of_one_pass_are_no_growth(self):
        history = [("alloc", i, 15) for i in range(12)] + [("free", i, 15) for i in range(12)]
        answer = answer_of(self.write("layers.pickle", [0] * 12, history))
        self.assertEqual(answer["verdict"]["kind"], "fits")
        self.assertEqual([row["status"] for device in answer["devices"] for row in device["leaks"] if row["status"] == "growing"], [])

    def test_every_command_of_the_guide_answers(self):
        """docs/guides/memory-viz.md, which names two snapshots and a recorded run."""
        guide = (truth.ROOT / "docs" / "guides" / "memory-viz.md").read_text(encoding="utf-8")
        history = [("alloc", i, 15) for i in range(12)] + [("free", i, 15) for i in range(6)]
        for name in ("snapshot", "before", "after"):
            self.write(f"{name}.pickle", [0] * 6 + [1] * 6, history)
        (pathlib.Path(self.folder.name) / "run.gmtrace").symlink_to("after.pickle")
        commands = [words.replace("2.5s", "0.1ms").split()[1:] for words in re.findall(r"`(gpumemshim [^`]*(?:\.pickle|\.gmtrace)[^`]*)`|show: (gpumemshim [^|]*?) \||picture: (gpumemshim .*?) -->", guide) for words in words if words]
        self.assertEqual(len(commands), 11)
        for command in commands:
            if command[0] == "plot":
                command += ["-o", "picture.png"]
            done = subprocess.run([SETUP.gpumem, *command], cwd=self.folder.name, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")


def main():
    global SETUP, REAL, FULL, CACHE
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=pathlib.Path, default=truth.ROOT.parent / "shared" / "real-gpu", help="histories of real GPUs")
    parser.add_argument("--full", action="store_true", help="all of them")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    REAL, FULL = arguments.real, arguments.full
    with tempfile.TemporaryDirectory(prefix="gpumemshim-import-") as folder:
        CACHE = pathlib.Path(folder)
        unittest.main(argv=rest)


if __name__ == "__main__":
    main()
