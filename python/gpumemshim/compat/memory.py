# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""MemoryDebugger, MemoryProfiler, OOMDetector and MemoryLeakDetector; `python -m gpumemshim.compat.memory profile|oom|leak|monitor`.

    from gpumemshim.compat.memory import MemoryDebugger

    debugger = MemoryDebugger()
    debugger.start_monitoring()
    train()
    debugger.stop_monitoring()
    print(debugger.get_status_report())

Monitoring records each change of this process's memory; nothing is sampled, and intervals are of no account. Predictions are those of `gpumemshim forecast`.
"""

import datetime
import json
import logging
import sys
import threading
import time

from gpumemshim import _program
from gpumemshim._error import GpumemError
from gpumemshim._forecast import on_forecast
from gpumemshim._record import record
from gpumemshim.compat import _cuda, _memory_numbers
from gpumemshim.compat._cuda import MB
from gpumemshim.compat._memory_types import MemoryLeakEvent, MemorySnapshot, OOMPrediction, OOMRiskLevel

# Between looks at the counters, between looks at the trace while a GPU is nearly full, until the same is said again; what a callback is waited for.
LOOKS_S, NEARLY_FULL_S, REPEATS_S, CALLBACK_S = 1.0, 10.0, 60.0, 1.0
LOG = logging.getLogger(__name__)  # the tool's debug mode: logging.basicConfig(level=logging.DEBUG)


class Monitor:
    """What the tools here share: a recording that begins and ends with the monitoring."""

    BEGINS, ENDS = "[INFO] 开始监控 {count} 个GPU设备", "[INFO] 停止内存监控"

    def __init__(self, devices=None):
        self.devices, self.monitoring = devices, False
        self._recorder = self._recording = None

    def start_monitoring(self, devices=None):
        """devices: numbers of GPUs; default: all."""
        if self.monitoring:
            return
        self.devices = devices or self.devices or [gpu.device for gpu in _cuda.gpus()]
        self._recorder = record(name=type(self).__name__, optional=True, keep=True)
        self._recording, self.monitoring = self._recorder.__enter__(), True
        LOG.debug("%s: GPUs %s, recorded as %s", type(self).__name__, self.devices, self._recording.begin or "nothing: no recorder")
        print(self.BEGINS.format(count=len(self.devices), tool=self))

    def stop_monitoring(self):
        if self.monitoring:
            self._recorder.__exit__(None, None, None)
            self.monitoring = False
            print(self.ENDS)

    def _window(self):
        """Arguments that name what was recorded; None, and a warning, where there is nothing."""
        try:
            window = self._recording.window() if self._recording is not None else None
            LOG.debug("%s: asks %s", type(self).__name__, window)
            return window
        except GpumemError as error:
            print(f"[WARNING] 无法获取内存信息: {error}")
            return None

    def _is_chosen(self, device):
        return not self.devices or device in self.devices


class MemoryProfiler(Monitor):
    """What each GPU held over time. sampling_interval is of no account; max_snapshots: the most that snapshots() returns for a GPU."""

    def __init__(self, devices=None, sampling_interval=0.1, max_snapshots=10000):
        super().__init__(devices)
        self.sampling_interval, self.max_snapshots = sampling_interval, max_snapshots

    @property
    def snapshots(self):
        """{GPU: [MemorySnapshot, ...]} over time."""
        window = self._window()
        return {} if window is None else {device: rows[-self.max_snapshots :] for device, rows in _memory_numbers.snapshots_of(window).items() if self._is_chosen(device)}

    def get_current_status(self):
        """{GPU: {"current_used", "total", "utilization", "fragmentation", "free"}} in bytes and percent."""
        status = {}
        for device, rows in self.snapshots.items():
            last = rows[-1]
            status[device] = {"current_used": last.allocated, "total": last.total, "utilization": last.utilization, "fragmentation": last.fragmentation, "free": last.free}
        return status

    def generate_report(self, output_file):
        """{"timestamp", "devices", "summary"}, also written to a file as JSON."""
        window = self._window()
        report = {"timestamp": datetime.datetime.now().isoformat(), "devices": {}, "summary": {}} if window is None else _memory_numbers.status_of(window, self._is_chosen)
        with open(output_file, "w", encoding="utf-8") as out:
            json.dump(report, out, indent=2, ensure_ascii=False)
        return report


class OOMDetector(Monitor):
    """Calls warning_callback(OOMPrediction) while memory is likely to run out: at once when the risk becomes high or critical, then once a minute.

    Forecasts come from `gpumemshim forecast --watch`, beside the program; a thread here reads PyTorch's counters once a second, for what is nearly full already.
    threshold: percent of a GPU from which on a warning of the forecast is high. prediction_window is of no account. The callback runs in a thread of its own: what
    it raises is printed, and one that hangs delays neither the program nor stop_monitoring by more than a second.
    """

    BEGINS, ENDS = "[INFO] 开始OOM监控 (阈值: {tool.threshold}%)", "[INFO] 停止OOM监控"

    def __init__(self, threshold=85.0, prediction_window=10, warning_callback=None):
        super().__init__()
        self.threshold, self.prediction_window = threshold, prediction_window
        self.warning_callback = warning_callback or _memory_numbers.print_warning
        self._stop, self._thread, self._forecasts = threading.Event(), None, None
        self._saying, self._said, self._call = threading.Lock(), {}, None

    def start_monitoring(self, devices=None):
        if not self.monitoring:
            super().start_monitoring(devices)
            self._stop.clear()
            self._thread = threading.Thread(target=self._look, name="gpumemshim OOMDetector", daemon=True)
            self._thread.start()
            try:
                self._forecasts = on_forecast(self._heard, interval=LOOKS_S, pause=REPEATS_S)
            except GpumemError as error:
                print(f"[WARNING] 无法预测: {error}")

    def stop_monitoring(self):
        """Looks once more, then ends."""
        if self.monitoring:
            if self._forecasts is not None:
                self._forecasts.stop()
                self._forecasts = None
            self._stop.set()
            self._thread.join()
            self._warn(self.predict())
            if self._call is not None:
                self._call.join(CALLBACK_S)
            super().stop_monitoring()

    @property
    def memory_history(self):
        """{GPU: [(time, percent), ...]}."""
        window = self._window()
        return {} if window is None else {device: [(row.timestamp, row.utilization) for row in rows] for device, rows in _memory_numbers.snapshots_of(window).items()}

    def generate_risk_report(self, output_file=None):
        """{"timestamp", "predictions", "summary"}: each GPU's risk now, and how many GPUs have which level; also written to a file as JSON."""
        report = _memory_numbers.risks_of(self.predict())
        if output_file is not None:
            with open(output_file, "w", encoding="utf-8") as out:
                json.dump(report, out, indent=2, ensure_ascii=False)
        return report

    def predict(self):
        """[OOMPrediction, ...], one for each GPU."""
        window = self._window()
        if window is None:
            return []
        try:
            return [each for each in _memory_numbers.predictions_of(window, self.threshold) if self._is_chosen(each.device_id)]
        except GpumemError as error:
            print(f"[WARNING] 无法预测: {error}")
            return []

    def _heard(self, forecast):
        usage = next((gpu.reserved / gpu.total * 100 for gpu in _cuda.gpus() if gpu.device == forecast.device and gpu.total), 0.0)
        if self._is_chosen(forecast.device):
            self._warn([_memory_numbers.prediction_of_warning(forecast, usage, self.threshold)])

    def _look(self):
        looked = -NEARLY_FULL_S
        while not self._stop.wait(LOOKS_S):
            is_near = any(gpu.total and gpu.reserved / gpu.total * 100 > self.threshold for gpu in _cuda.gpus())
            if is_near and time.monotonic() - looked >= NEARLY_FULL_S and _program.own_trace() is not None:
                looked = time.monotonic()
                self._warn(self.predict())

    def _warn(self, predictions):
        with self._saying:
            for each in predictions:
                level, at = self._said.get(each.device_id, (None, 0.0))
                if each.risk_level not in (OOMRiskLevel.HIGH, OOMRiskLevel.CRITICAL) or (level == each.risk_level and time.monotonic() - at < REPEATS_S):
                    continue
                self._said[each.device_id] = (each.risk_level, time.monotonic())
                self._begin(each)

    def _begin(self, prediction):
        if self._call is not None:
            self._call.join(CALLBACK_S)
            if self._call.is_alive():
                print("[WARNING] 回调仍在运行: the callback before still runs, so this warning is left out")
                return
        self._call = threading.Thread(target=self._run, args=(prediction,), name="gpumemshim-callback", daemon=True)
        self._call.start()

    def _run(self, prediction):
        try:
            self.warning_callback(prediction)
        except BaseException as error:  # SystemExit, too: it would end this thread alone, and silently
            print(f"[ERROR] 错误: {type(error).__name__}: {error}")


