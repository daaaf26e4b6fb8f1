# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The command line of gpumemshim.compat.memory: of programs that are being recorded already (`gpumemshim ctl` lists them), or of a command that it starts.

    python -m gpumemshim.compat.memory profile --duration 60 --output profile.json
    python -m gpumemshim.compat.memory oom --threshold 85 --monitor
    python -m gpumemshim.compat.memory leak --check --threshold 100
    python -m gpumemshim.compat.memory monitor --all --duration 300
    python -m gpumemshim.compat.memory profile --duration 0 -- python train.py

Exit codes: 0; 1 leaks were found; 3 no program is being recorded, or none has an answer.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
import time

from gpumemshim import _program
from gpumemshim._error import GpumemError
from gpumemshim.compat import _memory_numbers
from gpumemshim.compat._cuda import MB
from gpumemshim.compat._memory_types import OOMRiskLevel
from gpumemshim.compat._memory_watch import Watches

STATUS_S, OOM_S = 10, 300
NOBODY = "[ERROR] 没有正在记录的程序: no program is being recorded. Start it with `gpumemshim run -- python train.py`, record it with `gpumemshim attach PID`, or name a command after --"


def parser_of_arguments():
    parser = argparse.ArgumentParser(prog="python -m gpumemshim.compat.memory", description="显存调试工具: GPU memory of recorded programs", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="profile|oom|leak|monitor", required=True)

    def add(name, text):
        one = commands.add_parser(name, help=text)
        one.add_argument("--devices", type=int, nargs="+", help="GPUs (default: all)")
        one.add_argument("--pid", type=int, help="only this program (default: all that are recorded)")
        return one

    profile = add("profile", "内存分析: a status report of some time")
    profile.add_argument("--duration", type=float, default=60, help="seconds; 0: until Ctrl-C, or the end of the programs (60)")
    profile.add_argument("--output", default="memory_profile.json", help="the report (memory_profile.json)")
    profile.add_argument("--interval", type=float, default=0.1, help="of no account: nothing is sampled")
    profile.add_argument("--plot", action="store_true", help="also a picture beside the report")
    oom = add("oom", "OOM检测: warnings before memory runs out")
    oom.add_argument("--threshold", type=float, default=85.0, help="percent of a GPU above which it is looked at closely (85)")
    oom.add_argument("--monitor", action="store_true", help="until Ctrl-C (default: 5 minutes)")
    oom.add_argument("--duration", type=float, default=None, help="seconds")
    oom.add_argument("--output", help="the risk report of the end, as JSON")
    leak = add("leak", "内存泄漏检测: what grows from step to step")
    leak.add_argument("--check", action="store_true", help="of no account: it is what this does")
    leak.add_argument("--threshold", type=float, default=100, help="MB that are no leak yet (100)")
    monitor = add("monitor", "全面监控: status, warnings, leaks")
    monitor.add_argument("--all", action="store_true", help="of no account: it is what this does")
    monitor.add_argument("--duration", type=float, default=0, help="seconds; 0: until Ctrl-C (0)")
    return parser


