# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Simulated CUDA, recorder and analyzer against memory histories of real GPUs (docs/real-gpu-histories.md).

    python tests/e2e/real_gpu_test.py --build build/release

Every day our own programs are held against the committed numbers of a few histories that others recorded; with --full all for which a PyTorch of
their release is at hand; the authors' own scripts where GPUMEMSHIM_REAL_GPU_CHECKOUTS names a folder of checkouts; and the requests of each history whose
file is at hand (GPUMEMSHIM_REAL_GPU_HISTORIES, or ../shared/real-gpu) through PyTorch's allocator. Further PyTorchs are named by
GPUMEMSHIM_REAL_GPU_TORCH="2.6.0=/path/to/python 2.11.0/3.12=/path/to/python".
"""

import argparse
import json
import os
import pathlib
import pickle
import re
import sys
import tempfile
import unittest

import truth

sys.path.insert(0, str(truth.ROOT / "bench" / "real_gpu"))
import allocator  # noqa: E402
import catalogue  # noqa: E402
import events  # noqa: E402
import facts  # noqa: E402
import held  # noqa: E402
import page  # noqa: E402
import rerun  # noqa: E402
import snapshot_file  # noqa: E402
import start_state  # noqa: E402
import trace_side  # noqa: E402

FACTS = truth.ROOT / "bench" / "real_gpu" / "facts"
# Windows, loss and backward; WSL2, a training step; a B200 with expandable segments.
EVERYDAY = ("MAGMA27/assignment2-systems a80ccc7", "Wedsonlin/assignment2-systems 0db7d8c", "bolongcheng/assignment2-systems c8575e8")
EVERYDAY_REQUESTS = ("silmont2000/assignment2-systems 769df2d", "Constructor-Sun/code_location b5ef67c")
RESULTS = truth.ROOT / "bench" / "results" / "real-gpu-histories.json"
PAGE = truth.ROOT / "docs" / "real-gpu-histories.md"
INSTALLED = "2.11.0"  # of scripts/requirements/python.txt
SETUP = None
FULL = False


def entry(action, address, size, stream=0):
    return {"action": action, "addr": address, "size": size, "stream": stream}


def snapshot(*entries, segments=()):
    return {"segments": list(segments), "device_traces": [list(entries)]}


SEGMENT = {
    "device": 0,
    "address": 4096,
    "total_size": 2 << 20,
    "segment_type": "small",
    "allocated_size": 512,
    "blocks": [{"size": 512, "state": "active_allocated"}, {"size": (2 << 20) - 512, "state": "inactive"}],
}


class FileTest(unittest.TestCase):
    def written(self, value):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "snapshot.pickle"
        path.write_bytes(pickle.dumps(value))
        return path

    def test_a_file_that_names_code_is_refused(self):
        class Payload:
            def __reduce__(self):
                return os.getenv, ("HOME",)

        with self.assertRaisesRegex(pickle.UnpicklingError, "names os.getenv"):
            snapshot_file.load(self.written({"segments": [Payload()]}))

    def test_other_pickles_are_refused(self):
        with self.assertRaisesRegex(ValueError, "not a memory snapshot"):
            snapshot_file.load(self.written([1, 2]))

    def test_the_entry_of_the_dump_is_no_event(self):
        read = snapshot_file.load(self.written(snapshot(entry("alloc", 4096, 5), entry("snapshot", 0, 0), segments=[SEGMENT])))
        self.assertEqual([each["action"] for each in snapshot_file.entries(read, 0)], ["alloc"])
        self.assertEqual(snapshot_file.devices(read), [0])


class EventsTest(unittest.TestCase):
    FIRST = (entry("alloc", 1, 5, 70), entry("alloc", 2, 6, 90), entry("free_requested", 2, 6, 90), entry("free_completed", 2, 6, 90))

    def device(self, *entries):
        return events.Device.of_snapshot(snapshot(*entries, segments=[SEGMENT]), 0)

    def test_streams_and_blocks_are_numbered_as_they_come(self):
        device = self.device(*self.FIRST, entry("free_requested", 99, 8, 70))
        self.assertEqual(device.events[1], ("alloc", 6, 1))
        self.assertEqual(device.blocks, [0, 1, 1, 1, -1])
        self.assertEqual((device.segments, device.allocated), ([(2 << 20, "small")], 512))

    def test_a_change_of_any_part_is_seen(self):
        real = self.device(*self.FIRST)
        self.assertTrue(events.compare(real, self.device(*self.FIRST))["identical"])
        for at in range(4):
            for field, value in (("size", 7), ("stream", 1234), ("action", "segment_free")):
                changed = [dict(each) for each in self.FIRST]
                changed[at][field] = value
                said = events.compare(real, self.device(*changed))
                expected = field == "stream" and at == 0  # the first stream may have any name
                with self.subTest(at=at, field=field):
                    self.assertEqual(said["identical"], expected)
                    self.assertEqual(said["identical_but_order_of_frees"], expected)

    def test_the_order_of_frees_in_a_run(self):
        one, two = entry("free_requested", 1, 5, 70), entry("free_requested", 2, 6, 90)
        said = events.compare(self.device(*self.FIRST[:2], one, two), self.device(*self.FIRST[:2], two, one))
        self.assertEqual((said["identical"], said["identical_but_order_of_frees"]), (False, True))
        self.assertEqual(said["runs"], [])

    def test_the_peak_counts_what_was_given_back_only_when_it_is(self):
        self.assertEqual(events.peak_above_start([("alloc", 5, 0), ("free_requested", 5, 0), ("alloc", 6, 0), ("free_completed", 5, 0), ("alloc", 1, 0)]), 11)

    def test_trace_and_history(self):
        history = [("segment_alloc", 2 << 20, 0), ("alloc", 5, 0), ("free_requested", 5, 0), ("free_completed", 5, 0)]


        def traced(layer, kind, address, size):
            return {"layer": layer, "kind": kind, "address": address, "size_bytes": size, "device": 0, "memory": "device"}

        trace = [traced("runtime", "alloc", "0x1", 2 << 20), traced("torch", "alloc", "0x1", 512), traced("torch", "free", "0x1", 512)]
        self.assertTrue(trace_side.compare(history, [-1, 0, 0, 0], trace)["identical"])
        for at, size in ((0, 1 << 20), (1, 1024 + (1 << 20)), (1, 0)):
            wrong = [dict(each) for each in trace]
            wrong[at]["size_bytes"] = size
            self.assertFalse(trace_side.compare(history, [-1, 0, 0, 0], wrong)["identical"], (at, size))
        self.assertFalse(trace_side.compare(history, [-1, 0, 0, 0], trace[:2])["identical"])


class FactsTest(unittest.TestCase):
    def test_what_is_written_is_read(self):
        device = events.Device.of_snapshot(snapshot(*EventsTest.FIRST, entry("free_requested", 99, 8, 70), segments=[SEGMENT]), 0)
        history = catalogue.load()[0]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "one.xz"
            facts.write(path, facts.Facts.of(history, device, 0))
            read = facts.read(path)
        self.assertEqual((read.device.events, read.device.blocks, read.device.segments, read.device.allocated), (device.events, device.blocks, device.segments, 512))
        self.assertEqual((read.about["blob"], read.layout), (history.blob, facts.digest(device.layout)))

    def test_every_history_has_its_facts(self):
        histories = catalogue.load()
        self.assertEqual({path.name for path in FACTS.iterdir()}, {f"{history.facts}.xz" for history in histories})
        self.assertGreaterEqual(len(histories), 40)
        self.assertGreaterEqual(len({history.repository for history in histories}), 10)
        self.assertLess(sum(path.stat().st_size for path in FACTS.iterdir()), 2 << 20)
        for history in histories:
            about = facts.read(FACTS / f"{history.facts}.xz").about
            self.assertEqual((about["repository"], about["blob"], about["commit"]), (history.repository, history.blob, history.commit))

    def test_facts_are_those_of_the_files(self):
        folders = held.folders_of_histories()
        if not folders:
            self.skipTest("no folder of histories (GPUMEMSHIM_REAL_GPU_HISTORIES, or ../shared/real-gpu)")
        found = [(history, path) for history in catalogue.load() if (path := history.find(folders))]
        self.assertTrue(found, f"no history of the catalogue is under {folders}")
        for history, path in found:
            known = facts.read(FACTS / f"{history.facts}.xz")
            read = events.Device.of_snapshot(snapshot_file.load(path), known.about["device"])
            with self.subTest(history=history.name):
                self.assertEqual((known.device.events, known.device.blocks, known.device.segments), (read.events, read.blocks, read.segments))
                self.assertEqual((known.layout, known.device.allocated), (facts.digest(read.layout), read.allocated))


class StartTest(unittest.TestCase):
    MAPPED = {**SEGMENT, "stream": 7}

    def rebuilt(self, *entries, **changes):
        return start_state.rebuild(snapshot(*entries, segments=[{**self.MAPPED, **changes}]), 0)

    def test_what_is_made_in_the_history_was_not_there(self):
        state = self.rebuilt(entry("segment_alloc", 4096, 2 << 20, 7), entry("alloc", 4096, 500, 7))
        self.assertEqual((state.ranges, state.expandable), ([], False))

    def test_what_is_freed_in_the_history_was_there(self):
        state = self.rebuilt(entry("free_requested", 8192, 700, 7), entry("free_completed", 8192, 700, 7))
        blocks = state.ranges[0].blocks
        self.assertEqual({address: block.took for address, block in blocks.items()}, {4096: 512, 8192: 1024})

    def test_a_remainder_that_is_too_small_belongs_to_the_block(self):
        large = {"segment_type": "large", "total_size": 20 << 20, "blocks": [{"size": 20 << 20, "state": "inactive"}]}
        state = self.rebuilt(entry("free_completed", 4096, (19 << 20) + 1, 7), **large)
        self.assertEqual(state.ranges[0].blocks[4096].took, 20 << 20)
        state = self.rebuilt(entry("free_completed", 4096, 18 << 20, 7), **large)
        self.assertEqual(state.ranges[0].blocks[4096].took, 18 << 20)

    def test_an_allocation_behind_a_block_tells_where_it_ended(self):
        large = {"segment_type": "large", "total_size": 20 << 20, "blocks": [{"size": 20 << 20, "state": "inactive"}]}
        behind = 4096 + (3 << 20)
        entries = [entry("alloc", behind, 5 << 20, 7), entry("free_completed", 4096, (2 << 20) + 1, 7), entry("free_completed", behind, 5 << 20, 7)]
        self.assertEqual(self.rebuilt(*entries, **large).ranges[0].blocks[4096].took, 3 << 20)
        entries[0], entries[1] = entries[1], entries[0]  # the block was gone by then
        self.assertEqual(self.rebuilt(*entries, **large).ranges[0].blocks[4096].took, (2 << 20) + 512)

    def test_mapped_addresses_are_taken_back(self):
        state = self.rebuilt(entry("segment_map", 4096 + (1 << 20), 1 << 20, 7), entry("segment_unmap", 4096 + (4 << 20), 2 << 20, 7), is_expandable=True)
        self.assertEqual([(each.address, each.size, each.small) for each in state.ranges], [(4096, 1 << 20, True), (4096 + (4 << 20), 2 << 20, True)])

    def test_a_history_that_contradicts_itself(self):
        for entries in ((entry("alloc", 99, 5, 7),), (entry("alloc", 8192, 5, 7),), (entry("segment_alloc", 4096, 2 << 20, 7),)):
            with self.subTest(entries=entries), self.assertRaises(start_state.Inconsistent):
                self.rebuilt(*entries)

    def test_requests(self):
        freed = {**entry("segment_free", 1 << 20, 5, 7), "frames": [{"name": "emptyCache"}]}
        in_need = {**entry("segment_free", 2 << 20, 5, 7), "frames": [{"name": "CUDACachingAllocator::malloc"}]}
        entries = [entry("free_completed", 4096, 500, 7), freed, freed, in_need, entry("segment_alloc", 77, 9, 8), entry("alloc", 77, 9, 8), entry("free_completed", 77, 9, 8)]
        state = self.rebuilt()
        found, streams = allocator.requests_of(entries, state, imposed=True)
        self.assertEqual(found, [["free", 0], ["empty"], ["alloc", 1, 9, 2, 77], ["free", 1]])
        self.assertEqual(streams, {0: 0, 7: 1, 8: 2})

    def test_the_gpu_is_as_small_as_its_failure_tells(self):
        entries = [entry("segment_alloc", 0, 100 << 20), entry("oom", 0, 60 << 20)]
        self.assertEqual(allocator.capacity_mib(entries, self.rebuilt()), 102 + 30 + allocator.CONTEXT_MIB)
        self.assertEqual(allocator.capacity_mib(entries[:1], self.rebuilt()), allocator.PLENTY_MIB)

    def test_places(self):
        found = allocator.places([("alloc", 1, 10), ("segment_alloc", 4, 90), ("alloc", 1, 92), ("alloc", 1, 94), ("segment_free", 4, 90), ("alloc", 1, 92)], [(8, 4)])
        self.assertEqual(found, [(0, 2), (1, 2), None, None])


class PageTest(unittest.TestCase):
    def test_the_page_is_of_the_stored_results(self):
        self.assertEqual(PAGE.read_text(), page.render(catalogue.load(), json.loads(RESULTS.read_text())), "bench/real_gpu/run page writes it")


class Rerun(unittest.TestCase):
    def bench(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-real-gpu-")
        self.addCleanup(folder.cleanup)
        return rerun.Bench(SETUP.build, {INSTALLED: SETUP.python, **held.pythons_given()}, pathlib.Path(folder.name))

    def check(self, history, run):
        bench = self.bench()
        try:
            answer = held.compare_run(bench, facts.read(FACTS / f"{history.facts}.xz"), run(bench))
        except rerun.Unavailable as reason:
            self.skipTest(str(reason))
        print(f"{history.name}: {answer['history']['events']} events", flush=True)
        self.assertEqual(list(held.wrong_claims(history, answer)), [], answer)


class OwnTest(Rerun):
    """Our own programs on simulated CUDA, against what a real GPU did. One test a history; made in main()."""


class ScriptTest(Rerun):
    """The authors' scripts, from checkouts."""


