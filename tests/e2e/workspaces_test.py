# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Sizes that only a GPU can tell: `gpumemshim plan` takes those of the table, tells the peak with bounds where there is no row; and the program that measures them,
rehearsed without a GPU.

    python tests/e2e/workspaces_test.py --build build/release
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import truth

sys.path.insert(0, str(truth.ROOT / "scripts" / "lib"))
import workspace_table  # noqa: E402

SETUP = None
RARER = ("test_rows_of_every_library", "test_the_other_end_is_told_where_nobody_measured",
         "test_a_row_of_another_device_is_similar_and_one_of_another_shape_nothing")
PROGRAM = truth.PROGRAMS / "workspaces.py"
MIB = 1 << 20
H100 = "NVIDIA H100 80GB HBM3"
CONVOLUTION = "f32 x=4,3,32,32 w=8,3,3,3 padding=1,1 stride=1,1 dilation=1,1 nchw"


class Scratch(unittest.TestCase):
    known = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-workspaces-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self, **more):
        """With a table that has no rows, unless another is named: neither sizes of an H100 nor the law that was found in them."""
        (self.folder / "none.tsv").touch()
        return truth.environment_of_plans(SETUP, **{"COUNTERS": str(self.folder / "counters"), "SIMCUDA_WORKSPACE_TABLE": str(self.folder / "none.tsv"), **more})

    def table(self, *rows, origin="measured", device=H100):
        """Of (library, operation, parameters, bytes) for torch 2.11's versions."""
        path = self.folder / "table.tsv"
        lines = ["\t".join(map(str, (*row, device, "9.0", "91900" if row[0] == "cuDNN" else "13.0", origin))) for row in rows]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return {"SIMCUDA_WORKSPACE_TABLE": str(path)}

    def run_plan(self, case, *options, **variables):
        """Of one case, or of several, separated by spaces."""
        (self.folder / "counters").unlink(missing_ok=True)
        command = [SETUP.gpumem, "plan", *options, "--no-what-if", "-o", self.folder / "plan.gmtrace", "--", SETUP.python, PROGRAM, *case.split()]
        return subprocess.run([str(word) for word in command], env=self.environment(**variables), capture_output=True, text=True, timeout=200, check=False)

    def plan(self, case, *options, **variables):
        done = self.run_plan(case, "--steps", "all", "--json", *options, **variables)
        self.assertIn(done.returncode, (0, 6), done.stdout[-2000:] + done.stderr[-2000:])  # 6: a workspace without a bound
        return json.loads(done.stdout)

    def counters(self):
        """Of each run of the last plan, PyTorch's own peaks: {case: {name: bytes}}."""
        return [json.loads(line) for line in (self.folder / "counters").read_text().splitlines()]

    def assert_peak(self, peak, cases):
        """The highest that PyTorch had in a run."""
        for name in ("allocated_bytes", "reserved_bytes"):
            self.assertEqual(peak[name], max(case[name] for case in cases.values()), name)

    def plain(self):
        """The plan of "conv" without a row, which is made once; with PyTorch's peaks."""
        if Scratch.known is None:
            Scratch.known = self.plan("conv"), self.counters()
        return Scratch.known

    @staticmethod
    def use(plan, library):
        return next(use for use in plan["confidence"]["workspaces"] if use["library"] == library)


