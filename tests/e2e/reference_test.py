# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Every code block, command line and shown output of other tools' documents: it runs as it is printed, import line and program's name apart, and says what the document shows.

    python tests/e2e/reference_test.py --build build/release [--full]

The documents are no part of the checkout: shared/reference beside it. Without them everything here is skipped, but for the table of docs/compat-tests.md, which has all blocks.
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import python_api_test
import reference_blocks
import truth

SETUP = None
PAGE = truth.ROOT / "docs" / "compat-tests.md"
DOCUMENTS = {"S1": "GPUMemoryProfiler", "S2": "Memory debug tools", "S3": "Opacus memory profilers", "S4": "Tiny Torch tools.memory", "S5": "Probing"}
# What a block is, and the test that has it.
BLOCKS = {
    **{f"S1.{number}": (what, "PythonBlocks") for number, what in ((1, "basic use"), (2, "a LoRA training"), (6, "a mark of growth"), (7, "a mark of the peak"), (8, "own cleanup"), (9, "no GPU"), (10, "out of memory"), (11, "the log's size"))},
    "S1.3": ("the timeline", "PythonBlocks.test_gpu_memory_profiler_shows"), "S1.4": ("the log", "PythonBlocks.test_gpu_memory_profiler_shows"), "S1.5": ("the JSON file", "PythonBlocks.test_gpu_memory_profiler_shows"),
    "S1.12": ("`tests/testProfiler.py`", "Examples"), "S1.13": ("`example_usage.py`", "Examples"),
    **{f"S2.{number}": (what, "PythonBlocks") for number, what in ((1, "quick debugging"), (2, "`debug_lora_training`"), (4, "a model's size"), (5, "stages"), (6, "checkpoints"), (7, "configurations"), (8, "log directory and level"), (9, "intervals and thresholds"), (10, "report and history"), (15, "before a training"), (16, "in the loop"), (17, "looking for a problem"))},
    **{f"S2.3{letter}": (f"`--debug_level {level}`", "DebugMemoryUsage") for letter, level in (("a", "model_only"), ("b", "full"), ("c", "custom"), ("d", "comparison"))},
    **{f"S2.{number}": (what, "PythonBlocks.test_memory_debug_tools_show") for number, what in ((11, "a snapshot's lines"), (12, "a model's lines"), (13, "a comparison's lines"), (14, "the warnings"))},
    "S3.2": ("`gpu_memory_profiler.py`", "OpacusScans"), "S3.3": ("`detailed_memory_profiler.py`", "OpacusScans"), "S3.4": ("the breakdown by component", "OpacusScans"),
    **{f"S4.{number}": (what, "PythonBlocks") for number, what in ((2, "`MemoryDebugger`"), (3, "`MemoryProfiler`, `OOMDetector`"), (10, "a callback"), (11, "debug mode"))},
    **{f"S4.{name}": (f"`{what}`", "MemoryCommands") for name, what in (("4a", "profile --duration 60"), ("4b", "profile --devices 0 1 --duration 0"), ("5a", "oom --monitor"), ("5b", "oom --devices 0"), ("6", "leak --check"), ("7a", "monitor --all"), ("7b", "monitor --duration 300"))},
    "S4.8": ("the status", "PythonBlocks.test_tiny_torch_shows"), "S4.9": ("the warning", "PythonBlocks.test_tiny_torch_shows"),
    **{f"S5.{number}": (what, "Probing") for number, what in ((1, "`eval`: memory now"), (2, "steps"), (3, "growth in a step"), (4, "modules"), (5, "growth by LAG"), (6, "`eval`: garbage"), (7, "`eval`: each GPU"), (8, "`eval`: the trainer's step"), (9, "a query that begins with a comment"))},
}
# What follows a block, where the block only defines a function, ends what it began, or prints what the document shows elsewhere.
BEHIND = {
    "S1.2": "train_lora_with_profiling()",
    "S1.8": "custom_memory_cleanup()",
    "S1.10": "profiler.cleanup(); log_file = 'reference.log'; open(log_file, 'w').write('a line of a log')",  # which the next block looks at
    "S2.5": "print(report)",
    "S2.8": "debugger.create_memory_checkpoint('with a level'); print(open(debugger.logger.handlers[0].baseFilename, encoding='utf-8').read())",
    "S2.17": "debug_memory_issue()",
    "S4.3": "detector.stop_monitoring()",
    "S4.10": "detector.stop_monitoring(); prediction = __import__('types').SimpleNamespace(risk_level=__import__('types').SimpleNamespace(value='critical'), device_id=0); custom_oom_callback(prediction)",
    "S4.11": "debugger.stop_monitoring()",
}
# Calls whose output the documents show, with the names that they show there.
SHOWN = {
    "S1 shows": """
from gpumemshim.compat.memoryCheck import GPUMemoryProfiler
profiler = GPUMemoryProfiler(log_dir="logs/lora_training")
for event in ("训练开始", "初始化", "模型创建", "前向传播", "反向传播", "参数更新"):
    profiler.record(event)
profiler.print_report()
print("LOG", profiler.log_file, profiler.save_to_json())
profiler.cleanup()
""",
    "S2 shows": """
import torch
Model = type(your_model)
memory_snapshot("training_start")
analyze_model(create_your_model(), "lora_model")
compare_snapshots(memory_snapshot("before_training"), memory_snapshot("after_training"))
kept = torch.empty(2 << 20, device="cuda")
check_memory_status(threshold_mb=1.0)
wrong = Model(4096)
wrong.model.lm_head = torch.nn.Linear(4096, 7000, bias=False)
with torch.no_grad():
    wrong.model.layers[0].attention.q_proj.weight[0, 0] = float("nan")
analyze_model(wrong, "lora_model")
""",
    "S4 shows": """
import json
from gpumemshim.compat import _memory_numbers
from gpumemshim.compat._memory_types import OOMPrediction, OOMRiskLevel
_memory_numbers.print_warning(OOMPrediction(0, OOMRiskLevel.HIGH, 45.2, 0.82, 87.3, 0.0, list(_memory_numbers.ACTIONS[OOMRiskLevel.HIGH])))
print("STATUS", json.dumps(report))
""",
}