class RequestsTest(Rerun):
    """Recorded requests through PyTorch's allocator."""

    def replay(self, history):
        path = history.find(held.folders_of_histories())
        if path is None:
            self.skipTest("its file is not at hand (GPUMEMSHIM_REAL_GPU_HISTORIES, ../shared/real-gpu)")
        read, bench = snapshot_file.load(path), self.bench()
        for device in [number for number in snapshot_file.devices(read) if snapshot_file.entries(read, number)]:
            answer = allocator.replay(bench, SETUP.python, read, device, history.simulated)["imposed"]
            print(f"{history.name}, GPU {device}: {answer['events']} events", flush=True)
            self.assertEqual((answer["sequence_identical"], answer["segments_equal"], answer["died"], answer["failures_here"]), (True, True, "", answer["failures"]), answer)


class ImportTest(Rerun):
    """An author's file as `gpumemshim import` reads it, against the numbers that our own reader took from it."""

    def read(self, history):
        path = history.find(held.folders_of_histories())
        if path is None:
            self.skipTest("its file is not at hand (GPUMEMSHIM_REAL_GPU_HISTORIES, ../shared/real-gpu)")
        answer = held.compare_import(SETUP.gpumem, facts.read(FACTS / f"{history.facts}.xz"), path, self.bench().work)
        self.assertEqual((answer["identical"], answer["mapped_equal"], answer["ends_equal"]), (True, True, True), answer)


def run_script(bench, history):
    checkouts = os.environ.get("GPUMEMSHIM_REAL_GPU_CHECKOUTS")
    folder = catalogue.checkout(history, pathlib.Path(checkouts), bench.work) if checkouts else None
    if folder is None:
        raise rerun.Unavailable(f"no checkout of {history.repository} (GPUMEMSHIM_REAL_GPU_CHECKOUTS)")
    return bench.script(history, folder)


def add_histories():
    for history in catalogue.load():
        name = "test_" + re.sub(r"\W", "_", history.facts)
        if history.own and (history.name in EVERYDAY or FULL):
            setattr(OwnTest, name, lambda self, history=history: self.check(history, lambda bench: bench.own(history)))
        if history.script and FULL:
            setattr(ScriptTest, name, lambda self, history=history: self.check(history, lambda bench: run_script(bench, history)))
        if history.name in EVERYDAY_REQUESTS or FULL:
            setattr(RequestsTest, name, lambda self, history=history: self.replay(history))
            setattr(ImportTest, name, lambda self, history=history: self.read(history))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    global SETUP, FULL
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    FULL = arguments.full
    add_histories()
    unittest.main(argv=rest)


if __name__ == "__main__":
    main()