class Programs:
    """The recorded programs that are looked at: {pid: trace}. With a command, what it starts."""

    def __init__(self, pid, command):
        self.child, self.folder, self.pid = None, None, pid
        self.traces, self.mark = {}, f"monitor {os.getpid()} begins"
        self.marked, self.watches = set(), None
        if command:
            self.folder = tempfile.mkdtemp(prefix="gpumemshim-memory-")
            self.child = subprocess.Popen([_program.find(), "run", "-o", os.path.join(self.folder, "%p.gmtrace"), "--", *command])
        else:
            self.look()
            for each in self.traces:
                with contextlib.suppress(GpumemError):  # it has ended, or does not record now: then all of its trace counts
                    _program.run("ctl", each, "mark", self.mark)
                    self.marked.add(each)

    def look(self):
        """Which there are now; those that have ended stay."""
        if self.folder:
            self.traces = {name: os.path.join(self.folder, name) for name in os.listdir(self.folder) if name.endswith(".gmtrace")}
            return
        for each in _program.ask("ctl").get("processes", []):
            if each.get("file") and self.pid in (None, each["pid"]):
                self.traces.setdefault(each["pid"], each["file"])

    def windows(self):
        """Arguments that name each trace, from when this began; of a program that came later all of it."""
        self.look()
        found = []
        for pid, trace in self.traces.items():
            if not self.folder:
                with contextlib.suppress(GpumemError):  # it has ended: all is in its file
                    _program.run("ctl", pid, "flush")
            found.append(["--from", self.mark, trace] if pid in self.marked else [trace])
        return found

    def have_ended(self):
        if self.child is not None:
            return self.child.poll() is not None
        return not any(os.path.exists(f"/proc/{pid}") for pid in self.traces)

    def watch(self):
        """From now on wait() also yields when memory is about to run out in one of them."""
        self.watches = Watches()
        self.watches.follow(self.traces.values())

    def end(self):
        if self.watches is not None:
            self.watches.end()
        if self.child is not None and self.child.poll() is None:
            self.child.terminate()
            self.child.wait()

    def is_warned_of(self):
        if self.watches is None:
            return False
        if self.folder:
            self.look()
        self.watches.follow(self.traces.values())
        return self.watches.take_warning()

    def wait(self, stop, seconds):
        """Until so many seconds are over (None: no limit), or stop is set, or all have ended. Yields True about once in STATUS_S, and when one is warned of."""
        end, shown = None if not seconds else time.monotonic() + seconds, time.monotonic()
        while not stop.is_set() and not self.have_ended() and (end is None or time.monotonic() < end):
            left = 1.0 if end is None else min(1.0, end - time.monotonic())
            stop.wait(max(0.0, left))
            if self.is_warned_of() or time.monotonic() - shown >= STATUS_S:
                shown = time.monotonic()
                yield True


def profile(arguments, programs, stop):
    print(f"[INFO] 开始内存分析 (时长: {arguments.duration:g}秒)")
    for _ in programs.wait(stop, arguments.duration):
        print(f"   进度: {len(programs.traces)} 个程序")
    windows = programs.windows()
    report = merged(windows, arguments.devices)
    with open(arguments.output, "w", encoding="utf-8") as out:
        json.dump(report, out, indent=2, ensure_ascii=False)
    print(f"[INFO] 报告已保存: {arguments.output}")
    summary = report["summary"]
    print("[INFO] 监控摘要:", f"   设备数: {summary['total_devices']}", f"   总显存: {summary['total_memory_gb']:.2f} GB", f"   已使用: {summary['total_used_gb']:.2f} GB", sep="\n")
    print(f"   利用率: {summary['overall_utilization']:.1f}%")
    for number, window in enumerate(windows if arguments.plot else []):
        picture = f"{os.path.splitext(arguments.output)[0]}{f'.{number}' if number else ''}.png"
        _program.run("plot", "timeline", *window, "-o", picture)
        print(f"[INFO] 图表已保存: {picture}")
    return 0


def answers_of(windows, ask):
    """[(window, what `ask` says of it), ...] of the traces that have an answer; says which have none, and raises the last error where all have none."""
    found, error = [], None
    for window in windows:
        try:
            found.append((window, ask(window)))
        except GpumemError as problem:
            error = problem
            print(f"[WARNING] 无法获取内存信息: {window[-1]}: {problem}")
    if error is not None and not found:
        raise error
    return found


def merged(windows, devices):
    """The status of all programs together: sums are exact; of several on one GPU the highest is the sum of their highest, an upper bound."""
    every = [report for _, report in answers_of(windows, lambda window: _memory_numbers.status_of(window, lambda device: not devices or device in devices))]
    found = {}
    for report in every:
        for device, row in report["devices"].items():
            if device not in found:
                found[device] = json.loads(json.dumps(row))
                continue
            usage, more = found[device]["current_usage"], row["current_usage"]
            usage["allocated"] += more["allocated"]
            usage["utilization_percent"] += more["utilization_percent"]
            usage["free"] = None if usage["free"] is None else max(0, usage["free"] - more["allocated"])
            for key in found[device]["statistics"]:
                found[device]["statistics"][key] += row["statistics"][key]
            found[device]["statistics"]["max_is_upper_bound"] = True
    return {"timestamp": every[-1]["timestamp"] if every else None, "devices": found, "summary": _memory_numbers.summary_of(found), "programs": len(every)}