class MemoryLeakDetector(Monitor):
    """Finds GPUs on which lines keep more from step to step while it monitors. leak_threshold: bytes that are no leak yet.

    is_judged: whether enough repeated at the last check, so that growth could be told from what is needed once; None before a check.
    """

    BEGINS, ENDS = "[INFO] 开始内存泄漏检测", "[INFO] 停止内存泄漏检测"

    def __init__(self, leak_threshold=100 * MB):
        super().__init__()
        self.leak_threshold, self.leak_events, self._began, self.is_judged = leak_threshold, [], time.time(), None

    def start_monitoring(self, devices=None):
        self._began = time.time()
        super().start_monitoring(devices)

    def check_for_leaks(self):
        """[MemoryLeakEvent, ...] of GPUs whose growing lines hold more than leak_threshold."""
        if not self.monitoring or self._window() is None:
            return []
        try:
            found, self.is_judged = _memory_numbers.growth_of(self._recording, self.leak_threshold, time.time() - self._began)
        except GpumemError as error:
            print(f"[WARNING] 无法获取内存信息: {error}")
            return []
        if not self.is_judged:
            print("[INFO] 无法判断: too few steps so far, or none, so growth cannot be judged")
        found = [each for each in found if self._is_chosen(each.device_id)]
        self.leak_events += found
        return found