class Rows(Scratch):
    def test_a_row_is_taken_to_the_byte(self):
        plain, _ = self.plain()
        rows = self.table(("cuDNN", "convolution_forward", CONVOLUTION, 50_000_000), ("cuDNN", "convolution_backward_filter", CONVOLUTION, 7 * MIB))
        plan = self.plan("conv", **rows)
        self.assert_peak(plan["peak"], *self.counters())
        use = self.use(plan, "cuDNN")
        self.assertEqual((use["measured"], use["unknown"], use["largest_bytes"]), (2, 0, 50_000_000))
        self.assertEqual(plan["confidence"]["unknown_workspaces"], [])
        self.assertIsNone(plan["confidence"]["peak_where_workspaces_are_bounds"])
        # The forward pass holds parameters, input and result beside its workspace, which has a segment of 48 MiB that is not worth splitting.
        held = 1024 + 512 + 4 * 3 * 32 * 32 * 4 + 4 * 8 * 32 * 32 * 4
        self.assertEqual(plan["peak"]["allocated_bytes"], held + 48 * MIB)
        self.assertLess(plain["peak"]["allocated_bytes"], plan["peak"]["allocated_bytes"] - 49_000_000)

    def test_rows_of_every_library(self):
        lstm = "lstm f32 input=16 hidden=32 projection=32 layers=1 directions=1 steps=10 batch=4 bias=2 training"
        rows = (("cuDNN", "rnn_workspace", lstm, 20 * MIB), ("cuDNN", "rnn_reserve", lstm, 30 * MIB), ("cuFFT", "plan", "n=1000,0,0 batch=4 types=0,4,4", 40 * MIB),
                ("cuFFT", "plan", "n=1000,0,0 batch=4 types=4,4,4", 40 * MIB), ("cuSOLVER", "cusolverDnXpotrf_bufferSize", "0 96 0 96 0", 40 * MIB))
        plan = self.plan("lstm fft linalg", **self.table(*rows))
        for library, measured in (("cuDNN", 2), ("cuFFT", 2), ("cuSOLVER", 1)):
            self.assertEqual((self.use(plan, library)["measured"], self.use(plan, library)["unknown"]), (measured, 0), library)
        peaks, = self.counters()
        self.assert_peak(plan["peak"], peaks)
        for case, least in (("lstm", 50), ("fft", 40), ("linalg", 40)):
            self.assertGreater(peaks[case]["allocated_bytes"], least * MIB, case)

    def test_a_row_of_another_device_is_similar_and_one_of_another_shape_nothing(self):
        rows = self.table(("cuDNN", "convolution_forward", CONVOLUTION, 50 * MIB), ("cuDNN", "convolution_backward_filter", CONVOLUTION + " ", 50 * MIB), device="NVIDIA H200")
        use = self.use(self.plan("conv", **rows), "cuDNN")
        self.assertEqual((use["measured"], use["similar"], use["unknown"]), (0, 1, 1))
        use = self.use(self.plan("conv", "--device", "a100", **rows), "cuDNN")
        self.assertEqual((use["similar"], use["unknown"]), (0, 2))

    def test_the_context(self):
        guessed = self.plan("none", "--workspaces", "none")
        measured = self.plan("none", **self.table(("CUDA", "context", "", 300 * MIB)))
        self.assertEqual(guessed["confidence"]["context"], {"bytes": 512 * MIB, "known": "nothing"})
        self.assertEqual(measured["confidence"]["context"], {"bytes": 300 * MIB, "known": "measured"})
        self.assertEqual(guessed["peak"]["process_bytes"] - measured["peak"]["process_bytes"], 212 * MIB)
        self.assertEqual(guessed["peak"]["reserved_bytes"], measured["peak"]["reserved_bytes"])


class Law(Scratch):
    def test_what_nobody_measured_follows_the_law_on_capability_9(self):
        shipped = str(truth.ROOT / "simcuda" / "stubs" / "workspaces.tsv")
        plan = self.plan("conv", SIMCUDA_WORKSPACE_TABLE=shipped)
        use = self.use(plan, "cuDNN")
        self.assertEqual((use["measured"], use["law"], use["unknown"]), (0, 2, 0))
        self.assertIsNotNone(plan["confidence"]["peak_where_workspaces_are_bounds"])
        self.assertEqual(len(plan["confidence"]["peaks_where_workspaces_are_drawn"]), 2)
        other = self.use(self.plan("conv", "--device", "a100", SIMCUDA_WORKSPACE_TABLE=shipped), "cuDNN")
        self.assertEqual((other["law"], other["unknown"]), (0, 2))

    def test_a_shape_that_was_measured_on_an_h100_is_in_the_file_of_shapes(self):
        text = (truth.ROOT / "simcuda" / "stubs" / "cudnn_convolutions.tsv").read_text(encoding="utf-8").splitlines()
        columns = next(line for line in text if line.startswith("shape\t")).split("\t")
        row = dict(zip(columns, next(line for line in text if line.startswith("x=32,64,56,56 w=64,64,3,3 ")).split("\t")))
        program = self.folder / "one.py"
        program.write_text("import torch\ntorch.backends.cudnn.conv.fp32_precision = 'tf32'\n"
                           "torch.nn.Conv2d(64, 64, 3, padding=1, bias=False).cuda()(torch.zeros(32, 64, 56, 56, device='cuda'))\n")
        command = [SETUP.gpumem, "plan", "--json", "--no-what-if", "-o", self.folder / "one.gmtrace", "--", SETUP.python, program]
        shipped = str(truth.ROOT / "simcuda" / "stubs" / "workspaces.tsv")
        done = subprocess.run([str(word) for word in command], env=self.environment(SIMCUDA_WORKSPACE_TABLE=shipped), capture_output=True, text=True, timeout=200, check=False)
        use = self.use(json.loads(done.stdout), "cuDNN")
        self.assertEqual((use["measured"], use["largest_bytes"]), (1, int(row["forward f32 nchw"])))


