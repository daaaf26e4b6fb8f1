# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Every hooked function is called and must leave its event: on the simulated driver, whose log must agree, and on a fake that refuses nothing.

    python tests/hosts/coverage_test.py --build build/release --hosts build/release/tests/hosts --fake FOLDER
"""

import argparse
import collections
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hosts_test  # noqa: E402
from hosts_test import history, truth  # noqa: E402

FAKE = None
REQUESTS = ("alloc", "physical_create", "address_reserve")
ENDS_BEFORE_THE_CALL = ("free", "host_unregister", "import_close", "context_destroy", "device_reset", "pool_destroy", "address_free", "physical_release", "unmap", "multicast_unbind")
TABLE = (truth.ROOT / "shim/base/api.def").read_text()


def hooked(layer):
    return set(re.findall(rf"^GPUMEM_{layer}_SYMBOL\((\w+)\)", TABLE, re.M))


def calls_of(text):
    """[(function, kind that a success makes, result)] as a host prints them."""
    return [(name, kind, int(result)) for name, kind, result in (line.split() for line in text.splitlines())]


def expected_events(calls):
    """Counter of (function, kind). What fails is an event where it asked for memory, or was recorded before and is taken back."""
    found = collections.Counter()
    for name, kind, result in calls:
        if kind == "-":
            continue
        if result == 0:
            found[name, kind] += 1
        elif kind in REQUESTS:
            found[name, "alloc_failed"] += 1
        elif kind in ENDS_BEFORE_THE_CALL and not name.startswith("cuMemMapArray"):
            found[name, kind] += 1
            found[name, "free_failed"] += 1
    return found


class CoverageTest(hosts_test.HostTest):
    def record(self, *command, **environment):
        done = self.run_host(*command, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return calls_of(done.stdout), list(history.events_of(self.setup, self.the_trace()))

    def check(self, calls, events):
        made = collections.Counter((event["api"], event["kind"]) for event in events if event["kind"] != "graph_memory")
        expected = expected_events(calls)
        self.assertEqual((made - expected, expected - made), (collections.Counter(), collections.Counter()))


class Driver(CoverageTest):
    def test_on_a_driver_that_refuses_nothing(self):
        calls, events = self.record("coverage_driver", LD_LIBRARY_PATH=str(FAKE))
        self.assertEqual({name for name, _, result in calls if result == 0}, hooked("DRIVER"))
        self.check(calls, events)

    def test_measured_sizes(self):
        _, events = self.record("coverage_driver", LD_LIBRARY_PATH=str(FAKE))
        loads = [event for event in events if event["kind"] == "module_load"]
        self.assertEqual({event["size_bytes"] for event in loads}, {1 << 20})
        graphs = [event["size_bytes"] for event in events if event["kind"] == "graph_memory"]
        self.assertEqual(graphs, [2 << 20, 4 << 20, 0])  # two launches, a trim
        device = self.report()["devices"][0]
        self.assertEqual(device["residual"]["modules"], 0)  # the others went with the device
        self.assertEqual(device["residual"]["peak_module_bytes"], 5 << 20)

    def test_on_the_simulated_driver(self):
        log = self.folder / "log.tsv"
        calls, events = self.record("coverage_driver", SIMCUDA_LOG=str(log))
        self.check(calls, events)
        # What a context takes with it is freed in the log, and by one event in the trace; memory of others has words of its own there.
        rows = [row for row in history.rows_of_log(log) if not row["api"].startswith(("cuCtxDestroy", "cuCtxDetach", "cuDevicePrimaryCtx"))]
        apart = {event[name] for event in events if event["memory"] in ("array", "multicast", "external") for name in ("address", "handle")}
        differences = list(history.log_differences(events, rows))
        self.assertEqual([text for text in differences if int(re.search(r" (0x[0-9a-f]+):", text)[1], 16) not in apart], [])
        device = self.report()["devices"][0]
        self.assertEqual(device["end"]["total_bytes"], int(list(history.rows_of_log(log))[-1]["live_bytes"]))


class Runtime(CoverageTest):
    def test_on_the_simulated_runtime(self):
        calls, events = self.record("coverage_runtime")
        self.assertEqual({name for name, _, _ in calls}, hooked("RUNTIME"))
        below = [event for event in events if event["layer"] == "driver"]
        self.assertLessEqual({event["kind"] for event in below}, {"context_create", "context_destroy", "module_load", "graph_memory"})
        self.check(calls, [event for event in events if event["layer"] == "runtime"])


def main():
    parser = argparse.ArgumentParser()
    for name in ("--build", "--hosts", "--fake"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    arguments, rest = parser.parse_known_args()
    global FAKE
    FAKE = os.path.abspath(arguments.fake)
    hosts_test.BUILD, hosts_test.HOSTS = arguments.build.resolve(), arguments.hosts.resolve()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