def warn(arguments, programs, threshold, said):
    """Prints a warning for each GPU of each program where the risk became high or critical. Returns how many were printed."""
    count = 0
    for window, foretold in answers_of(programs.windows(), lambda window: _memory_numbers.predictions_of(window, threshold)):
        for each in foretold:
            key = (window[-1], each.device_id)
            if arguments.devices and each.device_id not in arguments.devices:
                continue
            if each.risk_level in (OOMRiskLevel.HIGH, OOMRiskLevel.CRITICAL) and said.get(key) != each.risk_level:
                _memory_numbers.print_warning(each)
                said[key] = each.risk_level
                count += 1
    return count


def oom(arguments, programs, stop):
    seconds = arguments.duration if arguments.duration is not None else None if arguments.monitor or programs.child is not None else OOM_S
    print(f"[INFO] 开始OOM监控 (阈值: {arguments.threshold:g}%)" + (" - 按Ctrl+C停止" if seconds is None else ""))
    said = {}
    programs.watch()
    warn(arguments, programs, arguments.threshold, said)
    for _ in programs.wait(stop, seconds):
        warn(arguments, programs, arguments.threshold, said)
    warn(arguments, programs, arguments.threshold, said)
    foretold = [each for _, some in answers_of(programs.windows(), lambda window: _memory_numbers.predictions_of(window, arguments.threshold)) for each in some]
    report = _memory_numbers.risks_of([each for each in foretold if not arguments.devices or each.device_id in arguments.devices])
    print("[INFO] 风险汇总: " + ", ".join(f"{level}: {count}" for level, count in report["summary"].items()))
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as out:
            json.dump(report, out, indent=2, ensure_ascii=False)
        print(f"[INFO] 报告已保存: {arguments.output}")
    print("[INFO] 停止OOM监控")
    return 0


def leak(arguments, programs, stop):
    for _ in programs.wait(stop, None if programs.child is not None else 0.001):
        pass
    found, unknown = [], 0
    print("[INFO] 检查内存泄漏...")
    for _, answer in answers_of(programs.windows(), lambda window: _program.ask("leaks", window[-1])):
        unknown += not answer.get("leak_loops")
        for device in answer["devices"]:
            grown = [row for row in device["leaks"] if row["status"] == "growing"]
            size = sum(row["grown_bytes"] for row in grown)
            if size > arguments.threshold * MB and (not arguments.devices or device["device"] in arguments.devices):
                found.append((device["device"], size, [row["site"] for row in grown]))
    if found:
        print(f"[WARNING] 发现 {len(found)} 个潜在内存泄漏:")
        for device, size, sites in found:
            print(f"   GPU {device}: {size / MB:.1f} MB", f"   严重程度: {'high' if size > arguments.threshold * MB * 2 else 'medium'}", *(f"   来源: {site}" for site in sites[:5]), sep="\n")
    elif unknown:
        print("[INFO] 无法判断: too few steps so far, or none, so growth cannot be judged")
    else:
        print("[INFO] 未发现明显的内存泄漏")
    return 1 if found else 0


def print_status(arguments, programs):
    devices = merged(programs.windows(), arguments.devices)["devices"]
    print("[INFO] 状态: " + "; ".join(f"GPU {device}: {row['current_usage']['utilization_percent']:.1f}%" for device, row in devices.items()))


def monitor(arguments, programs, stop):
    print("[INFO] 全面监控中 - 按Ctrl+C停止")
    said = {}
    programs.watch()
    for _ in programs.wait(stop, arguments.duration or None):
        print_status(arguments, programs)
        warn(arguments, programs, 85.0, said)
    print_status(arguments, programs)
    return leak(argparse.Namespace(threshold=100, devices=arguments.devices), programs, stop)


def main(words=None):
    import sys

    words = list(sys.argv[1:] if words is None else words)
    command = words[words.index("--") + 1 :] if "--" in words else []
    arguments = parser_of_arguments().parse_args(words[: words.index("--")] if "--" in words else words)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    programs = None
    try:
        programs = Programs(arguments.pid, command)
        if not programs.traces and not command:
            print(NOBODY)
            return 3
        return {"profile": profile, "oom": oom, "leak": leak, "monitor": monitor}[arguments.command](arguments, programs, stop)
    except GpumemError as error:
        print(f"[ERROR] 错误: {error}")
        return 3
    finally:
        if programs is not None:
            programs.end()
