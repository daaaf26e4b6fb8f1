# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Marks: what a program says of itself through gpumemshim.h, NVTX or `gpumemshim ctl`, and which parts of it were recorded, as the analyzer tells it. And
CUDA_INJECTION64_PATH alone, without a preload, records what the driver hands out, event by event as its own log has it.

    python tests/hosts/marks_test.py --build build/release --hosts build/release/tests/hosts [-k nvtx]
"""

import json
import os
import subprocess

import hosts_test
import history
import truth
from control_test import MIB, ControlTest


class MarksTest(ControlTest):
    def timeline(self, trace=None):
        done = subprocess.run([self.setup.gpumem, "timeline", "--json", str(trace or self.the_trace())], capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout)

    def marks(self):
        return [(mark["kind"], mark["text"] or mark["number"]) for mark in self.timeline()["marks"]]


class Spans(MarksTest):
    def test_every_key_is_documented(self):
        self.start("init", f"alloc {MIB}", "mark x")
        page = (truth.ROOT / "docs" / "json.md").read_text()
        answers = [self.ask(), self.ask("flush"), self.ask("mark", "y"), self.ask("dump"), json.loads(self.ctl("--json"))["processes"][0]]
        self.end()
        (trace,) = [trace for trace in self.traces() if "snapshot" not in trace.name]
        answers += self.timeline(trace)["marks"][:1]
        for key in set().union(*answers):
            self.assertRegex(page, rf"(?m)^\|[^|]*`{key}`[^|]*\|" if key not in ("file", "time_ns") else key)

    def test_stop_and_start_make_spans(self):
        self.start("init", f"alloc {MIB}")
        self.assertEqual(self.ask("stop")["state"], "paused")
        self.assertFalse(self.tell(f"alloc {2 * MIB}"))
        self.assertEqual(self.ask("stop")["state"], "paused")
        status = self.ask("start")
        self.assertEqual((status["state"], status["spans"]), ("recording", 2))
        self.tell(f"alloc {3 * MIB}", "free", "free", "free")  # the second of these was allocated unseen
        self.end()
        self.assertEqual(self.allocations(), [MIB, 3 * MIB])
        report = self.report()
        self.assertEqual((report["recording"]["began_late"], len(report["recording"]["spans"])), (False, 2))
        self.assertTrue(any("1 free named memory that this trace never saw allocated" in note for note in report["notes"]), report["notes"])
        self.assertEqual(report["devices"][0]["end"]["total_bytes"], 0)
        self.assertTrue(any("switched off in between" in note for note in report["notes"]))

    def test_dormant_until_told(self):
        self.start("init", f"alloc {MIB}", "step 7", "push load", GPUMEMSHIM_START="off")
        self.assertEqual(self.ask()["state"], "dormant")
        self.assertEqual((self.traces(), os.listdir(self.ring_folder)), ([], []))
        self.assertEqual(self.ask("start")["state"], "recording")
        self.tell(f"alloc {2 * MIB}", "free", "free")
        self.end()
        self.assertEqual(self.allocations(), [2 * MIB])
        report = self.report()
        self.assertTrue(report["recording"]["began_late"])
        self.assertEqual(report["devices"][0]["at_peak"]["where"], {"step": 7, "stage": "load", "tag": None, "mark": None})

    def test_dump_stands_by_itself(self):
        self.start("init", f"alloc {MIB}", "mark here")
        dump = self.ask("dump", "-o", "now.gmtrace")
        self.tell(f"alloc {2 * MIB}")
        snapshot = self.folder / "now.gmtrace"
        self.assertEqual(snapshot.stat().st_size, dump["snapshot_bytes"])
        self.assertIn("exists", self.ctl(self.process.pid, "dump", "-o", "now.gmtrace", code=3))
        self.assertIn("writes to", self.ctl(self.process.pid, "dump", "--force", "-o", dump["file"], code=3))
        self.process.kill()  # its ring is not read for the copy, which says that it ends before
        self.process.communicate()
        self.assertEqual(self.allocations(snapshot), [MIB])
        done = subprocess.run([self.setup.gpumem, "report", "--json", str(snapshot)], capture_output=True, text=True, timeout=60)
        self.assertEqual((json.loads(done.stdout)["snapshot"], json.loads(done.stdout)["complete"]), (True, True))


class Marks(MarksTest):
    def test_stages_steps_and_tags_name_the_peak(self):
        self.start("push train", "init", "step 1", "push forward", f"alloc {MIB}", "pop", "mark half way", "step 2", "tag tenant-a", "push backward")
        self.tell(f"alloc {4 * MIB}", "pop", "untag", "free", "step 3", f"alloc {2 * MIB}", "pop", "pop")
        self.end()
        at_peak = self.report()["devices"][0]["at_peak"]
        self.assertEqual(at_peak["where"], {"step": 2, "stage": "train > backward", "tag": "tenant-a", "mark": "half way"})
        stages = {use["bytes"]: use["where"]["stage"] for use in at_peak["stacks"]}
        self.assertEqual(set(stages.values()) - {"train > backward", "train > forward"}, set())
        text = subprocess.run([self.setup.gpumem, "report", "--full", str(self.the_trace())], capture_output=True, text=True, timeout=60).stdout
        self.assertIn("step 2, stage train > backward, tag tenant-a", " ".join(text.split()))
        self.assertIn(("mark", "half way"), self.marks())
        self.assertIn(("step", 3), self.marks())

    def test_the_example(self):
        done = self.run_host("host_marks")
        self.assertEqual((done.returncode, done.stdout), (0, "3 steps, recorded\n"))
        where = self.report()["devices"][0]["at_peak"]["where"]
        self.assertEqual((where["step"], where["stage"]), (3, "forward"))
        self.assertEqual(self.run_host("host_marks", preload=False).stdout, "3 steps\n")

    def test_marks_from_outside(self):
        self.start("init", f"alloc {MIB}")
        self.ctl(self.process.pid, "mark", "traffic", "doubled \u00fc")
        self.tell("mark inside")
        self.end()
        self.assertEqual([text for kind, text in self.marks() if kind == "mark"], ["traffic doubled \u00fc", "inside"])

    def test_memory_has_a_name_and_a_snapshot_shows_it(self):
        self.start("init", f"alloc {MIB}", "name weights \u00fc", f"alloc {2 * MIB}", "snapshot loaded", "free", "snapshot again")
        self.end()
        snapshots = self.report()["snapshots"]
        self.assertEqual([(each["name"], each["values"]["total_bytes"]) for each in snapshots], [("loaded", 3 * MIB), ("again", MIB)])
        done = subprocess.run([self.setup.gpumem, "at", "loaded", "--json", str(self.the_trace())], capture_output=True, text=True, timeout=60)
        self.assertEqual([(name["name"], name["bytes"]) for name in json.loads(done.stdout)["names"]], [("weights \u00fc", MIB)])

    def test_they_survive_a_kill(self):
        self.start("init", f"alloc {MIB}")
        self.ask("flush")
        self.tell("push last words", "mark and out", f"alloc {2 * MIB}", "name last", "snapshot seen")
        self.process.kill()
        self.process.communicate()
        report = self.report()
        self.assertEqual(report["devices"][0]["at_peak"]["where"]["stage"], "last words")
        self.assertIn(("mark", "and out"), self.marks())
        done = subprocess.run([self.setup.gpumem, "at", "seen", "--json", str(self.the_trace())], capture_output=True, text=True, timeout=60)
        self.assertEqual([name["name"] for name in json.loads(done.stdout)["names"]], ["last"])

    def test_pause_and_resume(self):
        self.start("pause", "init", f"alloc {MIB}")
        self.assertTrue(self.tell("resume"))
        self.assertTrue(self.tell(f"alloc {2 * MIB}"))
        self.assertFalse(self.tell("pause", f"alloc {3 * MIB}"))
        self.end()
        self.assertEqual(self.allocations(), [2 * MIB])

    def test_reads_of_device_memory(self):
        """As the simulated CUDA tells them, and as anybody may; neither where recording is off."""
        self.start("read 7", "init", f"alloc {MIB}", "read 12", "fetch 300", "pause", "read 13", "fetch 301", "resume", "read 14")
        self.end()
        reads = [event for event in history.events_of(self.setup, self.the_trace()) if event["kind"] == "host_read"]
        self.assertEqual([event["size_bytes"] for event in reads], [12, 300, 14])
        (address,) = {event["address"] for event in reads}
        self.assertEqual(address, next(event["address"] for event in history.events_of(self.setup, self.the_trace()) if event["kind"] == "alloc"))
        self.assertNotIn(0, [event["stack"] for event in reads])

    def test_without_the_library_nothing_happens(self):
        self.start("push a", "init", "step 1", "mark b", "pop", "tag c", "pause", "resume", f"alloc {MIB}", preload=False)
        self.assertEqual(self.end(), "")


class Nvtx(MarksTest):
    def run_nvtx(self, host, *arguments, **more):
        done = self.run_host(host, *arguments, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_headers_by_injection(self):
        self.run_nvtx("host_nvtx", NVTX_INJECTION64_PATH=str(hosts_test.BUILD / "lib" / "libgpumemshim.so"))
        where = self.report()["devices"][0]["at_peak"]["where"]
        self.assertEqual(where["stage"], "whole run > outer > library:inner \u00fc")
        texts = [text for _, text in self.marks()]
        for expected in ("a mark", "outer", "library:inner \u00fc", "library:registered", "whole run"):
            self.assertIn(expected, texts)

    def test_another_tool_that_the_user_named_goes_first(self):
        self.run_nvtx("host_nvtx", NVTX_INJECTION64_PATH="/nonexistent/tool.so")
        self.assertNotIn("outer", [text for _, text in self.marks()])

    def test_gpumem_run_sets_the_variable(self):
        done = subprocess.run(
            [self.setup.gpumem, "run", "-q", "-o", "run.gmtrace", "--", str(hosts_test.HOSTS / "host_nvtx")],
            cwd=self.folder,
            env=self.environment(preload=False),
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("outer", [text for _, text in self.marks()])

    def test_the_old_library_by_symbol(self):
        done = self.run_nvtx("host_nvtx_library", LD_LIBRARY_PATH=f"{hosts_test.HOSTS}:{hosts_test.BUILD / 'lib' / 'simcuda'}")
        self.assertEqual(self.report()["devices"][0]["at_peak"]["where"]["stage"], "old outer > old inner")
        self.assertIn("library heard 2 pushes 2 pops 1 marks", done.stdout)


class Injection(MarksTest):
    def environment(self, preload=True, **more):
        environment = super().environment(preload, **more)
        if preload:
            environment["CUDA_INJECTION64_PATH"] = environment.pop("LD_PRELOAD")
        return environment

    def test_the_drivers_events_without_a_preload(self):
        for command in (("host_driver",), ("host_threads", "200")):
            with self.subTest(command=command):
                for trace in self.traces():
                    trace.unlink()
                log = self.folder / f"{command[0]}.tsv"
                done = self.run_host(*command, SIMCUDA_LOG=str(log))
                self.assertEqual(done.returncode, 0, done.stderr)
                events, rows = list(history.events_of(self.setup, self.the_trace())), list(history.rows_of_log(log))
                self.assertGreater(len(rows), 5)
                self.assertEqual(list(history.log_differences(events, rows)), [])
                self.assertTrue(any("CUDA_INJECTION64_PATH" in note for note in self.report()["notes"]))

    def test_control_works(self):
        self.start("init", f"alloc {MIB}")
        self.assertEqual(self.ask("stop")["state"], "paused")
        self.tell(f"alloc {MIB}")
        self.end()
        self.assertEqual(self.allocations(), [MIB])

    def test_with_a_preload_too_everything_is_recorded_once(self):
        log = self.folder / "log.tsv"
        library = str(hosts_test.BUILD / "lib" / "libgpumemshim.so")
        done = self.run_host("host_threads", "100", LD_PRELOAD=library, CUDA_INJECTION64_PATH=library)
        self.assertEqual(done.returncode, 0, done.stderr)
        events, rows = list(history.events_of(self.setup, self.the_trace())), list(history.rows_of_log(log))
        self.assertEqual(list(history.log_differences(events, rows)), [])


if __name__ == "__main__":
    hosts_test.main()
