# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A snapshot of PyTorch of 50,000 entries, with --full of five million (1 GB), as bench/make_snapshot.py writes it: `gpumemshim import` takes at most 1 GiB of
memory, and what the trace says of it is what was written: events, the peak's bytes and blocks, and nothing at the end."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import make_snapshot  # noqa: E402

MOST_BYTES = 1 << 30
EVERYDAY_ENTRIES, FULL_ENTRIES = 50_000, 5_000_000
SETUP = None


def largest_memory(command):
    """Runs it. Its largest resident memory in bytes."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise AssertionError(f"{command}: {child.returncode}")
    return used.ru_maxrss * 1024


class LargeTest(unittest.TestCase):
    def test_a_large_snapshot(self):
        entries = FULL_ENTRIES if SETUP.full else EVERYDAY_ENTRIES
        gpumem = str(SETUP.build.resolve() / "bin" / "gpumemshim")
        with tempfile.TemporaryDirectory(prefix="gpumemshim-large-") as folder:
            pickle, trace = f"{folder}/snapshot.pickle", f"{folder}/snapshot.gmtrace"
            facts = make_snapshot.write(pickle, entries, max(100, entries // 1000))
            memory = largest_memory([gpumem, "import", "-o", trace, pickle])
            print(f"{os.path.getsize(pickle):,} bytes, {facts['entries']:,} entries: {memory >> 20} MiB")
            self.assertLessEqual(memory, MOST_BYTES)

            def ask(*arguments):
                done = subprocess.run([gpumem, *arguments], env={**os.environ, "XDG_CACHE_HOME": folder}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                return json.loads(done.stdout)

            events = ask("sql", trace, "SELECT count(*) FILTER (WHERE layer = 'torch') AS torch, count(*) FILTER (WHERE kind = 'free') AS freed FROM events", "--format", "json")["rows"]
            self.assertEqual(events, [{"torch": facts["events"], "freed": facts["events"] // 2}])
            peak = ask("sql", trace, "SELECT count(*) AS blocks, sum(size) AS bytes FROM live_at('peak') WHERE layer = 'torch'", "--format", "json")["rows"]
            self.assertEqual(peak, [{"blocks": facts["peak_blocks"], "bytes": facts["peak_bytes"]}])
            device = ask("report", "--json", trace)["devices"][0]
            self.assertEqual(device["peak"]["allocated_bytes"], facts["peak_bytes"])
            self.assertEqual(device["end"]["allocated_bytes"], 0)


def main():
    global SETUP
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--full", action="store_true", help="five million entries")
    SETUP, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