class Bounds(Scratch):
    def test_a_cap_of_cudnns_own(self):
        most = self.use(self.plain()[0], "cuDNN")["largest_bound_bytes"]
        self.assertGreater(most, MIB)
        self.assertEqual(self.use(self.plan("conv", CUDNN_CONV_WSCAP_DBG="1"), "cuDNN")["largest_bound_bytes"], MIB)

    def test_the_other_end_is_told_where_nobody_measured(self):
        for cases, libraries in (("conv", ["cuDNN"]), ("lstm fft linalg", ["cuDNN", "cuFFT", "cuSOLVER"])):
            plan, (least, most) = self.plain() if cases == "conv" else (self.plan(cases), self.counters())
            self.assertEqual(plan["confidence"]["unknown_workspaces"], libraries)
            self.assert_peak(plan["peak"], least)
            self.assert_peak(plan["confidence"]["peak_where_workspaces_are_bounds"], most)
            for case in cases.split():
                self.assertGreater(most[case]["allocated_bytes"], least[case]["allocated_bytes"], case)
            bounded = self.plan(cases, "--workspaces", "bound")
            self.assertEqual(self.counters(), [most])
            self.assert_peak(bounded["peak"], most)
            self.assertEqual([self.use(bounded, library)["unknown"] for library in libraries], [0] * len(libraries))
            self.assertIsNone(bounded["confidence"]["peak_where_workspaces_are_bounds"])

    def test_what_has_no_bound_says_so(self):
        use = self.use(self.plan("sparse"), "cuSPARSE")
        self.assertEqual((use["unknown"], use["without_bound"]), (3, 2))

    def test_a_program_without_such_libraries_is_run_once(self):
        plan = self.plan("none")
        self.assertEqual(plan["confidence"]["workspaces"], [])
        self.assertIsNone(plan["confidence"]["peak_where_workspaces_are_bounds"])

    def test_the_page(self):
        page = " ".join(self.run_plan("conv").stdout.split())
        self.assertIn("Those of cuDNN (2 operations) are not measured for this GPU and count as 0.", page)
        self.assertIn("it would be at most", page)
        page = " ".join(self.run_plan("conv", "--workspaces", "bound").stdout.split())
        self.assertIn("Those of cuDNN (2 operations) count with the most that they can be", page)

    def test_none_takes_no_row(self):
        rows = self.table(("cuDNN", "convolution_forward", CONVOLUTION, 50 * MIB), ("CUDA", "context", "", 300 * MIB))
        plan = self.plan("conv", "--workspaces", "none", **rows)
        self.assertEqual(self.use(plan, "cuDNN")["unknown"], 2)
        self.assertEqual(plan["confidence"]["context"]["known"], "nothing")
        self.assertIsNone(plan["confidence"]["peak_where_workspaces_are_bounds"])

    def test_another_word_is_refused(self):
        done = self.run_plan("conv", "--workspaces", "all")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("measured, bound or none", done.stderr)


