# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a device's memory is made up of beside PyTorch's, against what simulated CUDA gave out: communicators, local memory of kernels, CUDA's own calls.

    python tests/e2e/parts_test.py --build build/release
"""

import pathlib
import tempfile
import unittest

import truth

SETUP = None
MIB = 1 << 20
NCCL_MIB = 96
# Of the simulated device: multiprocessors x threads of each; a thread has 1 KiB without any kernel.
THREADS = 132 * 2048


class PartsTest(unittest.TestCase):
    def test_the_parts_are_what_was_given_out(self):
        case = truth.Case("parts_of_a_device.py", {"SIMCUDA_NCCL_MEM": f"{NCCL_MIB}M"})
        with tempfile.TemporaryDirectory(prefix="gpumemshim-parts-") as folder:
            trace = pathlib.Path(folder) / "run.gmtrace"
            truth.run(SETUP.recording(trace, *SETUP.command(truth.PROGRAMS / case.program)), SETUP, truth.environment_of(case, SETUP))
            answer = truth.report(SETUP, trace, "--no-replay")
        breakdown = answer["devices"][0]["breakdown"]["at_peak"]
        parts = breakdown["parts"]
        nccl = [(part["communicator"], part["ranks"], part["rank"], part["bytes"]) for part in parts if part["library"] == "NCCL"]
        self.assertEqual(nccl, [(1, 1, 0, NCCL_MIB * MIB), (2, 1, 0, NCCL_MIB * MIB)], parts)
        local = [part["bytes"] for part in parts if part["part"] == "local_memory"]
        self.assertEqual(local, [(16384 - 1024) * THREADS], parts)
        self.assertEqual([part["bytes"] for part in parts if part["label"].startswith("the program")], [10 * MIB], parts)
        self.assertEqual(sum(part["bytes"] for part in parts) + breakdown["unexplained_bytes"], breakdown["process_bytes"])
        # What simulated CUDA rounds up (holes of its pages) is all that has no name.
        self.assertLessEqual(abs(breakdown["unexplained_bytes"]), 4 * MIB, parts)


if __name__ == "__main__":
    truth.run_tests(globals())
