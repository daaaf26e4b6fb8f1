#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The unmodified PyTorch wheel on simulated devices: each test is one process of torch_cases.py under simcuda/run.

Environment: SIMCUDA_LIB (the libraries under test), GPUMEMSHIM_TORCH_PYTHON (default: .venv/bin/python of the checkout),
REPORT_PROBE (libreport_probe.so). Exit code 77 (skipped) where that Python has no CUDA build of PyTorch.
"""
import json
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
RUN = os.path.join(ROOT, "simcuda", "run")
PYTHON = os.environ.get("GPUMEMSHIM_TORCH_PYTHON", os.path.join(ROOT, ".venv", "bin", "python"))
SKIPPED = 77

REPEATED = ["mlp_adamw", "gpt_fused", "convolution"]
MAIN = REPEATED + ["properties", "gpt_foreach", "recurrent", "checkpointing", "cuda_graph", "streams_and_events",
                   "pinned_loader", "out_of_memory", "memory_history", "fresh_memory_is_zero", "gradient_scaler",
                   "other_libraries", "profiler", "distributed", "two_devices"]


def cases(*names, **environment):
    """Run cases in one process. -> the completed process"""
    env = dict(os.environ, SIMCUDA_MEM_MB="4096", PYTHONDONTWRITEBYTECODE="1")
    env.pop("LD_PRELOAD", None)
    env.update(environment)
    return subprocess.run([RUN, PYTHON, "-W", "ignore", os.path.join(HERE, "torch_cases.py"), *names], env=env,
                          capture_output=True, text=True, timeout=300, check=False)


class TorchTest(unittest.TestCase):
    maxDiff = None

    def results(self, *names, **environment):
        done = cases(*names, **environment)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        return json.loads(done.stdout.splitlines()[-1])

    def test_trains_and_repeats_its_peaks(self):
        first = self.results(*MAIN, SIMCUDA_DEVICES="2")
        again = self.results(*REPEATED, SIMCUDA_DEVICES="2")
        self.assertEqual(sorted(first), sorted(MAIN))
        self.assertEqual({name: first[name] for name in REPEATED}, again)
        for name in REPEATED:
            self.assertGreater(first[name]["peak"], 1 << 20, name)

    def test_expandable_segments(self):
        self.results("expandable_segments", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")

    def test_malloc_async(self):
        self.results("malloc_async", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")

    @unittest.skipUnless(os.environ.get("REPORT_PROBE"), "no second preload library was built")
    def test_shares_the_report_function_in_either_order(self):
        """With another library that defines it, as libgpumemshim.so does: both definitions are reached."""
        probe, zero = os.environ["REPORT_PROBE"], os.path.join(os.environ["SIMCUDA_LIB"], "libsimcuda_zero.so")
        self.results("fresh_memory_is_zero", LD_PRELOAD=probe)
        self.results("fresh_memory_is_zero", LD_PRELOAD=f"{zero}:{probe}")

    def test_conditions_find_the_share_asked_for(self):
        for policy, share in (("zero", "0"), ("0.25", "0.25"), ("upper", "1")):
            self.results("found_by_data", "single_values", SIMCUDA_DATA_DEPENDENT=policy, FOUND=share)

    def test_workspace_setting_moves_the_peak(self):
        plain = self.results("convolution")["convolution"]["peak"]
        modelled = self.results("convolution", SIMCUDA_CUDNN_WS="64M")["convolution"]["peak"]
        self.assertGreaterEqual(modelled, plain + (60 << 20))


def reason_to_skip():
    if not os.path.exists(PYTHON):
        return f"{PYTHON} is not there: run scripts/bootstrap, or set GPUMEMSHIM_TORCH_PYTHON"
    ask = "import importlib.util as u, os; s = u.find_spec('torch'); print(s and os.path.exists(" \
          "os.path.join(s.submodule_search_locations[0], 'lib', 'libtorch_cuda.so')))"
    answer = subprocess.run([PYTHON, "-c", ask], capture_output=True, text=True, check=False).stdout.strip()
    return "" if answer == "True" else f"{PYTHON} has no CUDA build of PyTorch"


if __name__ == "__main__":
    why = reason_to_skip()
    if why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
