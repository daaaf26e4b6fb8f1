# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What only a snapshot of PyTorch can show, and what the viewer of PyTorch shows of it: segments by stream and pool, what was freed and waits for another
stream, the map of segments at the end. Compared with a plain loop over the pickle, for histories of real GPUs where such files are at hand (--real, or
../shared/real-gpu) and for made-up ones."""

import argparse
import base64
import collections
import json
import pathlib
import pickle
import subprocess
import tempfile
import unittest

import made_up_snapshots
import snapshot_facts
import truth
from made_up_snapshots import BASE, BEGAN, LINE, MIB, ONE, REST, USED, entry, freed, segment, snapshot

SETUP = None
REAL = None
FULL = False
EVERYDAY_FILES = 6
PENDING = ("active_pending_free", "active_awaiting_free")


def sums_of(blocks):
    """[in use, pending, free]"""
    sums = [0, 0, 0]
    for block in blocks:
        sums[0 if block["state"] == "active_allocated" else 1 if block["state"] in PENDING else 2] += block["size"]
    return sums


def pools_of(snapshot_, device):
    """{(stream, pool, kind): [segments, reserved, in use, pending, free]}"""
    pools = collections.defaultdict(lambda: [0] * 5)
    for each in snapshot_["segments"]:
        if each["device"] == device:
            kind = ("expandable " if each.get("is_expandable") else "") + each["segment_type"]
            key = (each["stream"] % (1 << 64), tuple(each.get("segment_pool_id", (0, 0))), kind)
            pools[key] = [a + b for a, b in zip(pools[key], [1, each["total_size"], *sums_of(each["blocks"])])]
    return dict(pools)


class StateTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-snapshot-state-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_command(self, *arguments):
        done = subprocess.run(
            [SETUP.gpumem, *map(str, arguments)], env={**SETUP_ENVIRONMENT, "XDG_CACHE_HOME": str(self.folder)}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def rows(self, path, statement):
        answer = json.loads(self.run_command("sql", path, statement, "--format", "json"))
        return answer["rows"] if isinstance(answer, dict) else answer

    def written(self, snapshot_, name="snapshot.pickle"):
        path = self.folder / name
        path.write_bytes(pickle.dumps(snapshot_, 4))
        return path

    def check(self, path, theirs):
        answer = json.loads(self.run_command("fragmentation", "--json", "--top", "0", "--no-replay", path))
        for device in answer["devices"]:
            index = device["device"]
            ours = {
                (pool["stream"], tuple(pool["pool"] or (0, 0)), pool["kind"]): [pool[key] for key in ("segments", "reserved_bytes", "allocated_bytes", "pending_bytes", "free_bytes")]
                for pool in device["pools_at_end"]
            }
            self.assertEqual(ours, pools_of(theirs, index))
            segments = {(each["address"], each["reserved_bytes"], each["allocated_bytes"], each["pending_bytes"], each["free_bytes"]) for each in device["segments_at_end"]}
            self.assertEqual(segments, {(hex(each["address"]), each["total_size"], *sums_of(each["blocks"])) for each in theirs["segments"] if each["device"] == index})
            used, pending, free = sums_of(block for each in theirs["segments"] if each["device"] == index for block in each["blocks"])
            point = device["fragmentation"]["at_end"]
            self.assertEqual((point["allocated_bytes"], point["pending_bytes"], point["free_bytes"]), (used, pending, free))
        counted = {row["state"]: (int(row["n"]), int(row["bytes"])) for row in self.rows(path, "SELECT state, count(*) AS n, sum(size) AS bytes FROM blocks WHERE layer = 'torch' GROUP BY state")}
        blocks = [block for each in theirs["segments"] for block in each["blocks"]]
        for state, names in (("allocated", ("active_allocated",)), ("pending_free", PENDING)):
            listed = [block["size"] for block in blocks if block["state"] in names]
            self.assertEqual(counted.get(state, (0, 0)), (len(listed), sum(listed)), state)

    def test_histories_of_real_gpus(self):
        files = sorted(REAL.glob("*/*.pickle")) if REAL.is_dir() else []
        if not files:
            self.skipTest(f"no histories of real GPUs in {REAL}")
        for path in files if FULL else files[:: max(1, len(files) // EVERYDAY_FILES)]:
            with self.subTest(file=path.name):
                self.check(path, snapshot_facts.load(path))

    def test_what_waits_for_another_stream(self):
        for name in ("pending frees and private pools", "freed late, by another stream", "several devices", "a moment"):
            with self.subTest(snapshot=name):
                self.check(self.written(made_up_snapshots.ALL[name], name.split(",")[0].replace(" ", "_") + ".pickle"), made_up_snapshots.ALL[name])

    def test_a_moment_with_private_pools(self):
        blocks = [(60 * MIB, 60 * MIB, "active_allocated"), (30 * MIB, 30 * MIB, "active_awaiting_free"), (10 * MIB, 0, "inactive")]
        theirs = snapshot([segment(0, blocks), segment(1024, [(40 * MIB, 40 * MIB, "active_allocated")], pool=(0, 1)), segment(2048, [(20 * MIB, 0, "inactive")], pool=(0, 2), stream=7)], [])
        path = self.written(theirs)
        self.check(path, theirs)
        text = self.run_command("fragmentation", path)
        for words in ("private pool (0, 1)", "stream 7, private pool (0, 2)", "30 MiB", "#" * 24 + "~" * 12 + "." * 4):
            self.assertIn(words, text)
        self.assertNotIn("capture", text)
        self.assertEqual([(row["pool"], row["stream"], row["blocks"]) for row in self.rows(path, "SELECT pool, stream, blocks FROM segments ORDER BY address")], [("(0, 0)", 0, "large"), ("(0, 1)", 0, "large"), ("(0, 2)", 7, "large")])

    def test_pending_at_the_peak(self):
        """Reserved is highest while 4 MiB wait; in the end nothing does."""
        history = [*BEGAN, entry("alloc", 8, 4 * MIB, 2), entry("free_requested", 8, 4 * MIB, 3), entry("segment_alloc", 1024, 20 * MIB, 4), entry("alloc", 1024, 20 * MIB, 4), *freed(1024, 20 * MIB, 5), entry("segment_free", 1024, 20 * MIB, 5), entry("free_completed", 8, 4 * MIB, 6)]
        path = self.written(snapshot([segment(0, [USED, REST])], history))
        points = json.loads(self.run_command("fragmentation", "--json", "--no-replay", path))["devices"][0]["fragmentation"]
        self.assertEqual([(points[when]["reserved_bytes"], points[when]["allocated_bytes"], points[when]["pending_bytes"], points[when]["free_bytes"]) for when in ("at_peak", "at_end")], [(40 * MIB, 8 * MIB, 4 * MIB, 28 * MIB), (20 * MIB, 8 * MIB, 0, 12 * MIB)])

    def test_freed_before_the_history_and_used_again_in_it(self):
        """What was pending when the history began is neither a block that lives nor free."""
        history = [entry("free_completed", 8, 4 * MIB, 3), entry("alloc", 8, 4 * MIB, 4), *freed(8, 4 * MIB, 5)]
        path = self.written(snapshot([ONE], history))
        self.check(path, snapshot([ONE], history))
        self.assertEqual(json.loads(self.run_command("report", "--json", path))["devices"][0]["peak"]["allocated_bytes"], 12 * MIB)

    def test_other_files_of_a_snapshot(self):
        """JSON of _snapshot(), and the page that _memory_viz.py writes: the same answers as the pickle's."""
        theirs = snapshot([ONE], BEGAN + [entry("alloc", 8, MIB, 2), *freed(8, MIB, 3)], external_annotations=[])
        data = pickle.dumps(theirs, 4)
        data += b"\0" * (3 - len(data) % 3)
        page = self.folder / "page.html"
        page.write_text(
            '\n<!DOCTYPE html>\n<html>\n<head>\n</head>\n<body>\n<script type="module">\nimport {add_local_files} from "https://example.invalid/MemoryViz.js"\nconst local_files = '
            + json.dumps([{"name": "snapshot.pickle", "base64": base64.b64encode(data).decode()}])
            + "\nadd_local_files(local_files, 'Active Memory Timeline')\n</script>\n</body>\n"
        )
        dumped = self.folder / "dumped.json"
        dumped.write_text(json.dumps({"rank": 0, **dict(reversed(theirs.items()))}))
        last = self.folder / "last.json"
        last.write_text(json.dumps({"device_traces": theirs["device_traces"], "padding": "x" * (3 << 20), "segments": theirs["segments"]}))
        expected = json.loads(self.run_command("report", "--json", self.written(theirs)))["devices"]
        for path in (page, dumped, last):
            with self.subTest(file=path.name):
                self.assertEqual(json.loads(self.run_command("report", "--json", path))["devices"], expected)

    def test_the_end_of_a_window(self):
        """An export of a part: what was there before it has no event in it."""
        path = self.written(snapshot([ONE, segment(1024, [(20 * MIB, 0, "inactive")])], BEGAN + [entry("alloc", 1024, MIB, 5000), *freed(1024, MIB, 6000)]))
        back = self.folder / "back.pickle"
        self.run_command("export", "pytorch", path, "--from", "4ms", "-o", back)
        self.assertEqual([each["action"] for each in snapshot_facts.load(back)["device_traces"][0]], ["alloc", "free_requested", "free_completed"])


def main():
    global SETUP, REAL, FULL, SETUP_ENVIRONMENT
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=pathlib.Path, default=truth.ROOT.parent / "shared" / "real-gpu", help="histories of real GPUs")
    parser.add_argument("--full", action="store_true", help="all of them")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    REAL, FULL = arguments.real, arguments.full
    SETUP_ENVIRONMENT = truth.environment_of(truth.CASES["gpt"], SETUP)
    unittest.main(argv=rest)


if __name__ == "__main__":
    main()
