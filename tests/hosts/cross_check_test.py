# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""CUPTI as a second witness: both see the same calls, each difference has its cause, and CUPTI's own failures are said.

    python tests/hosts/cross_check_test.py --build build/release --hosts build/release/tests/hosts
"""

import json
import pathlib
import re
import subprocess

import hosts_test

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs"


class CrossCheckTest(hosts_test.HostTest):
    def check(self, *command, code=0, **more):
        """The answer of `doctor --cross-check` on a host."""
        done = subprocess.run(
            [self.setup.gpumem, "doctor", "--cross-check", "--json", "--", str(hosts_test.HOSTS / command[0]), *command[1:]],
            cwd=self.folder,
            env=self.environment(False, GPUMEMSHIM_RING_DIRECTORY=self.ring_folder, TMPDIR=str(self.folder), **more),
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        start = done.stdout.index("{")  # the program prints, too
        return json.loads(done.stdout[start:])["cross_check"]

    def causes(self, answer):
        return {row["cause"] for row in answer["rows"]}

    def test_both_see_every_call_of_eight_threads(self):
        answer = self.check("host_threads", "200")
        self.assertEqual(answer["unexplained"], 0)
        self.assertEqual(self.causes(answer) - {"before_cupti"}, {"none", "context_or_code"})
        allocated = [row for row in answer["rows"] if row["api"] in ("cudaMalloc", "cudaMallocAsync")]
        self.assertEqual(sum(row["calls"] for row in allocated), 8 * 200)
        self.assertGreater(answer["both"], 8 * 200)
        self.assertEqual(answer["only_cupti"], 0)
        self.assertEqual(self.left(), [])

    def left(self):
        return list(self.folder.glob("gpumemshim-cross-check-*"))

    def test_kinds_without_records_are_named(self):
        answer = self.check("host_driver")
        self.assertEqual(answer["unexplained"], 0)
        self.assertLessEqual({"none", "virtual_memory", "registered_host_memory"}, self.causes(answer))

    def test_processes_that_share_memory(self):
        answer = self.check("host_shares")
        self.assertEqual((answer["unexplained"], len(answer["processes"])), (0, 2))
        self.assertIn("imported", self.causes(answer))

    def test_buffers_late_and_out_of_order(self):
        for setting in ("late", "disorder", "late,disorder", "version=18"):
            with self.subTest(setting):
                answer = self.check("host_threads", "200", SIMCUDA_CUPTI=setting)
                self.assertEqual(self.causes(answer) - {"before_cupti"}, {"none", "context_or_code"})

    def test_dropped_records_are_counted_and_explain_as_many_gaps(self):
        answer = self.check("host_threads", "200", SIMCUDA_CUPTI="drop=10")
        dropped = answer["processes"][0]["dropped_records"]
        self.assertGreater(dropped, 100)
        gaps = {cause: sum(row["calls"] for row in answer["rows"] if row["cause"] == cause) for cause in ("dropped_by_cupti", "before_cupti")}
        self.assertEqual(answer["unexplained"], 0)
        self.assertLessEqual(gaps["dropped_by_cupti"], dropped)
        self.assertGreaterEqual(sum(gaps.values()), dropped)  # one of a call that began before CUPTI did may be among them

    def test_another_subscriber_goes_first(self):
        answer = self.check("host_threads", "20", code=3, SIMCUDA_CUPTI="busy")
        self.assertEqual((answer["compared"], answer["processes"][0]["state"]), (False, "other_subscriber"))
        self.assertEqual(answer["both"], 0)

    def test_an_old_cupti_is_not_asked(self):
        answer = self.check("host_threads", "20", code=3, SIMCUDA_CUPTI="version=17")
        self.assertEqual(answer["processes"][0]["state"], "no_library")

    def test_without_libcupti(self):
        folder = self.folder / "libraries"
        folder.mkdir()
        for library in (hosts_test.BUILD / "lib" / "simcuda").iterdir():
            if not library.name.startswith("libcupti"):
                (folder / library.name).symlink_to(library)
        answer = self.check("host_threads", "20", code=3, LD_LIBRARY_PATH=str(folder))
        # "failed": this machine has a real libcupti, which refuses without a real driver.
        self.assertIn(answer["processes"][0]["state"], ("no_library", "failed"))

    def test_keys_and_causes_are_documented(self):
        answer = self.check("host_driver")
        keys = set(answer) | set(answer["rows"][0]) | set(answer["processes"][0])
        documented = set(re.findall(r"`(\w+)`", (DOCUMENT / "json.md").read_text().split("\n## doctor\n")[1].split("\n## ")[0]))
        self.assertEqual(keys - documented, {"pid", "program"})  # which other commands have, too
        causes = set(re.findall(r"^\| `(\w+)`", (DOCUMENT / "cross-check.md").read_text(), re.M))
        self.assertEqual(self.causes(answer) - causes, {"none"})


if __name__ == "__main__":
    hosts_test.main()