def setUpModule():
    if not reference_blocks.FOLDER.is_dir():
        raise unittest.SkipTest(f"the documents of other tools are not beside this checkout ({reference_blocks.FOLDER})")


def environment(**more):
    python_api_test.SETUP = SETUP
    return python_api_test.environment(**more)


class Blocks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gpumemshim-reference-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.blocks = {block.name: block for block in reference_blocks.blocks_of()}
        cls.environment = environment(GPUMEMSHIM_CONTROL=str(cls.folder), GPUMEMSHIM_EVAL="1")

    def assert_shows(self, block, said, names=(), in_order=True):
        """Each line that the document shows is among those that were printed, in this order."""
        lines = iter(said.splitlines()) if in_order else said.splitlines()
        for line in self.blocks[block].text.splitlines():
            pattern = re.compile(reference_blocks.shape_of(line, names))
            self.assertTrue(any(pattern.fullmatch(each) for each in lines), f"{block}: no line like {line!r} (/{pattern.pattern}/) in\n{said}")

    def shell(self, name, simulated=False, **more):
        """A command line as printed, in the test's folder."""
        command = f"{SETUP.python} {reference_blocks.arguments_of(self.blocks[name].text)}"
        run = [*SETUP.command("")[:-2], *(["sh", "-c", f"exec {command}"])] if simulated else ["sh", "-c", command]
        return subprocess.run(run, cwd=self.folder, env={**self.environment, **more}, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SETUP.timeout_s, check=False)


class Table(unittest.TestCase):
    def test_the_documents_have_these_blocks(self):
        found = [block.name for block in reference_blocks.blocks_of()]
        self.assertEqual((len(found), sorted(found)), (58, sorted(BLOCKS)))

    def test_the_page_lists_them(self):
        rows = ["| block | what | test | as printed |", "|---|---|---|---|"]
        rows += [f"| {name} | {what} | `{test}` | works |" for name, (what, test) in sorted(BLOCKS.items(), key=lambda row: [int(each) if each.isdigit() else each for each in re.findall(r"\d+|[a-z]", row[0])])]
        begin, end = "<!-- blocks (tests/e2e/reference_test.py) -->\n", "<!-- /blocks -->"
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(begin)
        wanted = before + begin + "\n".join(rows) + "\n" + end + rest.split(end)[1]
        if os.environ.get("GPUMEMSHIM_UPDATE_GOLDEN"):
            PAGE.write_text(wanted, encoding="utf-8")
        self.assertEqual(PAGE.read_text(encoding="utf-8"), wanted)

    def test_each_has_a_test(self):
        for what, test in BLOCKS.values():
            name, _, method = test.partition(".")
            self.assertTrue(name in globals() and (not method or hasattr(globals()[name], method)), f"{what}: {test}")