class Measuring(Scratch):
    def rehearse(self):
        words = [truth.ROOT / "scripts" / "gpu_check", "--workspaces", "--simulated", "--quick", "--build", SETUP.build, "--python", SETUP.python,
                 "--output", self.folder / "gpu_check.json"]
        done = subprocess.run([sys.executable, *map(str, words)], env=self.environment(), capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("REHEARSED", done.stdout)
        lines = (self.folder / "workspaces.tsv").read_text().splitlines()
        self.assertEqual(tuple(lines[0].split("\t")), workspace_table.COLUMNS)
        return [dict(zip(workspace_table.COLUMNS, line.split("\t"))) for line in lines[1:]]

    def test_rehearsed_sizes_are_those_that_the_simulation_gave(self):
        rows = self.rehearse()
        self.assertEqual({row["origin"] for row in rows}, {"simulated"})
        found = {(row["library"], row["operation"], row["parameters"]): int(row["bytes"]) for row in rows}
        self.assertEqual(found["CUDA", "context", ""], 512 * MIB)
        self.assertEqual(found["cuFFT", "plan", "n=1000,0,0 batch=8 types=0,4,4"], 8 * 8 * 1000 * 8)
        self.assertEqual(found["cuSOLVER", "cusolverDnXpotrf_bufferSize", "0 96 0 96 0"], 96 * (96 + 64) * 4)
        self.assertEqual(found["cuSPARSE", "SpMM", "1000x1000/1000 type 0, 1000x64/-1 type 0, 1000x64/-1 type 0, 0 0 0 6"], 1000 * 20 + 1001 * 8 + 2 * 64_000 * 4)
        image = "f32 x=8,64,56,56 w=64,64,3,3 padding=1,1 stride=1,1 dilation=1,1 "
        for operation in ("convolution_forward", "convolution_backward_data", "convolution_backward_filter"):
            for layout in ("nchw", "nhwc"):
                self.assertEqual(found["cuDNN", operation, image + layout], 64 * 33 * 8 * (8 * 128 + 64 * 64))
        self.assertEqual(sum(row["operation"] == "attention" for row in rows), 2)
        self.assertEqual(sum(row["operation"].startswith("rnn_") for row in rows), 2)

    def test_rows_of_a_rehearsal_are_refused(self):
        rows = self.table(("cuDNN", "convolution_forward", CONVOLUTION, 50 * MIB), ("CUDA", "context", "", 300 * MIB), origin="simulated")
        plan = self.plan("conv", **rows)
        self.assertEqual(self.use(plan, "cuDNN")["unknown"], 2)
        self.assertEqual(plan["confidence"]["context"]["known"], "nothing")

    def test_what_is_committed_was_measured(self):
        for line in (truth.ROOT / "simcuda" / "stubs" / "workspaces.tsv").read_text().splitlines():
            if not line.startswith(("#", "library\t")):
                cells = dict(zip(workspace_table.COLUMNS, line.split("\t")))
                self.assertEqual(cells["origin"], "measured", line)
                self.assertTrue(all(cells.get(column) for column in workspace_table.COLUMNS if column != "parameters"), line)
                self.assertNotIn("SimCUDA", cells["device"])


class Comparing(unittest.TestCase):
    ONE, TWO = [("cuFFT", "plan", "a")], [("cuDNN", "rnn_workspace", "a"), ("cuDNN", "rnn_reserve", "a")]

    def test_what_the_gpu_asked_for_in_addition_is_the_size(self):
        self.assertEqual(workspace_table.sizes_of(self.ONE, [8, 99, 8], [8, 8]), [(self.ONE[0], 99)])
        self.assertEqual(workspace_table.sizes_of(self.ONE, [8, 8, 8], [8, 8]), [(self.ONE[0], 8)])
        self.assertEqual(workspace_table.sizes_of(self.TWO, [5, 7, 8], [8]), list(zip(self.TWO, (5, 7))))

    def test_nothing_in_addition_is_a_size_of_zero(self):
        self.assertEqual(workspace_table.sizes_of(self.TWO, [8], [8]), [(key, 0) for key in self.TWO])

    def test_what_is_ambiguous_is_no_size(self):
        for asked, on_gpu, simulated in (([], [8, 9], [8]), (self.ONE, [5, 7, 8], [8]), (self.TWO, [5, 8], [8]), (self.ONE, [9], [8]), (self.ONE, [], [8])):
            self.assertIsNone(workspace_table.sizes_of(asked, on_gpu, simulated))

    def test_attention_lies_in_one_block_with_the_frontends_own(self):
        asked = [("cuDNN", "attention", "a")]
        self.assertEqual(workspace_table.sizes_of(asked, [8, 108], [8, 100]), [(asked[0], 8)])
        self.assertIsNone(workspace_table.sizes_of(asked, [8, 98], [8, 100]))

    def test_a_case_that_fails_on_either_side_is_left_out(self):
        good = {"name": "x", "allocations": [4], "asked": [["cuFFT", "plan", "a"]]}
        bad = {"name": "x", "error": "no such thing"}
        for on_gpu, simulated in ((good, bad), (bad, good)):
            found, left_out = workspace_table.compare({"cases": [on_gpu]}, {"cases": [simulated]})
            self.assertEqual((found, left_out), ({}, [{"name": "x", "why": "no such thing"}]))


if __name__ == "__main__":
    truth.run_tests(globals(), RARER)
