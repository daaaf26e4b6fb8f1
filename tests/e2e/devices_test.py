# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Every device that `gpumem plan` knows, and newer ones: operations that choose their code by the architecture that it was compiled for run on it, or
say as on a GPU that there is no code for it; and README's line works.

    python tests/e2e/devices_test.py [--full] --build build/release
"""

import argparse
import json
import subprocess
import tempfile
import unittest

import truth

SETUP = None
FULL = False
PROGRAM = truth.PROGRAMS / "devices.py"
DEVICES = json.loads((truth.ROOT / "planner" / "launch" / "devices.json").read_text(encoding="utf-8"))["devices"]
# Capabilities that no device of the list has.
NEWER = ("8.7", "10.3", "11.0", "12.1", "13.0")
NO_CODE = "CUDA error: no kernel image is available for execution on the device"
OPERATIONS = 12


def number(capability):
    return int(capability.replace(".", ""))


def has_code(built_for, capability):
    """PyTorch's rule: code of the same major number and no higher a minor one, or PTX of no newer an architecture."""
    for name in built_for:
        kind, _, architecture = name.partition("_")
        architecture = int("".join(filter(str.isdigit, architecture)))
        if architecture <= capability and (kind == "compute" or architecture // 10 == capability // 10):
            return True
    return False


class DevicesTest(unittest.TestCase):
    def test_operations_that_ask_for_their_architecture(self):
        described = [f"{device['name']} SIMCUDA_CC={number(device['capability'])} SIMCUDA_SMS={device['multiprocessors']} "
                     f"SIMCUDA_SMEM={device['shared_memory']} SIMCUDA_MEM_MB={device['memory_mib']}" for device in DEVICES]
        described += [f"newer SIMCUDA_CC={number(capability)}" for capability in NEWER]
        output = truth.run([*SETUP.command(PROGRAM), *described], SETUP, truth.environment_of(truth.Case("none"), SETUP))
        answers = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        self.assertEqual(len(answers), len(described))
        without = set()
        for answer in answers:
            major, minor = answer["capability"]
            with self.subTest(device=answer["name"], capability=f"{major}.{minor}"):
                if has_code(answer["built_for"], 10 * major + minor):
                    self.assertEqual(answer["failures"], {})
                elif (major, minor) == (13, 0):
                    self.assertLessEqual(set(answer["failures"].values()), {NO_CODE})  # whether there is PTX for it nothing tells
                else:
                    without.add(f"{major}.{minor}")
                    self.assertEqual(list(answer["failures"].values()), [NO_CODE] * OPERATIONS)
        print(f"  {len(answers)} devices; PyTorch has no code for {', '.join(sorted(without)) or 'none of them'}", flush=True)

    def plan(self, *options):
        with tempfile.TemporaryDirectory(prefix="gpumem-devices-") as folder:
            command = [SETUP.gpumem, "plan", "--json", "--no-what-if", "--steps", "2", *options, "--", SETUP.python, str(truth.ROOT / "examples" / "train_gpt.py")]
            done = subprocess.run(command, cwd=folder, env=truth.environment_of_plans(SETUP), capture_output=True, text=True, timeout=200, check=False)
        self.assertIn(done.returncode, (0, 1, 3), done.stdout + done.stderr)
        return json.loads(done.stdout)

    def test_the_line_of_the_readme(self):
        known = [("--device", device["name"]) for device in DEVICES] if FULL else [("--device", "rtx4090")]
        for options in known + [("--memory", "60GiB", "--capability", capability) for capability in ("8.7", "10.3", "12.1")]:
            with self.subTest(options=options):
                plan = self.plan(*options)
                if plan["end"] == "capability":
                    self.assertIn("V100", options[1])
                    continue
                self.assertIn(plan["end"], ("steps", "out_of_memory"))
                # A run may go on beyond the device's size, to find out how much it wants.
                too_much = plan["end"] == "out_of_memory" or plan["peak"]["process_bytes"] > plan["device"]["memory_bytes"]
                self.assertIn(plan["verdict"], ("does_not_fit",) if too_much else ("fits", "fits_tightly"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="plan for every device of the list")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    FULL = arguments.full
    unittest.main(argv=rest)
