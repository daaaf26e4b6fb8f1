# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The calls of five other memory tools (gpumemshim.compat), as their documents show them, answer what PyTorch counted.

    python tests/e2e/compat_test.py --build build/release
"""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import python_api_test
import truth

SETUP = None
RARER = ("test_debug_memory_usage", "test_memory_leak_of_a_command", "test_a_warning_is_taken_once")
PROGRAM = truth.PROGRAMS / "compat_calls.py"
MB = 1 << 20


def environment(**more):
    python_api_test.SETUP = SETUP
    return python_api_test.environment(**more)


class Calls(unittest.TestCase):
    """A run of the program's case; answer: its last line, text: what the tools printed before."""

    def call(self, case):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-compat-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        done = subprocess.run([*SETUP.command(PROGRAM), case], cwd=folder.name, env=environment(), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        *lines, last = done.stdout.splitlines()
        self.text, self.errors = "\n".join(lines), done.stderr
        return json.loads(last)

    def test_gpu_memory_profiler(self):
        answer = self.call("memoryCheck")
        self.assertIn("==== GPU Memory Timeline =====\n", self.text)
        self.assertRegex(self.text, r"模型创建 +\| Allocated:  128.0MB \| Reserved:  128.0MB")
        record = answer["json"]["模型创建"][0]
        self.assertEqual([record["allocated"], record["reserved"], record["max_allocated"]], answer["known"])
        self.assertEqual(set(record) >= {"time", "allocated", "reserved", "max_allocated", "max_reserved", "timestamp"}, True)
        self.assertEqual(answer["json"]["前向传播"][0]["max_allocated"], answer["after"][2])
        self.assertRegex(answer["log"], r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d - MemoryProfiler_\d{8}_\d{6} - INFO - GPU内存分析器初始化")
        self.assertRegex(answer["log"], r"事件: 前向传播 \| 分配:  128.0MB \| 保留:  192.0MB \| 最大分配:  192.0MB \| 最大保留:  192.0MB \| 耗时: \d+\.\d\ds \| 额外信息: loss=0.1234")
        self.assertIn("  可训练参数: 1,000,000", answer["log"])
        self.assertIn("  增长: 128.00 MB", answer["summary"])
        self.assertIn("  两次记录之间的最大分配: 192.00 MB", answer["summary"])
        self.assertTrue(answer["path"].startswith("logs/my_training/memory_data_"))

    def test_quick_memory_debug(self):
        answer = self.call("quick")
        self.assertEqual(answer["last"]["gpu_summary"][0]["allocated_mb"], answer["known"][0])
        self.assertEqual(answer["comparison"]["gpu_changes"][0]["memory_change_mb"], 128)
        self.assertEqual(answer["compared"]["gpu_changes"][0]["memory_change_mb"], answer["known"][0])
        self.assertEqual((answer["analysis"]["total_params"], answer["size"], answer["raised"]), (129000, 128 * MB, "division by zero"))
        self.assertEqual(answer["cleaned"]["gpu_changes"][0]["memory_change_mb"], 0)
        for line in ("[INFO] 获取内存快照: training_start", "[INFO]   总参数: 129,000", "[INFO]   参数效率: 100.00%", "[ERROR] 参数包含NaN: lm_head.weight", "[INFO] 比较内存快照: mib_before vs mib_after"):
            self.assertIn(line, self.text.splitlines())
        self.assertRegex(self.text, r"\[WARNING\] GPU 0 内存使用超过阈值: 128\.\dMB > 100\.0MB")
        self.assertRegex(self.text, r"\[INFO\]   GPU 0: 内存变化 \+128\.0MB, 利用率变化 \+0\.1%")
        self.assertIn("快速内存调试报告", answer["report"])

    def test_memory_debugger(self):
        answer = self.call("debugger")
        self.assertEqual(answer["compared"]["gpu_memory_diff"][0]["allocated_diff_mb"], 120)
        self.assertEqual(answer["compared"]["model_parameter_diff"]["total_parameters_diff"], 64 * 2000)
        self.assertEqual((answer["missing"], answer["returned"]), ({}, 42))
        self.assertEqual(answer["later"], answer["known"][2], "what was freed between two checkpoints is in the history")
        self.assertEqual((answer["highest"], answer["later"]), (420, 860))
        self.assertEqual(answer["live"], [420, ["GPU 0 内存增长异常: 360.00 MB"]], "while it monitors")
        self.assertGreaterEqual(answer["warned"], 1, "by the thread")
        self.assertEqual(answer["anomalies"], ["GPU 0 内存增长异常: 120.00 MB"])
        self.assertEqual((self.folder / "custom_report.txt").read_text(encoding="utf-8"), answer["report"])
        self.assertEqual(answer["groups"], ["embeddings", "output_layers"])
        self.assertAlmostEqual(answer["total_mb"], 129000 * 4 / MB)
        self.assertEqual(len(list((self.folder / "logs" / "memory_debug").glob("checkpoint_*.json"))), 4)

    def test_training_memory_profiler(self):
        answer = self.call("training")
        stages = answer["stages"]
        self.assertEqual([name for name, _ in stages], ["model_creation", "training", *["step"] * 4])
        self.assertAlmostEqual(stages[0][1], answer["model_mb"], places=2)  # in blocks of 512 B
        self.assertEqual([grown for _, grown in stages[2:]], [4.0] * 4)
        self.assertEqual([(row["stage"], row["growth_mb"]) for row in answer["issues"]["memory_leaks"]], [("step", 16.0)])
        self.assertAlmostEqual(answer["creation_mb"], answer["model_mb"], places=2)
        self.assertGreater(answer["training_mb"], 8 + 16)
        self.assertEqual(answer["best"], "small")
        self.assertAlmostEqual(answer["best_mb"], (1000 * 8 + 1000 * 8 + 1000) * 4 / MB)
        self.assertLessEqual({"creation_analysis", "training_analysis", "memory_issues", "json_reports"}, set(answer["keys"]))
        self.assertIn("内存泄漏: step: GPU 0 增长 16.00 MB", answer["report"])

    def test_debug_memory_usage(self):
        answer = self.call("usage")
        self.assertEqual([answer[level]["code"] for level in ("model_only", "full", "custom", "comparison")], [0] * 4)
        self.assertEqual((answer["no_model"], "[INFO] 没有指定模型，使用内置的LoRA示例" in self.text), (0, True))
        self.assertEqual(answer["model_only"]["file"]["summary"]["total_memory_mb"], answer["blocks_mb"])
        self.assertEqual(answer["model_only"]["file"]["summary"]["total_parameters"], 129000)
        self.assertEqual(answer["full"]["file"]["creation_analysis"]["summary"]["total_memory_mb"], answer["blocks_mb"])
        self.assertEqual(answer["full"]["file"]["summary"]["peak_allocated_mb"], answer["full"]["after"][2], "what PyTorch counted as its highest")
        self.assertEqual([each["stage"] for each in answer["custom"]["file"]["stages"]], ["model_creation", "data_loading", "training"])
        changes = [each["gpu_memory_diff"][0]["allocated_diff_mb"] for each in answer["custom"]["file"]["stages"]]
        self.assertEqual(changes[:2], [answer["blocks_mb"], 0])
        self.assertEqual(answer["comparison"]["file"]["best"], "small")
        self.assertEqual(answer["comparison"]["file"]["memory_mb"], {"small": 17000 * 4 / MB, "large": 513000 * 4 / MB})
        self.assertIn("[INFO] 最优配置: small, 内存占用: 0.06 MB", self.text)

    def test_enhanced_memory_profiler(self):
        answer = self.call("detailed")
        breakdown = answer["breakdown"]
        self.assertEqual(breakdown["model_parameters_mb"], answer["parameters_mb"])
        self.assertEqual(breakdown["gradients_mb"], answer["parameters_mb"])
        self.assertAlmostEqual(breakdown["optimizer_states_mb"], 2 * answer["parameters_mb"], places=3)  # and a step counter for each
        self.assertEqual([breakdown["total_allocated_mb"], breakdown["total_reserved_mb"], breakdown["peak_allocated_mb"]], answer["known"])
        self.assertEqual([row["name"] for row in answer["snapshots"]], ["1_before", "2_after_step"])
        self.assertEqual(answer["file"], breakdown)
        self.assertIn("DETAILED MEMORY BREAKDOWN", self.text)

    def test_tiny_torch_memory(self):
        answer = self.call("memory")
        usage = answer["status"]["devices"]["0"]["current_usage"]
        self.assertEqual((usage["allocated"], usage["allocated"] + usage["free"]), (answer["reserved"], usage["total"]))
        self.assertEqual(answer["status"]["memory_status"]["0"]["current_used"], answer["reserved"])
        (leaked, severity, sources), *others = answer["leaks"]
        self.assertEqual((others, severity), ([], "high"))
        self.assertGreaterEqual(leaked, 240 * MB)
        self.assertRegex(sources[0], r"compat_calls.py:\d+ mib: \+\d+\.0 MB")
        self.assertEqual(answer["healthy_leaks"], 0)
        statistics = answer["report"]["devices"]["0"]["statistics"]
        self.assertAlmostEqual(statistics["max_utilization"], answer["highest"] / usage["total"] * 100)
        self.assertEqual(json.loads((self.folder / "memory_report.json").read_text(encoding="utf-8")), answer["report"])
        (level, seconds, confidence, cause), *others = answer["foretold"]
        self.assertIn(level, ("high", "critical"))
        self.assertGreater(seconds, 0)
        self.assertEqual(confidence, 0.9)
        self.assertRegex(cause, r"compat_calls.py:\d+ leak_until_warned keeps")
        self.assertEqual(others, [])
        self.assertEqual(answer["warned"], ["critical"])
        self.assertGreater(answer["usage"][0], 95)
        self.assertIn("[INFO] 开始OOM监控 (阈值: 85.0%)", self.text)


WATCHES = """
import time
from gpumemshim.compat._memory_watch import Watches
watches = Watches()
watches.follow(["a", "b"])
watches.follow(["a"])
until = time.monotonic() + 60
while not watches.take_warning() and time.monotonic() < until:
    time.sleep(0.01)
watches.end()
print(sorted(watches._watched), watches.take_warning(), time.monotonic() < until)
"""


class WatchesOfPrograms(unittest.TestCase):
    def test_a_warning_is_taken_once(self):
        """A gpumemshim that warns of the second program and then goes on, and says nothing of the first."""
        with tempfile.TemporaryDirectory(prefix="gpumemshim-compat-") as folder:
            script = pathlib.Path(folder) / "gpumemshim"
            script.write_text("#!/bin/sh\necho $3 >> $0.asked\n[ $3 = b ] && echo '{\"event\": \"warning\"}'\nexec sleep 600\n")
            script.chmod(0o755)
            done = subprocess.run([SETUP.python, "-c", WATCHES], env=environment(GPUMEMSHIM_PROGRAM=str(script)), capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual((done.stdout, done.stderr), ("['a', 'b'] False True\n", ""))
            asked = pathlib.Path(f"{script}.asked").read_text().split()
            self.assertEqual((asked.count("b"), min(1, asked.count("a"))), (1, asked.count("a")))  # it may have been ended before it began


class CommandLines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-compat-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        command = SETUP.recording(cls.folder / "run.gmtrace", *SETUP.command(truth.PROGRAMS / "compat_endless.py"))
        cls.program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(GPUMEMSHIM_EVAL="1"))
        cls.addClassCleanup(cls.end)
        assert cls.program.stdout.readline() == "trains\n"
        listed = json.loads(truth.run([SETUP.gpumem, "ctl", "--json"], SETUP))["processes"]
        cls.pid = str(next(each["pid"] for each in listed if each["file"] == str(cls.folder / "run.gmtrace")))

    @classmethod
    def end(cls):
        cls.program.stdin.close()
        cls.program.wait()
        cls.program.stdout.close()

    def tool(self, name, *arguments):
        return subprocess.run([SETUP.python, "-m", f"gpumemshim.compat.{name}", *arguments], cwd=self.folder, env=environment(), capture_output=True, text=True, check=False)

    def test_probing_query(self):
        done = self.tool("probing", self.pid, "query", "SELECT step, max(allocated) AS peak FROM python.torch_trace WHERE step IS NOT NULL GROUP BY step ORDER BY step LIMIT 2", "--json")
        if "DuckDB" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual([row["step"] for row in json.loads(done.stdout)["rows"]], [1, 2], done.stderr)

    def test_a_query_begins_with_a_comment(self):
        done = self.tool("probing", self.pid, "query", "-- what there is\nSELECT count(*) > 0 AS some FROM events", "--json")
        if "DuckDB" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(json.loads(done.stdout)["rows"], [{"some": True}], done.stderr)
        self.assertEqual(self.tool("probing", self.pid, "query", "--format", "csv", "SELECT 1 AS one").stdout, "one\n1\n")

    def test_probing_eval(self):
        code = "import torch\nfor i in range(torch.cuda.device_count()):\n    print(f'GPU {i}: 已分配 {torch.cuda.memory_allocated(i) > 0}')"
        done = self.tool("probing", self.pid, "eval", code)
        self.assertEqual(done.stdout, "GPU 0: 已分配 True\n", done.stderr)
        self.assertEqual(self.tool("probing", self.pid, "eval", "print('a'); print('b')").stdout, "a\nb\n")
        self.assertEqual(self.tool("probing", self.pid, "eval", "6 * 7").stdout, "42\n")
        wrong = self.tool("probing", self.pid, "eval", "x =")
        self.assertEqual((wrong.stdout.count("File "), "SyntaxError" in wrong.stdout), (1, True), "no frame of ours")
        long = "\n".join(f"x{number} = '模型{number}'" for number in range(200)) + "\nprint(x199)"
        self.assertEqual(self.tool("probing", self.pid, "eval", long).stdout, "模型199\n", "more than a request holds")
        self.assertIn("ZeroDivisionError", self.tool("probing", self.pid, "eval", "1/0").stdout)

    def test_probing_backtrace_and_memory(self):
        self.assertIn("compat_endless.py", self.tool("probing", self.pid, "backtrace").stdout)
        self.assertIn("optimizer state", self.tool("probing", self.pid, "memory").stdout)

    def test_probing_inject(self):
        program = subprocess.Popen([SETUP.python, "-c", "import sys; print('ready', flush=True); sys.stdin.read()"], cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
        try:
            self.assertEqual(program.stdout.readline(), "ready\n")
            done = self.tool("probing", str(program.pid), "inject")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, rf"process {program.pid}, recording")
        finally:
            program.communicate("")
        self.assertEqual(program.returncode, 0)

    def test_probing_usage(self):
        for arguments in ((), (self.pid,), (self.pid, "destroy"), (self.pid, "query")):
            done = self.tool("probing", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_memory_profile_of_a_running_program(self):
        done = self.tool("memory", "profile", "--pid", self.pid, "--duration", "0.5", "--output", "profile.json", "--plot")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads((self.folder / "profile.json").read_text(encoding="utf-8"))
        self.assertEqual((report["programs"], list(report["devices"])), (1, ["0"]))
        self.assertGreater(report["devices"]["0"]["statistics"]["samples_count"], 0)
        self.assertEqual((self.folder / "profile.png").read_bytes()[:4], b"\x89PNG")
        self.assertRegex(done.stdout, re.compile(r"\[INFO\] 监控摘要:\n   设备数: 1\n", re.MULTILINE))

    def test_memory_leak_of_a_command(self):
        leaking = self.tool("memory", "leak", "--check", "--threshold", "100", "--", *SETUP.command(truth.ROOT / "examples" / "leak.py"))
        self.assertEqual(leaking.returncode, 1, leaking.stdout + leaking.stderr)
        self.assertIn("[WARNING] 发现 1 个潜在内存泄漏:\n   GPU 0: 264.0 MB\n   严重程度: high\n   来源: examples/leak.py:23 train_step", leaking.stdout)
        clean = self.tool("memory", "leak", "--pid", self.pid)
        self.assertEqual((clean.returncode, clean.stdout.splitlines()[-1]), (0, "[INFO] 未发现明显的内存泄漏"), clean.stderr)

    def test_memory_monitor_and_oom(self):
        for arguments in (("oom", "--threshold", "85", "--monitor", "--output", "risks.json"), ("oom", "--devices", "0", "--threshold", "90"), ("monitor", "--all")):
            done = self.tool("memory", *arguments, "--pid", self.pid, "--duration", "0.3")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        risks = json.loads((self.folder / "risks.json").read_text(encoding="utf-8"))
        self.assertEqual((risks["summary"], [row["device_id"] for row in risks["predictions"]]), ({"low": 1, "medium": 0, "high": 0, "critical": 0}, [0]))
        self.assertRegex(done.stdout, r"\[INFO\] 状态: GPU 0: \d+\.\d%")

    def test_a_program_that_begins_later_and_one_that_is_no_trace(self):
        """What is looked at from a mark on has no mark where it began afterwards, and one without an answer stops no other."""
        asked = """
import sys
from gpumemshim.compat import _memory_cli
programs = _memory_cli.Programs(int(sys.argv[1]), [])
programs.marked.clear()
programs.traces["1"] = "no such.gmtrace"
print(_memory_cli.merged(programs.windows(), None)["programs"])
"""
        done = subprocess.run([SETUP.python, "-c", asked, self.pid], cwd=self.folder, env=environment(), capture_output=True, text=True, check=False)
        self.assertEqual((done.stdout.splitlines()[-1], done.returncode), ("1", 0), done.stderr)
        self.assertIn("[WARNING] 无法获取内存信息: no such.gmtrace", done.stdout)

    def test_no_program(self):
        done = self.tool("memory", "monitor", "--pid", "1")
        self.assertEqual(done.returncode, 3)
        self.assertIn("no program is being recorded", done.stdout)


if __name__ == "__main__":
    truth.run_tests(globals(), RARER)
