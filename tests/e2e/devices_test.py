# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Every device that `gpumemshim plan` knows, and newer ones: operations that choose their code by the architecture that it was compiled for run on it, or
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
# Of each kind of multiprocessor one, and one for which PyTorch has no code.
EVERYDAY = ("T4", "V100", "A100-80", "RTX3090", "RTX4090", "B200", "8.7", "12.1")
# Threads and KB of shared memory of a multiprocessor: NVIDIA's programming guide, "Technical Specifications per Compute Capability".
MULTIPROCESSORS = {"7.0": (2048, 96), "7.5": (1024, 64), "8.0": (2048, 164), "8.6": (1536, 100), "8.7": (1536, 164), "8.9": (1536, 100), "9.0": (2048, 228),
                   "10.0": (2048, 228), "10.3": (2048, 228), "11.0": (1536, 228), "12.0": (1536, 100), "12.1": (1536, 100)}
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


def settings(device):
    return (f"SIMCUDA_CC={number(device['capability'])} SIMCUDA_SMS={device['multiprocessors']} SIMCUDA_SMEM={device['shared_memory']} "
            f"SIMCUDA_MEM_MB={device['memory_mib']} SIMCUDA_L2={device['l2_cache']} SIMCUDA_MEMORY_BUS={device['memory_bus']} "
            f"SIMCUDA_MEMORY_CLOCK={1000 * device['memory_clock_mhz']} SIMCUDA_CLOCK={1000 * device['clock_mhz']}")


class DevicesTest(unittest.TestCase):
    def test_operations_that_ask_for_their_architecture(self):
        described = {device["name"]: settings(device) for device in DEVICES} | {capability: f"SIMCUDA_CC={number(capability)}" for capability in NEWER}
        described = [f"{name} {text}" for name, text in described.items() if FULL or name in EVERYDAY]
        output = truth.run([*SETUP.command(PROGRAM), *described], SETUP, truth.environment_of(truth.Case("none"), SETUP))
        answers = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        self.assertEqual(len(answers), len(described))
        without = set()
        for answer in answers:
            major, minor = answer["capability"]
            with self.subTest(device=answer["name"], capability=f"{major}.{minor}"):
                if has_code(answer["built_for"], 10 * major + minor):
                    self.assertEqual(answer["failures"], {})
                    self.check_properties(answer)
                elif (major, minor) == (13, 0):
                    self.assertLessEqual(set(answer["failures"].values()), {NO_CODE})  # whether there is PTX for it nothing tells
                else:
                    without.add(f"{major}.{minor}")
                    self.assertEqual(list(answer["failures"].values()), [NO_CODE] * OPERATIONS)
        print(f"  {len(answers)} devices; PyTorch has no code for {', '.join(sorted(without)) or 'none of them'}", flush=True)

    def check_properties(self, answer):
        major, minor = answer["capability"]
        found = answer["properties"]
        threads, shared_kb = MULTIPROCESSORS.get(f"{major}.{minor}", (None, None))
        if threads is None:
            return  # a capability that nobody has published anything of
        self.assertEqual(found["max_threads_per_multi_processor"], threads)
        self.assertEqual(found["regs_per_multiprocessor"], 65536)
        self.assertEqual(found["shared_memory_per_multiprocessor"], shared_kb << 10)
        device = next((device for device in DEVICES if device["name"] == answer["name"]), None)
        if device is None:
            return
        expected = {"L2_cache_size": device["l2_cache"], "shared_memory_per_block_optin": device["shared_memory"], "memory_bus_width": device["memory_bus"],
                    "memory_clock_rate": 1000 * device["memory_clock_mhz"], "clock_rate": 1000 * device["clock_mhz"]}
        self.assertEqual({name: found[name] for name in expected if name in found}, {name: value for name, value in expected.items() if name in found})
        # Reduce.cuh of PyTorch: a float for each of the blocks of 512 threads that the device can run at a time, between result and semaphore.
        self.assertEqual(found["reduction"], [4, 4 * device["multiprocessors"] * (threads // 512), 4])

    def plan(self, *options):
        with tempfile.TemporaryDirectory(prefix="gpumemshim-devices-") as folder:
            command = [SETUP.gpumem, "plan", "--json", "--no-what-if", "--steps", "2", *options, "--", SETUP.python, str(truth.ROOT / "examples" / "train_gpt.py")]
            done = subprocess.run(command, cwd=folder, env=truth.environment_of_plans(SETUP), capture_output=True, text=True, timeout=200, check=False)
        self.assertIn(done.returncode, (0, 1, 3, 5, 6), done.stdout + done.stderr)
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
                self.assertIn(plan["verdict"], ("does_not_fit", "too_close") if too_much else ("fits", "fits_unless", "too_close"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="plan for every device of the list")
    SETUP, arguments, rest = truth.setup_of_tests(parser)
    FULL = arguments.full
    unittest.main(argv=rest)
