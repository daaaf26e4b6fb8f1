# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""A test suite of GPUMemoryProfiler that one can run on one's own machine: what it records is what PyTorch counts.

    python examples/compat/testProfiler.py                              on a GPU
    gpumemshim simulate -- python examples/compat/testProfiler.py       without one
"""

import json
import pathlib
import tempfile
import unittest

import torch

from gpumemshim.compat.memoryCheck import GPUMemoryProfiler

MB = 1 << 20


@unittest.skipUnless(torch.cuda.is_available(), "CUDA不可用: no GPU. gpumemshim simulate -- python examples/compat/testProfiler.py")
class ProfilerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.profiler = GPUMemoryProfiler(log_dir=folder.name)
        self.addCleanup(self.profiler.cleanup)

    def test_a_record_has_what_pytorch_counts(self):
        kept = torch.empty(64 * MB, dtype=torch.uint8, device="cuda")
        self.profiler.record("模型创建")
        record = self.profiler.records["模型创建"][-1]
        self.assertEqual(record["gpu_details"][torch.cuda.current_device()]["allocated"], torch.cuda.memory_allocated() / MB)
        self.assertGreaterEqual(record["allocated"], kept.numel() / MB)

    def test_records_of_one_name_stay_apart(self):
        for _ in range(3):
            self.profiler.record("参数更新")
        self.assertEqual(len(self.profiler.records["参数更新"]), 3)

    def test_the_log_and_the_file(self):
        self.profiler.record("前向传播", "loss=0.1234")
        path = self.profiler.save_to_json()
        self.assertEqual(list(json.loads(pathlib.Path(path).read_text(encoding="utf-8"))), ["前向传播"])
        self.assertIn("额外信息: loss=0.1234", pathlib.Path(self.profiler.log_file).read_text(encoding="utf-8"))

    def test_the_summary_names_the_event_of_the_peak(self):
        self.profiler.record("训练开始")
        kept = torch.empty(32 * MB, dtype=torch.uint8, device="cuda")
        self.profiler.record("反向传播")
        self.assertEqual(kept.numel(), 32 * MB)
        self.assertIn("事件: 反向传播", self.profiler.generate_summary_report())


if __name__ == "__main__":
    unittest.main()