class MemoryDebugger:
    """All of them together."""

    def __init__(self):
        self.profiler = self.oom_detector = self.leak_detector = None
        self.active_tools = []

    def start_monitoring(self, enable_profiler=True, enable_oom_detection=True, enable_leak_detection=True, devices=None, oom_threshold=85.0):
        print("[INFO] 启动内存调试工具...")
        self.profiler = MemoryProfiler() if enable_profiler else None
        self.oom_detector = OOMDetector(threshold=oom_threshold) if enable_oom_detection else None
        self.leak_detector = MemoryLeakDetector() if enable_leak_detection else None
        self.active_tools = [each for each in (self.profiler, self.oom_detector, self.leak_detector) if each is not None]
        for tool in self.active_tools:
            tool.start_monitoring(devices=devices)
        print(f"[INFO] 已启动 {len(self.active_tools)} 个监控工具")

    def stop_monitoring(self):
        print("[INFO] 停止所有内存监控工具...")
        if self.leak_detector is not None:
            self.leak_detector.check_for_leaks()
        for tool in reversed(self.active_tools):
            tool.stop_monitoring()
        self.active_tools = []
        print("[INFO] 所有监控工具已停止")

    def get_status_report(self):
        """{"timestamp", "active_tools", "memory_status", "devices", "summary", "recent_leaks"}; while monitoring and afterwards."""
        report = {"timestamp": datetime.datetime.now().isoformat(), "active_tools": len(self.active_tools)}
        window = self.profiler._window() if self.profiler is not None else None
        if window is not None:
            report["memory_status"] = self.profiler.get_current_status()
            whole = _memory_numbers.status_of(window, self.profiler._is_chosen)
            report.update(devices=whole["devices"], summary=whole["summary"])
        if self.leak_detector is not None:
            report["recent_leaks"] = len({each.device_id for each in self.leak_detector.leak_events if time.time() - each.timestamp < 3600})
        return report


__all__ = ["MemoryDebugger", "MemoryLeakDetector", "MemoryLeakEvent", "MemoryProfiler", "MemorySnapshot", "OOMDetector", "OOMPrediction", "OOMRiskLevel"]

if __name__ == "__main__":
    from gpumemshim.compat import _memory_cli

    sys.exit(_memory_cli.main())