class PythonBlocks(Blocks):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        listed = [(block.name, reference_blocks.with_our_imports(block.text).replace("args...", "*args"), BEHIND.get(block.name, "")) for block in cls.blocks.values() if block.kind == "python"]
        rows = [each for document in DOCUMENTS for each in [*(row for row in listed if row[0].startswith(f"{document}.")), *((name, code, "") for name, code in SHOWN.items() if name.startswith(document))]]
        (cls.folder / "blocks.json").write_text(json.dumps(rows), encoding="utf-8")
        done = subprocess.run([*SETUP.command(truth.PROGRAMS / "reference_calls.py"), "blocks.json", "answers.json"], cwd=cls.folder, env=cls.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise truth.Failure(done.stderr[-3000:])
        cls.answers, cls.errors = json.loads((cls.folder / "answers.json").read_text(encoding="utf-8")), done.stderr

    def test_each_block_runs(self):
        failed = {name: answer["error"] for name, answer in self.answers.items() if answer["error"]}
        self.assertEqual(failed, {})
        self.assertEqual({name for name in self.answers if "shows" not in name}, {block.name for block in self.blocks.values() if block.kind == "python"})

    def test_gpu_memory_profiler_shows(self):
        said = self.answers["S1 shows"]["printed"]
        self.assert_shows("S1.3", said)
        log, data = (self.folder / path for path in said.splitlines()[-1].split()[1:])
        self.assert_shows("S1.4", log.read_text(encoding="utf-8"), names=["NVIDIA A100-SXM4-40GB"])
        self.assertTrue(reference_blocks.is_like(json.loads(self.blocks["S1.5"].text), json.loads(data.read_text(encoding="utf-8"))))

    def test_memory_debug_tools_show(self):
        said = self.answers["S2 shows"]["printed"]
        for block in ("S2.11", "S2.13"):  # of two GPUs; here there is one
            self.blocks[block].text = "".join(line for line in self.blocks[block].text.splitlines(keepends=True) if "GPU 1" not in line)
        for block in ("S2.11", "S2.12", "S2.13"):
            self.assert_shows(block, said)
        self.assert_shows("S2.14", said, in_order=False)  # single lines, from several runs
        self.assertRegex(self.answers["S2.5"]["printed"], r"\n内存问题检测:\n  \S", "no section of the report is empty")
        self.assertIn("MemoryDebugger - DEBUG - ", self.answers["S2.8"]["printed"])

    def test_tiny_torch_shows(self):
        said = self.answers["S4 shows"]["printed"]
        self.assert_shows("S4.9", said)
        status = json.loads(said.splitlines()[-1].removeprefix("STATUS "))
        self.assertTrue(reference_blocks.is_like(json.loads(self.blocks["S4.8"].text), status), status)
        self.assertTrue(reference_blocks.is_like(json.loads(self.blocks["S4.8"].text), json.loads((self.folder / "memory_report.json").read_text(encoding="utf-8"))))
        self.assertIn("Critical OOM risk on GPU 0! Taking action...", self.answers["S4.10"]["printed"])


class Running(Blocks):
    """With a program that is recorded and trains while it is asked."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        command = SETUP.recording(cls.folder / "run.gmtrace", *SETUP.command(truth.PROGRAMS / "compat_endless.py"), "--modules")
        cls.program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=cls.environment)
        cls.addClassCleanup(cls.end)
        assert cls.program.stdout.readline() == "trains\n"
        listed = json.loads(truth.run([SETUP.gpumem, "ctl", "--json"], SETUP, cls.environment))["processes"]
        (cls.pid,) = (str(each["pid"]) for each in listed)

    @classmethod
    def end(cls):
        if not cls.program.stdin.closed:
            cls.program.stdin.close()
            cls.program.wait()
            cls.program.stdout.close()


class Probing(Running):
    def test_blocks(self):
        expected = {
            "S5.1": r"CPU 内存: \d+\.\d\d GB\nGPU 已分配: \d+\.\d\d GB\nGPU 缓存: \d+\.\d\d GB\n",
            "S5.6": r"CUDA 缓存已清理\n垃圾回收完成: \(\d+, \d+, \d+\)\n",
            "S5.7": r"GPU 0: .+\n  总计: \d+\.\d\d GB\n  已分配: \d+\.\d\d GB\n  已保留: \d+\.\d\d GB\n  空闲: \d+\.\d\d GB\n",
            "S5.8": r"步骤 0: \d+\.\d\d GB\n",
        }
        for name, pattern in expected.items():
            with self.subTest(name):
                done = self.shell(name, ENDPOINT=self.pid)
                self.assertRegex(done.stdout, f"^{pattern}$", done.stderr)
                self.assertEqual(done.returncode, 0)

    def test_queries(self):
        columns = {"S5.2": "step avg_memory_mb peak_memory_mb min_memory_mb", "S5.3": "step memory_growth_mb", "S5.4": "module stage avg_memory execution_count", "S5.5": "step peak_memory prev_peak growth", "S5.9": "module stage memory_variance memory_range"}
        for name, heads in columns.items():
            with self.subTest(name):
                done = subprocess.run([SETUP.python, "-m", "gpumemshim.compat.probing", self.pid, "query", self.blocks[name].text, "--json"], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False)
                if "DuckDB" in done.stderr:
                    self.skipTest(done.stderr.strip())
                self.assertEqual(done.returncode, 0, done.stderr)
                rows = json.loads(done.stdout)["rows"]
                self.assertTrue(all(list(row) == heads.split() for row in rows), rows)
                if name in ("S5.2", "S5.4"):
                    self.assertTrue(rows)


class MemoryCommands(Running):
    def test_all_at_once(self):
        """Those that have no end of their own, or a far one, end with the program that they look at."""
        names = [name for name in self.blocks if name.startswith("S4.") and self.blocks[name].kind == "command"]
        running = {}
        for name in names:
            folder = self.folder / name
            folder.mkdir()
            command = f"{SETUP.python} {reference_blocks.arguments_of(self.blocks[name].text)}"
            running[name] = subprocess.Popen(["sh", "-c", command], cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        first = {name: running[name].stdout.readline() for name in names}
        said = {"S4.6": first["S4.6"] + running["S4.6"].communicate(timeout=SETUP.timeout_s)[0]}
        self.end()
        for name in names:
            said.setdefault(name, first[name] + running[name].communicate(timeout=SETUP.timeout_s)[0] if name not in said else "")
            self.assertEqual(running[name].returncode, 0, f"{name}: {said[name]}")
        for name in ("S4.4a", "S4.4b"):
            self.assertRegex(said[name], r"\[INFO\] 监控摘要:\n   设备数: 1\n")
        self.assertIn("profile.json", [each.name for each in (self.folder / "S4.4a").iterdir()])
        self.assertIn("[INFO] 开始OOM监控 (阈值: 85%)", said["S4.5a"])
        self.assertIn("[INFO] 未发现明显的内存泄漏", said["S4.6"])
        for name in ("S4.7a", "S4.7b"):
            self.assertRegex(said[name], r"\[INFO\] 状态: GPU 0: \d+\.\d%")


class DebugMemoryUsage(Blocks):
    def test_levels(self):
        for name, line in (("S2.3a", "模型创建内存占用: "), ("S2.3b", "训练后内存占用: "), ("S2.3c", "内存问题检测"), ("S2.3d", "最优配置: small_r")):
            with self.subTest(name):
                done = self.shell(name, simulated=True)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                self.assertIn("[INFO] 没有指定模型，使用内置的LoRA示例", done.stdout)
                self.assertIn(line, done.stdout)


class Examples(Blocks):
    def test_they_run(self):
        for name, line in (("S1.12", "OK"), ("S1.13", "==== GPU Memory Timeline =====")):
            with self.subTest(name):
                program = truth.ROOT / reference_blocks.arguments_of(self.blocks[name].text)
                done = subprocess.run(SETUP.command(program), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                self.assertIn(line, done.stdout + done.stderr)


class OpacusScans(Blocks):
    """The options as printed, with a program of this project behind them: Opacus and its model are not everybody's."""

    def test_scans(self):
        program = f" -- {SETUP.python} {truth.PROGRAMS / 'swept.py'} --batch-size '{{batch_size}}' --width '{{seq_length}}'"
        for name, folder in (("S3.2", "memory_results"), ("S3.3", "detailed_results")):
            with self.subTest(name):
                command = self.blocks[name].text + program
                done = subprocess.run(["sh", "-c", f"{SETUP.python} {reference_blocks.arguments_of(command)}"], cwd=self.folder, env=truth.environment_of_plans(SETUP, PATH=self.environment["PATH"], PYTHONPATH=self.environment["PYTHONPATH"]), capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
                self.assertTrue((self.folder / folder / "detailed_memory_results.json").exists(), list((self.folder).iterdir()))
        self.assertRegex(done.stdout, r"\nComponent breakdown:\n(  [\w ]+: \d+\.\d\d GB\n)+")


RARER = ("test_blocks", "test_queries", "test_levels", "test_they_run", "test_scans", "test_all_at_once")

if __name__ == "__main__":
    truth.run_tests(globals(), RARER)
