# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""`gpumemshim export pytorch` of an imported snapshot is that snapshot: the same events, blocks, segments and settings, none invented and none lost. Compared
as Python's objects, by Python's own pickle, for histories of real GPUs where such files are at hand (--real, or ../shared/real-gpu), for any folder that
--also names, and for made-up snapshots of what each version of PyTorch writes."""

import argparse
import pathlib
import pickle
import subprocess
import tempfile
import unittest

import made_up_snapshots
import snapshot_facts
import truth

SETUP = None
FOLDERS = []
FULL = False
EVERYDAY_FILES = 8


def differences(theirs, ours, where="", most=5):
    """[(where, theirs, ours)]: the first places in which two values differ; a list of another length counts once."""
    if type(theirs) is not type(ours):
        return [(where, theirs, ours)]
    found = []
    if isinstance(theirs, dict):
        for key in {**theirs, **ours}:
            if key not in theirs or key not in ours:
                found.append((f"{where}.{key}", theirs.get(key, "is not there"), ours.get(key, "is not there")))
            elif theirs[key] != ours[key] or type(theirs[key]) is not type(ours[key]):
                found += differences(theirs[key], ours[key], f"{where}.{key}", most)
            if len(found) >= most:
                return found[:most]
    elif isinstance(theirs, (list, tuple)):
        if len(theirs) != len(ours):
            return [(f"{where}: how many", len(theirs), len(ours))]
        for index, pair in enumerate(zip(theirs, ours)):
            if pair[0] != pair[1]:
                found += differences(*pair, f"{where}[{index}]", most)
            if len(found) >= most:
                return found[:most]
    elif theirs != ours:
        found.append((where, theirs, ours))
    return found


def round_trip(path, folder):
    """The snapshot, and what comes back."""
    trace, back = folder / "round.gmtrace", folder / "back.pickle"
    back.unlink(missing_ok=True)
    for command in (["import", "--force", path, "-o", trace], ["export", "pytorch", trace, "-o", back]):
        done = subprocess.run([SETUP.gpumem, *map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise AssertionError(f"{command[0]} {path}: {done.stderr}")
    return snapshot_facts.load(path), snapshot_facts.load(back)


class RoundTripTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-round-trip-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check(self, path):
        theirs, ours = round_trip(path, self.folder)
        found = differences(theirs, ours)
        for where, before, after in found:
            print(f"{path}: {where}: {str(before)[:200]} became {str(after)[:200]}")
        self.assertEqual(found, [])
        self.assertEqual(theirs, ours)

    def test_files_of_others(self):
        files = [path for folder in FOLDERS for path in sorted(folder.rglob("*.pickle"))]
        if not files:
            self.skipTest(f"no snapshots in {' '.join(map(str, FOLDERS))}")
        files = files if FULL else files[:: max(1, len(files) // EVERYDAY_FILES)]
        equal = 0
        for path in files:
            with self.subTest(file=path.name):
                self.check(path)
                equal += 1
        print(f"{equal} of {len(files)} snapshots came back as they were")

    def test_each_version_of_pytorch(self):
        for name, snapshot in made_up_snapshots.ALL.items():
            with self.subTest(snapshot=name):
                path = self.folder / f"{name}.pickle"
                path.write_bytes(pickle.dumps(snapshot, 4))
                self.check(path)


def main():
    global SETUP, FOLDERS, FULL
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", type=pathlib.Path, default=truth.ROOT.parent / "shared" / "real-gpu", help="histories of real GPUs")
    parser.add_argument("--also", type=pathlib.Path, nargs="*", default=[], help="further folders of snapshots")
    parser.add_argument("--full", action="store_true", help="all of them")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    FOLDERS, FULL = [arguments.real, *arguments.also], arguments.full
    unittest.main(argv=rest)


if __name__ == "__main__":
    main()
